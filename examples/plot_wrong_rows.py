"""
Which rows are wrong?
=====================

Somebody typed 500 measurements. In some of them the decimal point slipped, in some the sign was
lost, and some were copied from the row above. Which ones should be looked up again?
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from easyfirst import SelfPacedRegressor
from easyfirst.report import ResidualDisplay, WeightDisplay

# %%
# The table, and three kinds of mistakes in its last column.
rng = np.random.default_rng(1)
table = pd.DataFrame(
    {"length": rng.normal(30, 5, 500), "width": rng.normal(12, 2, 500)},
    index=[f"sheet {i // 25 + 1}, line {i % 25 + 1}" for i in range(500)],
)
weight = 1.8 * table["length"] - 2.5 * table["width"] + rng.normal(scale=1.5, size=500)
typed = weight.to_numpy(copy=True)
slipped, unsigned, copied = np.split(rng.choice(np.arange(1, 500), 60, replace=False), [20, 40])
typed[slipped] *= 10
typed[unsigned] *= -1
typed[copied] = typed[copied - 1]

# %%
# Every row that is more likely wrong than right, the worst first. The columns are those of
# cleanlab, and the reason is a sentence.
model = SelfPacedRegressor().fit(table, typed)
suspects = model.suspects(table, typed)
print(suspects[["given_label", "predicted_label", "residual"]].head(8).round(1))
print(suspects["reason"].iloc[0])

# %%
# How many of the mistakes were found? A number copied from a row that looks alike cannot be.
mistakes = {"slipped": slipped, "unsigned": unsigned, "copied": copied}
for kind, rows in mistakes.items():
    found = table.index[rows].isin(suspects["row_id"])
    print(f"{kind}: {found.sum()} of {len(rows)} found")
genuine = table.index[np.concatenate(list(mistakes.values()))]
print(f"false alarms: {(~suspects['row_id'].isin(genuine)).sum()} of {500 - len(genuine)} rows")

# %%
# The residuals fall into a clean part and the rest, and few rows are in doubt.
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
ResidualDisplay.from_estimator(model, table, typed, ax=axes[0])
WeightDisplay.from_estimator(model, ax=axes[1])
plt.show()
