"""Our own estimator beside the others: the default, the paper's settings, and what limits both."""

from __future__ import annotations

from typing import Any

from easyfirst.baselines.least_squares import LeastSquares
from easyfirst.baselines.method import Method, MethodFit, Told, one_model, plain
from easyfirst.estimators import SelfPacedRegressor
from easyfirst.schedules import Geometric

OURS = "easyfirst"
FIRST_PACE = 0.012  # where the paper's fig. 2 begins
SCALE = "a pace that fits the noise scale of the data"
UNCONVERGED = {"rho": 1.0, "over_relaxation": 1.0, "max_iter": 50}


def _default(told: Told) -> SelfPacedRegressor:
    return SelfPacedRegressor(
        fit_intercept=told.fit_intercept, random_state=told.seed, engine=told.engine
    )


def _paper(told: Told) -> SelfPacedRegressor:
    """Return the paper's method; one batch has nobody to agree with, so that is solved at once."""
    solver = "admm" if told.batch_ratios else "gram"
    return SelfPacedRegressor.paper(
        fit_intercept=told.fit_intercept, engine=told.engine, solver=solver
    )


def _paper_until(told: Told) -> SelfPacedRegressor:
    """Return the paper's method, with a pace that ends where it is told.

    The Gram solver gives what a converged ADMM gives, in less time.
    """
    if told.last_pace is None:
        raise ValueError("this method needs the pace at which to end")
    start = min(FIRST_PACE, told.last_pace)
    pace = Geometric(start=start, factor=1.1, ceiling=told.last_pace)
    return _paper(told).set_params(solver="gram", pace=pace)


def _with_lagrangian(model: Any) -> MethodFit:
    return MethodFit(one_model(model).models, {"lagrangian": model.history_.rounds[-1].lagrangian})


METHODS = (
    Method(
        "clean-labels",
        "limit: least squares on uncorrupted labels",
        plain(LeastSquares),
        rows="uncorrupted",
        kind="limit",
        experiments=("rental",),
        order=0,
        cost=0.1,
    ),
    Method(
        "clean-labels-easyfirst",
        "limit: easyfirst on uncorrupted labels",
        _default,
        rows="uncorrupted",
        kind="limit",
        experiments=("rental",),
        order=1,
        cost=0.8,
    ),
    Method(
        "oracle",
        "oracle: least squares on the clean rows",
        plain(LeastSquares),
        rows="clean",
        kind="limit",
        order=2,
        cost=0.1,
    ),
    Method(
        OURS, "easyfirst, default", _default, kind="ours", compare=(OURS, OURS), order=3, cost=0.8
    ),
    Method(
        "dspl",
        "DSPL, converged",
        _paper,
        told=SCALE,
        needs_unit=True,
        compare=("dspl", "DSPL, as in the paper"),
        order=4,
        cost=1.3,
    ),
    Method(
        "dspl-as-is",
        "DSPL, converged, y as it is",
        _paper,
        experiments=("rental",),
        order=4.5,
        cost=1.3,
    ),
    Method(
        "dspl-rho1",
        "DSPL, rho = 1, 50 iterations",
        lambda told: _paper(told).set_params(**UNCONVERGED),
        told=SCALE,
        needs_unit=True,
        experiments=(),
        order=4.5,
        cost=1.8,
    ),
    Method(
        "dspl-until",
        "DSPL, pace ends here",
        _paper_until,
        read=_with_lagrangian,
        told=SCALE,
        needs_pace=True,
        experiments=(),
        order=4.5,
        cost=1.0,
    ),
)
