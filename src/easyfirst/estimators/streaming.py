"""The weights of rows that a fit did not bring to the driver: batch by batch, or as files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from easyfirst.atomic import atomic_write
from easyfirst.consensus.rounds.common import RoundSettings
from easyfirst.contracts import Engine, Resident, Source, Workers
from easyfirst.errors import ManyPassesWarning
from easyfirst.estimators import clusters
from easyfirst.estimators.findings import findings_of
from easyfirst.local.judging import JudgedRows, ShownRows, Verdict, judge, judge_some
from easyfirst.local.weighing import Problem, Weighting
from easyfirst.losses import Loss
from easyfirst.schedules import Calibrated
from easyfirst.transforms import TRANSFORMS

MOST_SHOWN = 50_000  # rows of a source in a report
NOT_GATHERED = ("weights_", "selected_")


@dataclass(frozen=True, eq=False)
class Judgement:
    """By what the rows of each batch were weighed in the end."""

    problem: Problem
    weightings: tuple[Weighting, ...]


def warn_of_passes(workers: Workers, plan: str, stacklevel: int = 4) -> None:
    """Warn before rows are read from the disk many times: how often, and what else to do."""
    if getattr(workers, "reads_again", False):
        warnings.warn(
            f"The rows do not fit into memory, and this plan reads them {plan} give the engine a "
            f"larger memory_limit.",
            ManyPassesWarning,
            stacklevel=stacklevel,
        )


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

    def _warn_of_passes(self, workers: Workers, settings: RoundSettings, loss: Loss) -> None:
        """Warn before a plan that reads rows from the disk in every round or iteration."""
        if not isinstance(settings.schedule, Calibrated) or settings.solver != "gram":
            warn_of_passes(
                workers,
                f"at least once per round, in up to {settings.max_rounds} rounds: use pace=None "
                f"and solver='gram', which need few, or",
                stacklevel=6,
            )
        elif not loss.quadratic:
            warn_of_passes(workers, f"a dozen times or more, as {loss!r} needs it:", stacklevel=6)

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
                yield workers.map(judge, [weighting], verdict, only=[number])[0]

    def shown_rows(self, X: Any, y: Any = None, most: int = MOST_SHOWN) -> list[ShownRows]:
        """Return about so many rows, evenly drawn, of every batch: X, and what the fit thinks."""
        source, weightings, verdict = self._judging(X, y)
        model: Any = self
        step = max(1, -(-model._fit_note.rows // most))
        messages = [(weighting, step) for weighting in weightings]
        with self._place(None, source).open(source.partitions()) as workers:
            found: list[ShownRows] = workers.map(judge_some, messages, verdict)
        return found

    def write_weights(
        self,
        X: Any,
        y: Any = None,
        *,
        folder: str | os.PathLike[str],
        engine: str | Engine | None = None,
    ) -> list[str]:
        """Let every worker write what the fit thinks of its rows to Parquet files.

        One file per batch, in batch order, with the columns `row_id` (or the row number within
        the batch), `weight`, `residual` (in standard deviations of the noise), `given_label` and
        `predicted_label`, as `suspects` has them. Returns the paths. The workers must reach the
        folder's parent under the name given; the folder appears with all files or not at all.
        """
        source, weightings, verdict = self._judging(X, y)
        where = Path(os.path.abspath(os.fspath(folder)))
        if where.is_dir() and os.listdir(where):
            raise FileExistsError(f"{where} is not empty: name a new folder")
        where.parent.mkdir(parents=True, exist_ok=True)
        names = [f"part-{i:05d}.parquet" for i in range(len(weightings))]
        unit = findings_of(self).unit
        with (
            atomic_write(where) as beside,
            self._place(engine, source).open(source.partitions()) as workers,
        ):
            beside.mkdir()
            paths = [str(beside / name) for name in names]
            messages = [(w, path, unit) for w, path in zip(weightings, paths, strict=True)]
            workers.map(_judge_and_write, messages, verdict)
        return [str(where / name) for name in names]

    def _place(self, engine: str | Engine | None, source: Source) -> Engine:
        model: Any = self
        found = clusters.find_engine(engine or model.engine, model.n_jobs, source)
        return clusters.for_one_pass(found)

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
        verdict = Verdict(
            judgement.problem, model.coef_, model.intercept_, TRANSFORMS[model.target_transform_]
        )
        return source, judgement.weightings, verdict


def _judge_and_write(
    resident: Resident, message: tuple[Weighting, str, float], verdict: Verdict
) -> int:
    weighting, path, unit = message
    rows = judge(resident, weighting, verdict)
    names: NDArray[Any] = np.arange(rows.weights.size) if rows.row_ids is None else rows.row_ids
    columns = {
        "row_id": names,
        "weight": rows.weights,
        "residual": rows.signed / (unit * rows.scale),
        "given_label": rows.prediction + rows.residual,
        "predicted_label": rows.prediction,
    }
    os.makedirs(os.path.dirname(path), exist_ok=True)
    from easyfirst.sources.parquet import write_rows  # what a fit in memory need not load

    write_rows(path, columns)
    return int(rows.weights.size)
