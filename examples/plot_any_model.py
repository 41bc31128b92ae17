"""
Wrong rows around a curve
=========================

A line calls the bends of a curve wrong. A regressor that can follow them finds the values that are.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import KNeighborsRegressor

from easyfirst import SelfPaced

# %%
# A curve, and every fifth value replaced by one of another row.
rng = np.random.default_rng(0)
X = np.sort(rng.uniform(0.0, 6.0, (400, 1)), axis=0)
truth = 3.0 * np.sin(2.0 * X[:, 0]) + X[:, 0]
y = truth + 0.3 * rng.standard_normal(400)
moved = rng.choice(400, 80, replace=False)
y[moved] = y[rng.permutation(moved)]

# %%
# Every row is judged by models that have not seen it.
model = SelfPaced(KNeighborsRegressor(15)).fit(X, y)
bare = KNeighborsRegressor(15).fit(X, y)
for name, each in (("bare", bare), ("self-paced", model)):
    print(f"{name}: off by {np.mean(np.abs(each.predict(X) - truth)):.2f}")
print(model.summary())

# %%
# What was set aside, and how far from the curve clean rows may lie.
low, high = model.predict_interval(X, coverage=0.95).T
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.fill_between(X[:, 0], low, high, alpha=0.2, label="95 % of clean rows")
axes.plot(X[:, 0], model.predict(X), label="self-paced")
axes.plot(X[:, 0], bare.predict(X), linestyle=":", label="bare")
kept = model.selected_
axes.scatter(X[kept, 0], y[kept], s=6, color="0.4")
axes.scatter(X[~kept, 0], y[~kept], s=16, marker="x", color="tab:red", label="looks wrong")
axes.legend()
plt.show()
