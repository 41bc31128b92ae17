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
from scipy.special import expit

from easyfirst.consensus.solvers.gram import inverse_root
from easyfirst.contracts import Batch, Matrix, Step, Vector, Workers
from easyfirst.local import labels
from easyfirst.local.design import Design
from easyfirst.local.labels import LabelProblem
from easyfirst.local.weighing import importance

COLUMNS_FOR_MATRICES = 2_000  # beyond, columns are brought to one scale, and stay correlated
POLISHES = 2  # Newton steps at the end
LEAST_CURVED = 0.02  # of a row: where a start is sure of it, the optimum may not be
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
    """Coordinates in which the rows are round: coefficients are `root` times theirs.

    There are none for directions that no row speaks of.
    """

    root: Matrix

    @classmethod
    def of(cls, curvature: Any, penalty: Vector) -> Preconditioner:
        """Return the preconditioner of the loss's second derivative, or of its diagonal."""
        if curvature.ndim == 1:
            return cls(1.0 / np.sqrt(np.maximum(curvature + 2.0 * penalty, 1e-300)))
        return cls(inverse_root(curvature, 2.0 * penalty))

    @property
    def n_directions(self) -> int:
        """The number of coordinates."""
        return int(self.root.shape[-1])

    def to_coef(self, point: Matrix) -> Matrix:
        """Return the coefficients of a point, line by line."""
        return np.asarray(point * self.root if self.root.ndim == 1 else point @ self.root.T)

    def to_gradient(self, gradient: Matrix) -> Matrix:
        """Return the gradient in these coordinates."""
        return np.asarray(gradient * self.root if self.root.ndim == 1 else gradient @ self.root)


def curvature_of(rows: Batch, problem: LabelProblem, start: Matrix | None) -> Any:
    """Return the second derivative of the loss by some rows, or its diagonal where that is large.

    At a start for two classes, else at its largest.
    """
    design, weight = Design(rows.X, problem.coordinates), importance(rows)
    weight = weight * problem.class_weight[labels.codes_of(rows, problem)]
    if start is None or len(start) > 1:
        weight = 0.25 * weight
    else:
        second = expit(design.times(start[0]))
        weight = weight * np.maximum(second * (1.0 - second), LEAST_CURVED)
    if rows.n_features > COLUMNS_FOR_MATRICES:
        return design.squares(weight)
    return design.gram(weight, rows.y)[0]


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
    start: Matrix | None = None,
    polished: float = np.inf,
) -> LinearFit:
    """Minimise the sum of what `step` returns for every batch, plus the penalty.

    The objective cannot tell steps apart that are shorter than a root of its rounding: gradients
    above `polished` make Newton steps go on without it.
    """
    shape = (problem.n_lines, preconditioner.n_directions)
    origin = np.zeros((problem.n_lines, penalty.size)) if start is None else start

    def objective(flat: Vector) -> tuple[float, Vector]:
        coef = origin + preconditioner.to_coef(flat.reshape(shape))
        replies = workers.map(step, messages, (problem, coef))
        value = float(np.sum([reply[0] for reply in replies]))
        gradient = np.sum([reply[1] for reply in replies], axis=0) + 2.0 * penalty * coef
        value += float(np.sum(penalty * np.square(coef)))
        return value, preconditioner.to_gradient(gradient).ravel()

    # In these coordinates the curvature is about one, so gradients are lengths of steps; a step of
    # one is the standard error of a coefficient.
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
        message = (problem, origin + preconditioner.to_coef(point.reshape(shape)), direction)
        bent = np.sum(workers.map(labels.curve, messages, message), axis=0)
        return preconditioner.to_gradient(bent + 2.0 * penalty * direction).ravel()

    for _ in range(POLISHES):
        if np.max(np.abs(slope), initial=0.0) <= polished:
            break
        there = point - _solved(curve, slope)
        next_slope = objective(there)[1]
        if not np.linalg.norm(next_slope) < np.linalg.norm(slope):
            break
        point, slope = there, next_slope
    steepest = float(np.max(np.abs(slope), initial=0.0))
    return LinearFit(
        coef=origin + preconditioner.to_coef(point.reshape(shape)),
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
