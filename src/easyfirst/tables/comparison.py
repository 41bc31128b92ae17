"""Comparing methods on a user's table, by rows that none of them has seen.

The yardstick never comes from our own weights. It is the root mean square of the smallest share
of the held-out errors, with one share for all methods, or the error on what the user trusts: rows
marked as right, or a column with the true values of the target.
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
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler

from easyfirst.contracts import Matrix, Vector
from easyfirst.metrics import trimmed_error
from easyfirst.tables import values
from easyfirst.tables.contestants import CONTESTANTS, OURS, Contestant, Task, huber_unit
from easyfirst.tables.errors import TableError
from easyfirst.tables.model import TableModel, as_table
from easyfirst.tables.planning import require_column, response
from easyfirst.tables.preprocessing import Preprocessor

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Contest:
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
        Names from `CONTESTANTS`. Empty: all.
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
    frame: Any, contest: Contest, on_progress: Callable[[str], None] = lambda message: None
) -> Comparison:
    """Fit every method on all folds but one and judge it on that one, for every fold."""
    table = as_table(frame)
    contestants = [CONTESTANTS[name] for name in contest.methods or CONTESTANTS]
    y = response(table, contest.target)
    rows, yardstick = _prepared(table, y, contest)
    scores = {each.name: Score(each.name, each.label) for each in contestants}
    for number, part in enumerate(_parts(rows, contest), start=1):
        for each in contestants:
            on_progress(f"fold {number} of {contest.folds}: {each.label}")
            _run(each, part, yardstick, scores[each.name], contest)
    ordered = sorted(scores.values(), key=lambda score: (score.error, score.name != OURS))
    return Comparison(tuple(ordered), yardstick.name, int(np.sum(~np.isnan(y))), rows.num_rows)


def _prepared(table: pa.Table, y: Vector, contest: Contest) -> tuple[pa.Table, _Yardstick]:
    """Return the rows with a target, or a sample of them, and the yardstick for these."""
    usable = np.flatnonzero(~np.isnan(y))
    if usable.size < 2 * contest.folds:
        raise TableError(
            f"{usable.size:,} rows have a value of {contest.target!r}, too few for "
            f"{contest.folds} folds"
        )
    if 0 < contest.sample < usable.size:
        rng = np.random.default_rng(contest.seed)
        usable = np.sort(rng.choice(usable, contest.sample, replace=False))
    rows = table.take(pa.array(usable))
    return rows, _yardstick(rows, y[usable], contest)


def _yardstick(rows: pa.Table, y: Vector, contest: Contest) -> _Yardstick:
    everything = np.ones(len(y), dtype=bool)
    if contest.trusted is None:
        name = f"held-out error of the best {100 * contest.share:.3g} % of the rows"
        return _Yardstick(name, y, everything, contest.share)
    require_column(rows, contest.trusted, "trusted rows")
    values.require_numbers(contest.trusted, rows[contest.trusted])
    found = values.numbers(rows[contest.trusted])
    present = ~np.isnan(found)
    if not present.any():
        raise TableError(f"the trusted column {contest.trusted!r} holds no values")
    if np.all(np.isin(found[present], (0.0, 1.0))):
        right = present & (found == 1.0)
        if not right.any():
            raise TableError(f"the trusted column {contest.trusted!r} marks no row as right")
        name = f"held-out error of the {right.sum():,} rows that {contest.trusted!r} marks"
        return _Yardstick(name, y, right, 1.0)
    name = f"held-out error against the true values in {contest.trusted!r}"
    return _Yardstick(name, found, present, 1.0)


def _parts(rows: pa.Table, contest: Contest) -> Iterator[_Part]:
    splitter = KFold(contest.folds, shuffle=True, random_state=contest.seed)
    aside = () if contest.trusted is None else (contest.trusted,)
    for train, held_out in splitter.split(np.arange(rows.num_rows)):
        model = TableModel(
            contest.target, features=contest.features, exclude=(*contest.exclude, *aside)
        )
        known = model.prepare(rows.take(pa.array(train)))
        new = Preprocessor(model.recipe_).matrix(rows.take(pa.array(held_out)))
        X = np.asarray(known.X, dtype=np.float64)
        scaler = StandardScaler().fit(X)
        X = scaler.transform(X)
        unit = _quietly(huber_unit, X, known.y)
        yield _Part(X, known.y, scaler.transform(np.asarray(new)), held_out, unit)


def _run(
    contestant: Contestant, part: _Part, yardstick: _Yardstick, score: Score, contest: Contest
) -> None:
    if score.failure is not None:
        return
    unit = part.unit if contestant.needs_unit else 1.0
    model = contestant.build(Task(contest.share, contest.seed))
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
