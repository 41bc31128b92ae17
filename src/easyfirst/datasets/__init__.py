"""Data sets whose corrupted rows are known."""

from easyfirst.datasets.adversarial import make_adversarial_regression
from easyfirst.datasets.synthetic import CorruptedRegression, make_corrupted_regression

__all__ = ["CorruptedRegression", "make_adversarial_regression", "make_corrupted_regression"]
