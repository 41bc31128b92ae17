"""Losses: elementwise functions of (y, prediction), each with two derivatives.

A loss returns one number per row. Sums and means are taken elsewhere, because self-paced
learning needs to see every row's own loss.
"""

from easyfirst.losses.base import Loss
from easyfirst.losses.counts import GammaDeviance, PoissonDeviance
from easyfirst.losses.labels import Logistic, SquaredHinge
from easyfirst.losses.residuals import Absolute, Cauchy, Huber, Pinball, Squared

__all__ = [
    "Absolute",
    "Cauchy",
    "GammaDeviance",
    "Huber",
    "Logistic",
    "Loss",
    "Pinball",
    "PoissonDeviance",
    "Squared",
    "SquaredHinge",
]
