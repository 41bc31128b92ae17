"""
Save, load, and export to ONNX
==============================

A fitted model becomes a file that holds numbers and text and never code. Where easyfirst is not
installed, `to_sklearn` gives scikit-learn's own linear model with the same predictions, and from
there ONNX carries it into other languages. Needs the 'onnx' extra.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
import skl2onnx
from skl2onnx.common.data_types import DoubleTensorType

import easyfirst
from easyfirst.datasets import make_corrupted_regression
from easyfirst.errors import ModelFileError

X, y, _, clean, _ = make_corrupted_regression(corruption_ratio=0.4, random_state=0)
model = easyfirst.SelfPacedRegressor().fit(X, y)

# %%
# The file is complete or not there, refused when damaged, and gives back every bit.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.safetensors"
    model.save(path)
    again = easyfirst.load(path)
    print(f"{path.stat().st_size:,} bytes")
    path.write_bytes(path.read_bytes()[:-1])
    try:
        easyfirst.load(path)
    except ModelFileError as error:
        print(str(error).removeprefix(folder))
print("bit-for-bit identical:", np.array_equal(again.predict(X), model.predict(X)))

# %%
# The same model in ONNX.
graph = skl2onnx.to_onnx(
    model.to_sklearn(), initial_types=[("X", DoubleTensorType([None, X.shape[1]]))]
)
session = onnxruntime.InferenceSession(
    graph.SerializeToString(), providers=["CPUExecutionProvider"]
)
exported = session.run(None, {"X": X})[0].ravel()
print(f"largest difference: {np.max(np.abs(exported - model.predict(X))):.1e}")

# %%
figure, ax = plt.subplots(figsize=(5, 4.5), layout="constrained")
ax.scatter(model.predict(X), exported, c=clean, cmap="cividis", s=6)
ax.axline((0, 0), slope=1, color="black", lw=0.5)
ax.set(xlabel="prediction of easyfirst", ylabel="prediction of ONNX", title="One model, two homes")
plt.show()
