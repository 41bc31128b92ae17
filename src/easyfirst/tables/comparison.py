"""Comparing methods on a user's table, by rows that none of them has seen.

The yardstick never comes from our own weights. It is the root mean square of the smallest share
of the held-out errors, with one share for all methods, or the error on what the user trusts: rows
marked as right, or a column with the true values of the target.

Nobody knows the corruption ratio or the noise of a user's data, so no method is told either of
them by our fit. TORRENT, which has to be told a ratio, is told one minus the share by which all
are judged. Paces that are written in units of y get y in the unit in which Huber's residuals are
as large as the noise that the paper's pace was made for.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import HuberRegressor
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler

from easyfirst.baselines.method import PAPER_NOISE, Method, Told
from easyfirst.baselines.methods import COMPARED
from easyfirst.baselines.scikit_learn import HUBER_ITERATIONS
from easyfirst.baselines.self_paced import OURS
from easyfirst.consensus.robust.huber import MEDIAN_TO_SCALE
from easyfirst.contracts import Matrix, Vector
from easyfirst.metrics import trimmed_error
from easyfirst.tables import values
from easyfirst.tables.base import as_table
from easyfirst.tables.errors import TableError, require_column
from easyfirst.tables.kinds import table_hints
from easyfirst.tables.model import TableModel
from easyfirst.tables.preprocessing import Preprocessor
from easyfirst.tables.targets import read_target, response

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class ComparisonPlan:
    """What is compared, and how.

    Parameters
    ----------
    target, features, exclude
        As for `TableModel`.
    share
        Of the held-out errors, the smallest, that count. Choose it below the share of clean rows.
    trusted
        A column of truth values or 0 and 1 that marks rows known to be right, or a column of
        numbers with the true target; the error is then taken there, and nothing is trimmed.
    methods
        Names from `COMPARED`. Empty: all.
    folds
        Parts of the table, each held out once.
    sample
        Rows to compare on, chosen at random; 0 takes all.
    seed
        Of the sample, the folds and the methods that draw.
    """

    target: str
    features: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    share: float = 0.5
    trusted: str | None = None
    methods: tuple[str, ...] = ()
    folds: int = 5
    sample: int = 20_000
    seed: int = 0


@dataclass
class Score:
    """How one method did: its error in every fold, or why there is none."""

    name: str
    label: str
    errors: list[float] = field(default_factory=list)
    seconds: float = 0.0
    failure: str | None = None

    @property
    def error(self) -> float:
        """Mean over the folds; infinite after a failure."""
        return float(np.mean(self.errors)) if self.failure is None else float("inf")

    @property
    def spread(self) -> float:
        """Standard deviation over the folds."""
        return float(np.std(self.errors, ddof=1)) if len(self.errors) > 1 else 0.0


@dataclass(frozen=True, eq=False)
class Comparison:
    """The scores, the best first, and what they were measured by.

    `n_compared` of the `n_rows` rows that have a target were used.
    """

    scores: tuple[Score, ...]
    yardstick: str
    n_rows: int
    n_compared: int


@dataclass(frozen=True, eq=False)
class _Part:
    """One fold: standardized rows to fit, the held-out ones, and how to judge predictions."""

    X: Matrix
    y: Vector
    X_held_out: Matrix
    held_out: NDArray[np.intp]
    unit: float


@dataclass(frozen=True, eq=False)
class _Yardstick:
    """How far predictions of some rows are from what is right."""

    name: str
    truth: Vector
    counts: Mask
    share: float

    def measure(self, rows: NDArray[np.intp], predicted: Vector) -> float:
        """Return the error on these rows; NaN if none of them counts."""
        chosen = self.counts[rows]
        if not chosen.any():
            return float("nan")
        return trimmed_error(self.truth[rows][chosen], predicted[chosen], self.share)


def compare(
    frame: Any, plan: ComparisonPlan, on_progress: Callable[[str], None] = lambda message: None
) -> Comparison:
    """Fit every method on all folds but one and judge it on that one, for every fold."""
    table = as_table(frame)
    methods = {name: COMPARED[name] for name in plan.methods or COMPARED}
    reading, _ = read_target(table, plan.target, table_hints(table))
    y = response(table, plan.target, reading).y
    rows, yardstick = _prepared(table, y, plan)
    scores = {name: Score(name, _label(method)) for name, method in methods.items()}
    for number, part in enumerate(_parts(rows, plan), start=1):
        for name, method in methods.items():
            on_progress(f"fold {number} of {plan.folds}: {scores[name].label}")
            _run(method, part, yardstick, scores[name], plan)
    ordered = sorted(scores.values(), key=lambda score: (score.error, score.name != OURS))
    return Comparison(tuple(ordered), yardstick.name, int(np.sum(~np.isnan(y))), rows.num_rows)


def _prepared(table: pa.Table, y: Vector, plan: ComparisonPlan) -> tuple[pa.Table, _Yardstick]:
    """Return the rows with a target, or a sample of them, and the yardstick for these."""
    usable = np.flatnonzero(~np.isnan(y))
    if usable.size < 2 * plan.folds:
        raise TableError(
            f"{usable.size:,} rows have a value of {plan.target!r}, too few for {plan.folds} folds"
        )
    if 0 < plan.sample < usable.size:
        rng = np.random.default_rng(plan.seed)
        usable = np.sort(rng.choice(usable, plan.sample, replace=False))
    rows = table.take(pa.array(usable))
    return rows, _yardstick(rows, y[usable], plan)


def _yardstick(rows: pa.Table, y: Vector, plan: ComparisonPlan) -> _Yardstick:
    everything = np.ones(len(y), dtype=bool)
    if plan.trusted is None:
        name = f"held-out error of the best {100 * plan.share:.3g} % of the rows"
        return _Yardstick(name, y, everything, plan.share)
    require_column(rows, plan.trusted, "trusted rows")
    values.require_numbers(plan.trusted, rows[plan.trusted])
    found = values.numbers(rows[plan.trusted])
    present = ~np.isnan(found)
    if not present.any():
        raise TableError(f"the trusted column {plan.trusted!r} holds no values")
    if np.all(np.isin(found[present], (0.0, 1.0))):
        right = present & (found == 1.0)
        if not right.any():
            raise TableError(f"the trusted column {plan.trusted!r} marks no row as right")
        name = f"held-out error of the {right.sum():,} rows that {plan.trusted!r} marks"
        return _Yardstick(name, y, right, 1.0)
    name = f"held-out error against the true values in {plan.trusted!r}"
    return _Yardstick(name, found, present, 1.0)


def _parts(rows: pa.Table, plan: ComparisonPlan) -> Iterator[_Part]:
    splitter = KFold(plan.folds, shuffle=True, random_state=plan.seed)
    aside = () if plan.trusted is None else (plan.trusted,)
    for train, held_out in splitter.split(np.arange(rows.num_rows)):
        model = TableModel(plan.target, features=plan.features, exclude=(*plan.exclude, *aside))
        known = model.prepare(rows.take(pa.array(train)))
        new = Preprocessor(model.recipe_).matrix(rows.take(pa.array(held_out)))
        X = np.asarray(known.X, dtype=np.float64)
        scaler = StandardScaler().fit(X)
        X = scaler.transform(X)
        unit = _quietly(_huber_unit, X, known.y)
        yield _Part(X, known.y, scaler.transform(np.asarray(new)), held_out, unit)


def _run(
    method: Method, part: _Part, yardstick: _Yardstick, score: Score, plan: ComparisonPlan
) -> None:
    if score.failure is not None:
        return
    unit = part.unit if method.needs_unit else 1.0
    model = method.build(Told(corruption_ratio=1.0 - plan.share, seed=plan.seed))
    began = time.perf_counter()
    try:
        _quietly(model.fit, part.X, part.y / unit)
        predicted = unit * np.asarray(model.predict(part.X_held_out))
    except (ValueError, ArithmeticError, np.linalg.LinAlgError, NotFittedError) as error:
        score.failure = str(error).splitlines()[0]
        return
    finally:
        score.seconds += time.perf_counter() - began
    found = yardstick.measure(part.held_out, predicted)
    if not np.isnan(found):
        score.errors.append(found)


def _quietly(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call without warnings: that some methods do not settle is part of the comparison."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments)


def _label(method: Method) -> str:
    return method.compare[1] if method.compare is not None else method.label


def _huber_unit(X: Matrix, y: Vector) -> float:
    """Return what to divide y by so that Huber's residuals are like the paper's noise."""
    model = HuberRegressor(max_iter=HUBER_ITERATIONS).fit(X, y)
    spread = MEDIAN_TO_SCALE * float(np.median(np.abs(y - model.predict(X))))
    return spread / PAPER_NOISE if spread > 0 else 1.0
