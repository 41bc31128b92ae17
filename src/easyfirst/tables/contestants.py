"""The methods that can be compared on a user's table, each as its authors or scikit-learn set it.

Nobody knows the corruption ratio or the noise of a user's data, so no method is told either of
them by our fit. TORRENT, which has to be told a ratio, is told one minus the share by which all
are judged. Paces that are written in units of y get y in the unit in which Huber's residuals are
as large as the noise that the paper's pace was made for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import (
    HuberRegressor,
    LinearRegression,
    RANSACRegressor,
    TheilSenRegressor,
)

from easyfirst.baselines import DRLR, ORLR, RLHH, SPL, STIR, SVAM, Torrent, Torrent25
from easyfirst.contracts import Matrix, Vector
from easyfirst.estimators import SelfPacedRegressor

OURS = "easyfirst"
PAPER_NOISE = float(np.sqrt(0.1))  # the noise for which the paper's pace, 0.1 to 1, was made
HUBER_ITERATIONS = 1000


@dataclass(frozen=True)
class Task:
    """What every method is told: the share of rows by which it is judged, and a seed."""

    share: float
    seed: int


@dataclass(frozen=True)
class Contestant:
    """A method: its name, what it is, how to build it, and whether its pace is in units of y."""

    name: str
    label: str
    build: Callable[[Task], Any]
    needs_unit: bool = False


_ALL = (
    Contestant(OURS, "easyfirst", lambda task: SelfPacedRegressor(random_state=task.seed)),
    Contestant("ols", "least squares", lambda task: LinearRegression()),
    Contestant("huber", "Huber", lambda task: HuberRegressor(max_iter=HUBER_ITERATIONS)),
    Contestant("ransac", "RANSAC", lambda task: RANSACRegressor(random_state=task.seed)),
    Contestant("theil-sen", "Theil-Sen", lambda task: TheilSenRegressor(random_state=task.seed)),
    Contestant("dspl", "DSPL, as in the paper", lambda task: _paper(), needs_unit=True),
    Contestant("torrent", "TORRENT", lambda task: Torrent(corruption_ratio=1.0 - task.share)),
    Contestant(
        "torrent25",
        "TORRENT, ratios 25 % around",
        lambda task: Torrent25(corruption_ratio=1.0 - task.share),
    ),
    Contestant("rlhh", "RLHH", lambda task: RLHH(), needs_unit=True),
    Contestant("drlr", "DRLR", lambda task: DRLR(), needs_unit=True),
    Contestant("orlr", "ORLR", lambda task: ORLR(), needs_unit=True),
    Contestant("spl", "SPL", lambda task: SPL(), needs_unit=True),
    Contestant("stir", "STIR", lambda task: STIR(), needs_unit=True),
    Contestant("svam", "SVAM", lambda task: SVAM(), needs_unit=True),
)
CONTESTANTS = {each.name: each for each in _ALL}


def _paper() -> SelfPacedRegressor:
    return SelfPacedRegressor.paper(fit_intercept=True, solver="gram")


def huber_unit(X: Matrix, y: Vector) -> float:
    """Return what to divide y by so that Huber's residuals are like the paper's noise."""
    model = HuberRegressor(max_iter=HUBER_ITERATIONS).fit(X, y)
    spread = 1.4826 * float(np.median(np.abs(y - model.predict(X))))
    return spread / PAPER_NOISE if spread > 0 else 1.0
