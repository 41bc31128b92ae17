"""Data sets whose corrupted rows are known."""

from easyfirst.datasets.synthetic import CorruptedRegression, make_corrupted_regression

__all__ = ["CorruptedRegression", "make_corrupted_regression"]
