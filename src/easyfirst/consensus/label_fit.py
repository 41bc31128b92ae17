"""The linear model of classes for labels as they are thought to be: one smooth problem.

Quasi-Newton steps on the driver, each one message to every batch and back, in coordinates in which
the columns are neither correlated nor of different scales.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from easyfirst.contracts import Matrix, Step, Vector, Workers
from easyfirst.local import labels
from easyfirst.local.labels import LabelProblem

COLUMNS_FOR_MATRICES = 2_000  # beyond, columns are brought to one scale, and stay correlated
FLOOR = 1e-10  # of the largest eigenvalue: directions that no row speaks of
POLISHES = 2  # Newton steps at the end
DIGITS, MOST_PRODUCTS = 1e-3, 30  # of one of them
MEMORY = 20  # steps that a quasi-Newton step remembers


@dataclass(frozen=True, eq=False)
class LinearFit:
    """Coefficients in the frame, one line per class (one line for two classes)."""

    coef: Matrix
    objective: float
    gradient: float  # the largest entry, per row and in the coordinates of the preconditioner
    iterations: int
    converged: bool


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """Coordinates in which the rows are round: coefficients are `root` times theirs."""

    root: Matrix

    @classmethod
    def of(cls, gram: Any, penalty: Vector) -> Preconditioner:
        """Return the preconditioner of a Gram matrix, or of its diagonal."""
        if gram.ndim == 1:
            return cls(1.0 / np.sqrt(np.maximum(0.25 * gram + 2.0 * penalty, 1e-300)))
        values, vectors = np.linalg.eigh(0.25 * gram + np.diag(2.0 * penalty))
        values = np.maximum(values, FLOOR * max(float(values[-1]), 1e-300))
        return cls(vectors / np.sqrt(values))

    def to_coef(self, point: Matrix) -> Matrix:
        """Return the coefficients of a point, line by line."""
        return np.asarray(point * self.root if self.root.ndim == 1 else point @ self.root.T)

    def to_gradient(self, gradient: Matrix) -> Matrix:
        """Return the gradient in these coordinates."""
        return np.asarray(gradient * self.root if self.root.ndim == 1 else gradient @ self.root)


def penalty_of(strength: float, n_coef: int, fit_intercept: bool) -> Vector:
    """Return the strength for every coefficient; the intercept has none."""
    penalty = np.full(n_coef, strength)
    if fit_intercept:
        penalty[-1] = 0.0
    return penalty


def fit_labels(
    workers: Workers,
    step: Step,
    messages: Sequence[Any],
    problem: LabelProblem,
    preconditioner: Preconditioner,
    penalty: Vector,
    tol: float,
    max_iter: int,
    polishes: bool = False,
) -> LinearFit:
    """Minimise the sum of what `step` returns for every batch, plus the penalty.

    The objective cannot tell steps apart that are shorter than a root of its rounding; to polish is
    to go on by the gradient alone.
    """
    shape = (1 if problem.n_classes == 2 else problem.n_classes, penalty.size)

    def objective(flat: Vector) -> tuple[float, Vector]:
        coef = preconditioner.to_coef(flat.reshape(shape))
        replies = workers.map(step, messages, (problem, coef))
        value = float(np.sum([reply[0] for reply in replies]))
        gradient = np.sum([reply[1] for reply in replies], axis=0) + 2.0 * penalty * coef
        value += float(np.sum(penalty * np.square(coef)))
        return value, preconditioner.to_gradient(gradient).ravel()

    # In these coordinates the curvature is at most one, so gradients are lengths of steps; a step
    # of one is the standard error of a coefficient.
    found = minimize(
        objective,
        np.zeros(shape[0] * shape[1]),
        jac=True,
        method="L-BFGS-B",
        options={"gtol": tol, "ftol": 0.0, "maxiter": max_iter, "maxcor": MEMORY},
    )
    point, slope = found.x, found.jac

    def curve(flat: Vector) -> Vector:
        direction = preconditioner.to_coef(flat.reshape(shape))
        message = (problem, preconditioner.to_coef(point.reshape(shape)), direction)
        bent = np.sum(workers.map(labels.curve, messages, message), axis=0)
        return preconditioner.to_gradient(bent + 2.0 * penalty * direction).ravel()

    for _ in range(POLISHES if polishes else 0):
        there = point - _solved(curve, slope)
        next_slope = objective(there)[1]
        if not np.linalg.norm(next_slope) < np.linalg.norm(slope):
            break
        point, slope = there, next_slope
    steepest = float(np.max(np.abs(slope), initial=0.0))
    return LinearFit(
        coef=preconditioner.to_coef(point.reshape(shape)),
        objective=float(found.fun),
        gradient=steepest,
        iterations=int(found.nit),
        # Rounding of the objective ends the search where the gradient cannot fall any more.
        converged=bool(steepest <= max(tol, 1e-6 * np.sqrt(1.0 + abs(float(found.fun))))),
    )


def _solved(curve: Callable[[Vector], Vector], target: Vector) -> Vector:
    """Return the solution of curve(x) = target by conjugate gradients, to a few digits."""
    found, rest = np.zeros_like(target), target
    direction, size = rest, float(rest @ rest)
    enough = size * DIGITS**2
    for _ in range(MOST_PRODUCTS):
        bent = curve(direction)
        bend = float(direction @ bent)
        if size <= enough or bend <= 0:
            break
        length = size / bend
        found, rest = found + length * direction, rest - length * bent
        last, size = size, float(rest @ rest)
        direction = rest + size / last * direction
    return found
