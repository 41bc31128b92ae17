"""The weights of rows that a fit did not bring to the driver: batch by batch, or as files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from easyfirst.contracts import Engine, Resident, Source
from easyfirst.estimators import clusters
from easyfirst.local.judging import JudgedRows, Verdict, judge
from easyfirst.local.weighing import Problem, Weighting
from easyfirst.sources.parquet import write_rows

NOT_GATHERED = ("weights_", "selected_")


@dataclass(frozen=True, eq=False)
class Judgement:
    """By what the rows of each batch were weighed in the end."""

    problem: Problem
    weightings: tuple[Weighting, ...]


class StreamingMixin:
    """`weights_by_batch` and `write_weights`, for fits of rows that stay where they are."""

    def __getattr__(self, name: str) -> Any:
        """Say how to reach the weights that were not gathered."""
        if name in NOT_GATHERED and "_judgement" in vars(self):
            raise AttributeError(
                f"{name} was not gathered, because the rows stayed where they are: use "
                f"weights_by_batch(source), or write_weights(source, folder)"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def weights_by_batch(
        self, X: Any, y: Any = None, *, engine: str | Engine | None = None
    ) -> Iterator[JudgedRows]:
        """Yield row ids, weights, residuals and predictions of one batch after the other.

        Parameters
        ----------
        X, y
            What fit was given: the source, or the dask collections.
        engine
            Where to compute; None is the model's own engine.
        """
        source, weightings, verdict = self._judging(X, y)
        place = self._place(engine, source)
        with place.open(source.partitions()) as workers:
            for number, weighting in enumerate(weightings):
                messages: list[Weighting | None] = [None] * len(weightings)
                messages[number] = weighting
                yield workers.map(_judge_if_asked, messages, verdict)[number]

    def write_weights(
        self,
        X: Any,
        y: Any = None,
        *,
        folder: str | os.PathLike[str],
        engine: str | Engine | None = None,
    ) -> list[str]:
        """Let every worker write its rows' weights, residuals and predictions to Parquet files.

        One file per batch, in batch order, each with the row ids or the row numbers within the
        batch. Returns the paths. The workers must reach the folder under the name given.
        """
        source, weightings, verdict = self._judging(X, y)
        where = os.path.abspath(os.fspath(folder))
        os.makedirs(where, exist_ok=True)
        if os.listdir(where):
            raise FileExistsError(f"{where} is not empty: name a new folder")
        paths = [os.path.join(where, f"part-{i:05d}.parquet") for i in range(len(weightings))]
        with self._place(engine, source).open(source.partitions()) as workers:
            workers.map(_judge_and_write, list(zip(weightings, paths, strict=True)), verdict)
        return paths

    def _place(self, engine: str | Engine | None, source: Source) -> Engine:
        model: Any = self
        return clusters.find_engine(engine or model.engine, model.n_jobs, source)

    def _judging(self, X: Any, y: Any) -> tuple[Source, Sequence[Weighting], Verdict]:
        check_is_fitted(self)
        model: Any = self
        judgement: Judgement | None = vars(self).get("_judgement")
        if judgement is None:
            raise AttributeError(
                "this model holds no rule for its batches: it was fitted to rows in memory, whose "
                "weights are in weights_, or it was loaded from a file"
            )
        source = clusters.source_of(X, y, None, None)
        if source is None:
            raise TypeError(f"X must be the source that was fitted, got {type(X)!r}")
        found, expected = len(source.partitions()), len(judgement.weightings)
        if found != expected:
            raise ValueError(
                f"the source has {found} batches and the fit had {expected}: give the same source"
            )
        verdict = Verdict(judgement.problem, model.coef_, model.intercept_)
        return source, judgement.weightings, verdict


def _judge_if_asked(
    resident: Resident, weighting: Weighting | None, verdict: Verdict
) -> JudgedRows | None:
    return None if weighting is None else judge(resident, weighting, verdict)


def _judge_and_write(resident: Resident, message: tuple[Weighting, str], verdict: Verdict) -> int:
    weighting, path = message
    rows = judge(resident, weighting, verdict)
    names: NDArray[Any] = np.arange(rows.weights.size) if rows.row_ids is None else rows.row_ids
    columns = {
        "row": names,
        "weight": rows.weights,
        "residual": rows.residual,
        "prediction": rows.prediction,
    }
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_rows(path, columns)
    return int(rows.weights.size)
