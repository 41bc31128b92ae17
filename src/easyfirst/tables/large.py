"""A model of a table that is larger than memory: fitted and judged piece by piece."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from easyfirst.contracts import Batch, Resident, Vector
from easyfirst.engines import OutOfCore
from easyfirst.engines.memory import give_back_freed_memory, resident_bytes
from easyfirst.engines.out_of_core import PassProgress
from easyfirst.estimators import SelfPacedRegressor
from easyfirst.estimators.judging import JudgedRows
from easyfirst.local.judging import judge
from easyfirst.report.wording import count
from easyfirst.sources.columns import check_batch
from easyfirst.tables import values
from easyfirst.tables.conforming import conformed
from easyfirst.tables.errors import TableError
from easyfirst.tables.judging import JudgedTable, WrongTargets
from easyfirst.tables.learning import Learnt, Wanted, learn
from easyfirst.tables.model import TableModel
from easyfirst.tables.pieces import Piece, TableInPieces
from easyfirst.tables.preprocessing import Preprocessor
from easyfirst.tables.recipe import Recipe
from easyfirst.tables.references import better_references, with_references
from easyfirst.tables.targets import Response, require_sense, response_of, warn_of_leakage
from easyfirst.transforms import IDENTITY, TRANSFORMS

HERE = ("auto", "threads", "inline", "out-of-core")  # engines in whose place rows are streamed

Progress = Callable[[str, float], None]  # what is done, and which share of it


@dataclass(frozen=True, eq=False)
class Encoding:
    """How rows of a piece become numbers: the columns as in the files, their types, the recipe."""

    given: pa.Schema
    schema: pa.Schema
    recipe: Recipe

    @cached_property
    def preprocessor(self) -> Preprocessor:
        """What makes the design matrix."""
        return Preprocessor(self.recipe, checks=False)

    def __getstate__(self) -> dict[str, Any]:
        """Leave away what a worker makes for itself."""
        return {name: vars(self)[name] for name in ("given", "schema", "recipe")}

    def conform(self, raw: pa.Table) -> pa.Table:
        """Return a piece with the types of the whole table."""
        return conformed(raw, self.schema)[0]

    def response(self, table: pa.Table) -> Response:
        """Return the target of a piece."""
        column = values.plain(table[self.recipe.target])
        reading = self.recipe.target_reading
        return response_of(column, values.given_numbers(column, reading), reading)

    def batch(self, table: pa.Table, place: str) -> Batch:
        """Return the rows of a piece that have a target, as numbers."""
        y = self.response(table).y
        used = ~np.isnan(y)
        rows = table if used.all() else table.filter(pa.array(used))
        batch = Batch(np.ascontiguousarray(self.preprocessor.matrix(rows)), y[used])
        check_batch(batch, place)
        return batch


@dataclass(frozen=True, eq=False)
class EncodedPiece:
    """A piece that becomes a batch where it is read."""

    piece: Piece
    encoding: Encoding

    @property
    def place(self) -> str:
        """Where this is, for messages."""
        first, last = self.piece.begin, self.piece.begin + self.piece.n_rows - 1
        return f"{self.piece.parts[0][0].path}, rows {first:,} to {last:,}"

    def load(self) -> Batch:
        """Read the rows."""
        raw = self.piece.read(self.encoding.given)
        return self.encoding.batch(self.encoding.conform(raw), self.place)


@dataclass(frozen=True, eq=False)
class EncodedSource:
    """The pieces of a table that have rows with a target, each a batch."""

    parts: tuple[EncodedPiece, ...]
    feature_names: tuple[str, ...]

    def partitions(self) -> tuple[EncodedPiece, ...]:
        """Return one light descriptor per batch."""
        return self.parts


@dataclass(frozen=True, eq=False)
class JudgedPiece(JudgedTable):
    """Some rows of a table beside what a fit to all of them thinks of these.

    `places` in the whole table tell their names and lines; `weights` are those of the fit, for the
    rows that have a target.
    """

    at: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    weights: Vector | None = None
    known: JudgedRows | None = None
    is_whole: bool = False

    @cached_property
    def judged(self) -> JudgedRows:
        """Residual, weight and more of every row that has a target."""
        if self.known is not None:
            return self.known
        if not self.y.size:
            return JudgedRows.none()
        fitted: Any = self.model.regressor_
        judged: JudgedRows = fitted.judge(self.X, self.y, blur=self._blur(), weights=self.weights)
        return judged

    @property
    def _preprocessor(self) -> Preprocessor:
        return Preprocessor(self.model.recipe_, checks=False)

    @property
    def row_names(self) -> Any:
        """The Arrow column that names the rows, or their numbers in the whole table."""
        if self.model.row_id is not None:
            return self.model.row_names(self.table)
        return pa.chunked_array([pa.array(self.at)])

    @cached_property
    def patterns(self) -> Any:
        """What wrong rows have in common; a piece alone does not tell."""
        return JudgedTable.patterns.func(self) if self.is_whole else []  # type: ignore[attr-defined]


@dataclass(eq=False)
class LargeFit:
    """A model fitted to a table in pieces, which can go through the rows once more."""

    model: TableModel
    table: TableInPieces
    learnt: Learnt
    source: EncodedSource
    encoding: Encoding

    @property
    def is_whole(self) -> bool:
        """Whether the sample holds all rows."""
        return self.learnt.is_whole

    def judged_pieces(self) -> Iterator[JudgedPiece]:
        """Yield one piece after the other beside what the fit thinks of its rows."""
        fitted: Any = self.model.regressor_
        _, weightings, verdict = fitted._judging(self.source, None)
        remaining = iter(weightings)
        for (piece, raw), n_used in zip(self.table.tables(), self.learnt.used, strict=True):
            table = self.encoding.conform(raw)
            weights = None
            at = np.arange(piece.begin, piece.begin + piece.n_rows)
            judged = self._piece(table, at)
            if n_used:
                batch = Batch(np.asarray(judged.X), judged.y)
                weights = judge(Resident(batch), next(remaining), verdict).weights
            yield replace(judged, weights=weights)

    def judged_sample(self, known: JudgedRows) -> JudgedPiece:
        """Return the rows of the sample beside what is known of them."""
        table = self.encoding.conform(self.learnt.sample)
        judged = self._piece(table, self.learnt.places)
        return replace(judged, known=known, is_whole=True)

    def sampled(self, judged: JudgedPiece) -> JudgedRows:
        """Return what is known of the rows of a piece that are in the sample."""
        inside = np.isin(judged.at[judged.used], self.learnt.places)
        return judged.judged.some(np.flatnonzero(inside))

    def _piece(self, table: pa.Table, at: NDArray[np.intp]) -> JudgedPiece:
        target, model = self.encoding.response(table), self.model
        used = ~np.isnan(target.y)
        preprocessor = self.encoding.preprocessor
        rows = table if used.all() else table.filter(pa.array(used))
        X = model._named(np.ascontiguousarray(preprocessor.matrix(rows)))
        wrong = np.flatnonzero(target.is_wrong)
        found = None
        if wrong.size:
            predicted_from = model._named(preprocessor.matrix(table.take(pa.array(wrong))))
            reasons = [target.reason(row) for row in wrong.tolist()]
            found = WrongTargets(wrong, target.given[wrong], reasons, predicted_from)
        origins = self.table.origins(at)
        return JudgedPiece(model, table, used, X, target.y[used], found, origins, at=at)


def fit_large(
    model: TableModel,
    table: TableInPieces,
    memory_limit: int,
    progress: Progress = lambda what, share: None,
) -> LargeFit:
    """Fit a model to a table in pieces; the process takes about as much memory as is allowed."""
    _require_possible(model)
    room = max(memory_limit - resident_bytes(), 0)
    choice = model._choice()
    model._require_columns(table)
    wanted = Wanted(choice, model.decimal, model.thousands, room)
    learnt = learn(table, wanted, lambda share: progress("looking at all values", share))
    give_back_freed_memory()
    model._require_rows(np.ones(learnt.n_used, dtype=bool))
    require_sense(learnt.different, model.target, learnt.n_used)
    model.recipe_, model.fill_spread_ = learnt.recipe, learnt.fill_spread
    model.notes_ = [*table.notes, *model._without_target(learnt.n_missing), *learnt.notes]
    if not learnt.is_whole:
        model.notes_.append(_about_sample(table, learnt))
    fit = _encoded(model, table, learnt)
    _warn_of_leakage(fit)
    fitted, caught = _fitted(fit, memory_limit, progress)
    weights = _weights_of_sample(fit, fitted)
    references = better_references(fit.encoding.recipe, _texts_of_sample(fit), weights)
    if references:
        first = model.recipe_
        model.recipe_ = with_references(first, references)
        other = _encoded(model, table, replace(learnt, recipe=model.recipe_))
        again, caught_again = _fitted(other, memory_limit, progress)
        if _weights_of_sample(other, again).sum() > weights.sum():
            fit, fitted, caught = other, again, caught_again
        else:
            model.recipe_ = first
    for warning in caught:
        if " is missing'" not in str(warning):
            warnings.warn(warning, stacklevel=2)
    model.regressor_ = fitted
    model.notes_ += model._transformation(fitted)
    reading = getattr(fitted, "reading_", None)
    if reading is not None:
        model.notes_.append(f"the table was read in pieces: {reading}")
    return fit


def _require_possible(model: TableModel) -> None:
    """Refuse what needs all rows in memory."""
    if model.model != "linear":
        raise TableError(
            f"a table larger than memory is fitted by a linear model, not {model.model}: leave out "
            f"--model, allow more memory with --memory-limit, or fit a part of the table"
        )
    if model.batches is not None:
        raise TableError(
            "a table larger than memory is fitted in batches of neighbouring rows: leave out "
            "--batches, or allow more memory with --memory-limit"
        )


def _encoded(model: TableModel, table: TableInPieces, learnt: Learnt) -> LargeFit:
    encoding = Encoding(table.schema, learnt.schema, learnt.recipe)
    parts = tuple(
        EncodedPiece(piece, encoding)
        for piece, n_used in zip(table.pieces, learnt.used, strict=True)
        if n_used
    )
    source = EncodedSource(parts, tuple(learnt.recipe.design_names()))
    return LargeFit(model, table, learnt, source, encoding)


def _fitted(
    fit: LargeFit, memory_limit: int, progress: Progress
) -> tuple[SelfPacedRegressor, list[Warning | str]]:
    """Return a fitted model, and its warnings, which are due only if it is taken."""
    template = fit.model.regressor or SelfPacedRegressor()
    transform = TRANSFORMS.get(template.target_transform, IDENTITY)
    complaint = transform.complaint(np.array([fit.learnt.lowest]), None)
    if complaint is not None:
        raise TableError(f"the target {fit.model.target!r}: {complaint}")
    settings = template.get_params(deep=False)
    if isinstance(settings["engine"], str) and settings["engine"] in HERE:

        def show(done: PassProgress) -> None:
            progress(str(done), done.share)

        settings["engine"] = OutOfCore(memory_limit, n_jobs=settings["n_jobs"], progress=show)
    fitted = SelfPacedRegressor(**settings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted.fit(fit.source)
    return fitted, [each.message for each in caught]


def _weights_of_sample(fit: LargeFit, fitted: SelfPacedRegressor) -> Vector:
    """Return the weights that rows of the sample would have."""
    batch = fit.encoding.batch(fit.encoding.conform(fit.learnt.sample), "the sample")
    return fitted.judge(fit.model._named(batch.X), batch.y).weight


def _texts_of_sample(fit: LargeFit) -> pa.Table:
    """Return the categories of the rows of the sample that have a target."""
    table = fit.encoding.conform(fit.learnt.sample)
    used = ~np.isnan(fit.encoding.response(table).y)
    names = [each.name for each in fit.encoding.recipe.categorical]
    return table.select(names).filter(pa.array(used))


def _warn_of_leakage(fit: LargeFit) -> None:
    batch = fit.encoding.batch(fit.encoding.conform(fit.learnt.sample), "the sample")
    columns = [(each.name, batch.X[:, j]) for j, each in enumerate(fit.encoding.recipe.numeric)]
    warn_of_leakage(columns, batch.y, fit.model.target)


def _about_sample(table: TableInPieces, learnt: Learnt) -> str:
    return (
        f"what the columns mean was decided from {count(learnt.places.size, 'row')} of "
        f"{table.n_rows:,}, the first and others drawn evenly; medians, categories and missing "
        f"values are of all rows"
    )
