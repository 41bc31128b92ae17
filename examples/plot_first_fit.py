"""
A first fit
===========

A third of these rows are wrong, and all of them are wrong in the same direction. Least squares
is drawn towards them. easyfirst takes the easy rows first, lets harder ones in only as far as
they still look clean, and says which rows it left out.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression

from easyfirst import SelfPacedRegressor

# %%
# Rows around the line 2 x + 1; every third reads up to 20 too much, on the right more than on
# the left.
rng = np.random.default_rng(0)
X = rng.uniform(0, 10, size=(300, 1))
y = 2 * X[:, 0] + 1 + rng.normal(scale=0.7, size=300)
wrong = rng.random(300) < 1 / 3
y[wrong] += rng.uniform(2, 4, size=wrong.sum()) * X[wrong, 0] ** 0.7

# %%
# There is nothing to tune: no threshold, no noise scale, no share of wrong rows.
model = SelfPacedRegressor().fit(X, y)
plain = LinearRegression().fit(X, y)

print(model.status_)
print(f"slope: easyfirst {model.coef_[0]:.2f}, least squares {plain.coef_[0]:.2f}, truth 2.00")
low, high = model.corrupted_interval_
print(f"corrupted rows: {model.corrupted_fraction_:.0%}, between {low:.0%} and {high:.0%}")

# %%
# The weight of a row is the probability that it is clean.
line = np.array([[0.0], [10.0]])
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
points = ax.scatter(X[:, 0], y, c=model.weights_, cmap="cividis", s=14)
ax.plot(line, model.predict(line), color="tab:blue", lw=2, label="easyfirst")
ax.plot(line, plain.predict(line), color="tab:red", lw=2, ls="--", label="least squares")
ax.fill_between(line[:, 0], *model.predict_interval(line).T, alpha=0.15, label="90 % of clean rows")
figure.colorbar(points, label="probability that the row is clean")
ax.set(xlabel="x", ylabel="y", title="A third of the rows are wrong")
ax.legend(loc="upper left")
plt.show()
