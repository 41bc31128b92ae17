"""From the coefficients of many batches, some of them wrong, to one model."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from easyfirst.contracts import Matrix, Vector

MAX_STEPS = 1000
STEP_TOLERANCE = 1e-12  # relative to the spread of the points


def majority(points: Matrix) -> NDArray[np.intp]:
    """Return the floor(m / 2) + 1 points that lie closest together, in order of their index.

    The pivot is the point whose ball around itself reaches that many points with the smallest
    radius; the points of that ball are returned.
    """
    needed = len(points) // 2 + 1
    distances = np.linalg.norm(points[:, None, :] - points[None, :, :], axis=2)
    pivot = int(np.argmin(np.sort(distances, axis=1)[:, needed - 1]))
    return np.sort(np.argsort(distances[pivot], kind="stable")[:needed])


def geometric_median(points: Matrix) -> Vector:
    """Return the point with the least sum of distances to the given points.

    Weiszfeld's iteration, with the step of Vardi and Zhang where an iterate meets a point.

    Examples
    --------
    >>> import numpy as np
    >>> geometric_median(np.array([[0.0], [1.0], [50.0]])).round(6)
    array([1.])
    """
    spread = float(np.max(np.linalg.norm(points - points.mean(axis=0), axis=1)))
    at = np.median(points, axis=0)
    for _ in range(MAX_STEPS):
        distances = np.linalg.norm(points - at, axis=1)
        away = distances > STEP_TOLERANCE * spread
        if not away.any():
            break
        pulls = 1.0 / distances[away]
        target = pulls @ points[away] / pulls.sum()
        met = float(np.count_nonzero(~away))
        # A point that is met holds on with force one each; the others pull with this force.
        force = float(np.linalg.norm(pulls @ (points[away] - at)))
        share = min(1.0, met / force) if force > 0 else 1.0
        move = (1.0 - share) * (target - at)
        at = at + move
        if np.linalg.norm(move) <= STEP_TOLERANCE * spread:
            break
    return np.asarray(at)


def consolidate(
    points: Matrix, members: NDArray[np.intp], how: Literal["median", "mean"]
) -> Vector:
    """Return the geometric median, or the mean, of the points in the majority."""
    chosen = points[members]
    return geometric_median(chosen) if how == "median" else np.asarray(chosen.mean(axis=0))
