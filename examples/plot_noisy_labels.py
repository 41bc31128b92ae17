"""
Noisy labels
============

A third of one class was labelled as the other. A logistic regression on these labels moves its
boundary; `SelfPacedClassifier` estimates how often labels are wrong, says which ones, and keeps
the boundary where it belongs.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from easyfirst import SelfPacedClassifier

# %%
# Two clouds of rows that overlap a little. A third of the second class is given the first label.
rng = np.random.default_rng(1)
right = rng.integers(0, 2, 2000)
X = rng.normal(size=(2000, 2)) + 2.5 * right[:, None] * np.array([1.0, 0.6])
given = np.where((right == 1) & (rng.random(2000) < 0.33), 0, right)

model = SelfPacedClassifier().fit(X, given)
plain = LogisticRegression().fit(X, given)
print(model.label_noise_.round(2))
print(f"right labels predicted: {model.score(X, right):.1%}, plain: {plain.score(X, right):.1%}")

# %%
# The labels that look wrong, and the two boundaries.
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
for label, color in ((0, "tab:blue"), (1, "tab:orange")):
    own = (given == label) & model.selected_
    ax.scatter(*X[own].T, s=6, color=color, alpha=0.4, label=f"given {label}")
ax.scatter(*X[~model.selected_].T, s=10, color="tab:red", marker="x", label="looks wrong")
x = np.array([-3.0, 6.0])
for fit, style, name in ((model, "-", "easyfirst"), (plain, "--", "logistic regression")):
    slope, other = fit.coef_[0]
    ax.plot(x, -(fit.intercept_[0] + slope * x) / other, style, color="black", label=name)
ax.set(xlim=(-3.0, 6.0), ylim=(-4.0, 6.0), title="A third of the second class is labelled 0")
ax.legend(loc="upper left")
plt.show()
