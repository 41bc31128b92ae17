"""Rows whose y is a number, judged around a model of any shape until the weights stand still."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from easyfirst.consensus.model import Calibration
from easyfirst.consensus.status import Status
from easyfirst.contracts import Vector
from easyfirst.estimators import validation
from easyfirst.estimators.paced_rows import Fits, Rows
from easyfirst.noise.fitting import WIDE
from easyfirst.noise.of_rows import RowNoise, read_noise, shares_of_batches
from easyfirst.regularizers import SelfPacedRegularizer
from easyfirst.summaries import histogram

SHAPE_UNKNOWN = 2.0  # how much wider an interval for the share is because the shape is estimated
MOSTLY_WRONG = 0.45  # corrupted share from which other models of the rows are as likely
FEW_WRONG = 0.1  # corrupted share below which the bare model may be the better one
FAR = 3.0  # standard deviations of y within which values are first taken as they are


@dataclass(frozen=True, eq=False)
class ValueSettings:
    """How rows are judged: the model, the one that judges first, and how rounds end."""

    estimator: Any
    start: Any
    regularizer: SelfPacedRegularizer
    n_repeats: int
    max_rounds: int
    tol: float
    seed: int


@dataclass(frozen=True, eq=False)
class SettledValues:
    """What was found of every row: a prediction by others, a weight, and how much it pulls."""

    prediction: Vector
    noise: RowNoise
    weight: Vector
    pull: Vector
    batch_shares: Vector
    status: Status


@dataclass(frozen=True, eq=False)
class _Look:
    """Rows as a prediction shows them."""

    prediction: Vector
    noise: RowNoise
    weight: Vector
    shares: Vector


def settle_values(rows: Rows, fits: Fits, settings: ValueSettings) -> SettledValues:
    """Judge and fit by turns until the weights stand still."""
    anchor = spread_of(rows.y, rows.weight)
    if fits.n_folds < 2:  # nothing to compare the only row with
        at = _look(rows, rows.y.astype(np.float64), anchor, settings)
        status = Status("converged", "There was nothing to compare.", converged=True)
        return SettledValues(
            at.prediction, at.noise, np.ones(rows.y.size), rows.weight, np.ones(1), status
        )
    weight, changed = np.ones(rows.y.size), np.inf
    prediction = _first_predictions(rows, fits, settings, anchor)
    for number in range(settings.max_rounds):
        began = time.perf_counter()
        at = _look(rows, prediction, anchor, settings)
        changed = float(np.average(np.abs(at.weight - weight), weights=rows.weight))
        weight = at.weight
        fits.note(weight, changed, at.noise.noise.reach**2, time.perf_counter() - began)
        if number > 0 and changed <= settings.tol:
            break
        prediction = fits.ask(settings.estimator, rows, _pulls(rows, at))
    pulls = _pulls(rows, at)
    more = [
        fits.ask(settings.estimator, rows, pulls, repeat) for repeat in range(1, settings.n_repeats)
    ]
    at = _look(rows, np.mean([prediction, *more], axis=0), anchor, settings)
    pulls = _pulls(rows, at)
    if bare_is_better(rows, at, fits, settings, prediction):
        pulls = rows.weight
    status = fits.status(changed, settings.tol)
    return SettledValues(at.prediction, at.noise, at.weight, pulls, at.shares, status)


def _look(rows: Rows, prediction: Vector, anchor: float, settings: ValueSettings) -> _Look:
    """Return noise and weights, every row being judged by the share of its batch."""
    noise = read_noise(rows.y, prediction, rows.weight, anchor)
    odds, share = noise.odds(prediction, rows.y), noise.clean_share
    own = shares_of_batches(odds, rows.weight, rows.batch, share)
    if own.size > 1:
        odds = odds * ((1.0 - own) / own * (share / max(1.0 - share, 1e-12)))[rows.batch]
    shares = own if own.size > 1 else np.array([share])
    rule, weight = settings.regularizer, 1.0 / (1.0 + odds)
    if not rule.is_posterior:
        z = (rows.y - prediction) / noise.scale(prediction)
        scaled = rule.with_width(2.0 * noise.noise.scale**2)
        weight = scaled.weights(np.square(z), noise.noise.reach**2)
    return _Look(prediction, noise, np.where(rows.trusted, 1.0, weight), shares)


def _pulls(rows: Rows, at: _Look) -> Vector:
    """Return how much each row counts in the next fit.

    Where some rows look wrong, uncertain rows far out pull less, as the tails of the noise say.
    """
    if at.noise.finds_nothing:
        return rows.weight
    pull = np.where(rows.trusted, 1.0, at.noise.pull(at.prediction, rows.y))
    return np.asarray(rows.weight * at.weight * pull)


def bare_is_better(
    rows: Rows, at: _Look, fits: Fits, settings: ValueSettings, paced: Vector
) -> bool:
    """Return whether the model of all rows predicts the rows that look clean better.

    Wrong rows would spoil it. Few flags that do not are the tail of the clean rows, or rows that
    the model describes badly: leaving these out would only cost accuracy. `paced` are predictions
    of the same folds by models of rows as they are weighed.
    """
    if at.noise.finds_nothing or 1.0 - at.noise.clean_share > FEW_WRONG:
        return False
    bare = fits.ask(settings.estimator, rows, rows.weight)
    clean = rows.weight * (at.weight >= 0.5)
    return bool(clean @ np.abs(rows.y - bare) <= clean @ np.abs(rows.y - paced))


def _first_predictions(rows: Rows, fits: Fits, settings: ValueSettings, anchor: float) -> Vector:
    """Return predictions that wrong values have as little hold on as possible."""
    if settings.start is not None:
        return fits.ask(settings.start, rows, rows.weight)
    if validation.is_dense_and_numeric(rows.X):
        robust = HistGradientBoostingRegressor(
            loss="absolute_error", early_stopping=False, random_state=settings.seed
        )
        return fits.ask(robust, rows, rows.weight)
    middle, reach = _median(rows.y, rows.weight), FAR * WIDE * anchor
    near = replace(rows, y=np.clip(rows.y, middle - reach, middle + reach))
    return fits.ask(settings.estimator, near, rows.weight)


def spread_of(y: Vector, weight: Vector) -> float:
    """Return the median distance from the median: one unit in which residuals are counted."""
    away = np.abs(y - _median(y, weight))
    return _median(away, weight) or float(np.average(away, weights=weight)) or 1.0


def _median(values: Vector, weight: Vector) -> float:
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(below, 0.5 * below[-1])])


def doubts_about_share(corrupted: float) -> tuple[str, ...]:
    """Return a doubt where so many rows look wrong that they may have a model of their own."""
    if corrupted < MOSTLY_WRONG:
        return ()
    return (
        f"{100 * corrupted:.0f} % of the rows look wrong: they may follow a model of their own. "
        f"Name rows that you know to be right (fit(..., trusted=...)), or look at both parts.",
    )


def calibration_of(rows: Rows, found: SettledValues) -> Calibration:
    """Return what intervals and reports are made from."""
    noise, anchor = found.noise, spread_of(rows.y, rows.weight)
    z = (rows.y - found.prediction) / noise.scale(found.prediction)
    total = float(rows.weight.sum())
    doubtful = float(rows.weight @ (found.weight * (1.0 - found.weight)))
    corrupted = 1.0 - noise.clean_share
    half = (1.959964 * SHAPE_UNKNOWN * float(np.sqrt(doubtful)) + 3.0) / total
    return Calibration(
        noise=replace(noise.noise, share=noise.clean_share),
        scale_rule=noise.scale_rule,
        clean_mass=histogram(z, rows.weight * found.weight, anchor).ravel(),
        anchor=anchor,
        n_coef=0,
        batch_shares=tuple(found.batch_shares.tolist()),
        corrupted_interval=(max(0.0, corrupted - half), min(1.0, corrupted + half)),
        standard_errors=np.empty(0),
    )
