"""
Bad batches
===========

Rows often come in batches: one per sensor, hospital, supplier or day. When some batches are bad
throughout, a method that treats all rows alike has to find every wrong row by itself. Told which
rows belong together, easyfirst also learns how far to trust each batch.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import HuberRegressor, LinearRegression

from easyfirst import SelfPacedRegressor
from easyfirst.datasets import make_corrupted_regression

# %%
# Twelve sensors with 500 readings each. Five of them are broken: nine in ten of their readings
# are wrong, and one in ten of the others'.
X, y, sensor, clean, coef = make_corrupted_regression(
    500, 20, 12, mode="batches", n_bad_batches=5, random_state=3
)
print(f"{1 - clean.mean():.0%} of all readings are wrong")

# %%
# One argument says which rows belong together.
model = SelfPacedRegressor().fit(X, y, batches=sensor)
for name, other in {
    "easyfirst": model,
    "Huber": HuberRegressor(max_iter=1000).fit(X, y),
    "least squares": LinearRegression().fit(X, y),
}.items():
    print(f"{name}: coefficient error {np.linalg.norm(other.coef_ - coef):.3f}")

# %%
# The estimated share of clean readings of each sensor, beside the truth.
truth = np.array([clean[sensor == i].mean() for i in range(12)])
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for broken, color in ((False, "tab:blue"), (True, "tab:orange")):
    sensors = np.flatnonzero((model.batch_clean_share_ < 0.5) == broken)
    label = "estimated, broken" if broken else "estimated, sound"
    ax.bar(sensors, model.batch_clean_share_[sensors], color=color, label=label)
ax.scatter(np.arange(12), truth, color="black", marker="_", s=300, lw=2, label="truth")
ax.set(
    xticks=np.arange(12),
    ylim=(0, 1.25),
    xlabel="sensor",
    ylabel="share of clean readings",
    title="Five sensors are broken",
)
ax.legend(loc="upper center", ncols=3)
plt.show()
