"""Wrong labels for people: which rows, why, how often, as a table, a text and a page."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from easyfirst.contracts import Source
from easyfirst.estimators import clusters, validation
from easyfirst.estimators.judged_labels import JudgedLabels
from easyfirst.report.page import (
    MOST_BATCHES,
    MOST_SUSPECTS,
    Origin,
    Report,
    check_target,
    environment,
)
from easyfirst.report.presenting import check_top
from easyfirst.report.suspects import framed
from easyfirst.report.wording import NOT_ESTIMATED, number, percent, share_in_words, visible

WIDTH = 80
MOST_CLASSES = 12  # of which the page and the text show the noise


def suspects(model: Any, X: Any, y: Any, top: int | None, row_ids: Any, like: Any = None) -> Any:
    """Return the rows whose labels look wrong, the worst first, in a frame library."""
    check_top(top)
    source = clusters.source_of(X, y, None, None)
    if source is not None:
        return _suspects_of_source(model, source, top, row_ids)
    judged = model.judge(X, y)
    ids = validation.row_ids(row_ids, X, judged.given.size)
    chosen = judged.worst(top)
    columns = {"row_id": ids[chosen], **suspect_columns(model, judged, chosen)}
    return framed(columns, chosen, like=X if like is None else like)


def _suspects_of_source(model: Any, source: Source, top: int | None, row_ids: Any) -> Any:
    """Return the suspicious rows of a source, one batch of which is here at a time."""
    if row_ids is not None:
        raise ValueError("row_ids is for rows in memory: name the column where the source is made")
    kept: list[tuple[JudgedLabels, NDArray[Any]]] = []
    n_before = 0
    for partition in source.partitions():
        batch = partition.load()
        judged = model.judge(batch.X, batch.y)
        numbers = np.arange(n_before, n_before + batch.n_samples)
        ids = numbers if batch.row_ids is None else np.asarray(batch.row_ids)
        chosen = judged.worst(top)
        kept.append((judged.some(chosen), ids[chosen]))
        n_before += batch.n_samples
    worst = JudgedLabels.joined([rows for rows, _ in kept])
    chosen = worst.worst(top)
    ids = np.concatenate([ids for _, ids in kept])[chosen]
    return framed({"row_id": ids, **suspect_columns(model, worst, chosen)}, chosen, like=None)


def to_review(model: Any, X: Any, y: Any, k: int, row_ids: Any) -> Any:
    """Return the labels that are least certain to be right or wrong, in the frame library of X."""
    check_top(k)
    judged = model.judge(X, y)
    ids = validation.row_ids(row_ids, X, judged.given.size)
    unsure = judged.quality * (1.0 - judged.quality)
    chosen = np.argsort(-unsure, kind="stable")[: min(k, np.count_nonzero(unsure > 0.0))]
    columns = {"row_id": ids[chosen], **suspect_columns(model, judged, chosen)}
    return framed(columns, chosen, like=X)


def suspect_columns(model: Any, judged: JudgedLabels, chosen: NDArray[np.intp]) -> dict[str, Any]:
    """Return what is known of some labels, by column, with cleanlab's names."""
    classes = model.classes_
    return {
        "is_label_issue": judged.is_wrong[chosen],
        "label_quality": judged.quality[chosen],
        "given_label": classes[judged.given[chosen]],
        "predicted_label": classes[judged.suggested[chosen]],
        "reason": [reason(model, judged, int(row)) for row in chosen],
    }


def reason(model: Any, judged: JudgedLabels, row: int) -> str:
    """Return in one sentence why a label is suspected, or why it is not."""
    given, suggested = model.classes_[judged.given[row]], model.classes_[judged.suggested[row]]
    chance = f"{percent(max(float(judged.quality[row]), 1e-12))} likely to be right"
    if not hasattr(model, "label_noise_"):
        chance = f"the model gives it a probability of {percent(float(judged.quality[row]))}"
    if given == suggested:
        return f"given {visible(given)}, and nothing says that it is wrong: {chance}"
    return f"given {visible(given)}, most likely {visible(suggested)}: {chance}"


@dataclass(frozen=True, eq=False)
class LabelSummary:
    """What a fit of classes found; print it, or take `to_frame()`.

    Parameters
    ----------
    model
        The fitted classifier.
    """

    model: Any

    def header(self) -> dict[str, str]:
        """Return what stands above the noise, in order, as text."""
        model = self.model
        note = vars(model).get("_fit_note")
        header = {} if note is None else {"Rows": f"{note.rows:,}"}
        header["Classes"] = f"{model.classes_.size:,}"
        if "weights_" in vars(model):
            wrong = int(np.count_nonzero(~model.selected_))
            share = percent(wrong / max(model.weights_.size, 1))
            header["Labels that look wrong"] = f"{wrong:,} ({share})"
        if hasattr(model, "label_noise_"):
            header["Wrong labels"] = share_in_words(
                model.corrupted_fraction_, model.corrupted_interval_
            )
        header["Rounds"] = f"{model.n_rounds_:,}"
        header["Status"] = model.status_.code
        return header

    def noise(self) -> list[tuple[str, str, str]]:
        """Return (right label, given label, how often) for every rate above zero."""
        matrix = getattr(self.model, "label_noise_", None)
        if matrix is None:
            return []
        names = [visible(name) for name in self.model.classes_]
        rates = np.where(np.eye(len(names), dtype=bool), 0.0, matrix)
        order = np.argsort(-rates, axis=None, kind="stable")[: np.count_nonzero(rates)]
        pairs = [divmod(int(place), len(names)) for place in order]
        return [(names[i], names[j], percent(float(rates[i, j]))) for i, j in pairs]

    def notes(self) -> list[str]:
        """Return how it ended, and every doubt."""
        return [self.model.status_.message, *self.model.notes_, *self.model.doubts_]

    def to_frame(self, backend: Any = "pandas") -> Any:
        """Return the coefficients: one row per column, one column per class that has some."""
        return nw.from_dict(self.columns(), backend=backend).to_native()

    def columns(self) -> dict[str, list[Any]]:
        """Return names and coefficients, the intercepts last."""
        names, lines = self.coefficients()
        return {"name": names, **dict(lines)}

    def coefficients(self) -> tuple[list[str], list[tuple[str, list[float]]]]:
        """Return names, and the coefficients of each class of a linear model; intercepts last."""
        model = self.model
        if not hasattr(model, "coef_"):
            return [], []
        names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(model.coef_.shape[1])])
        classes = model.classes_[-len(model.coef_) :]
        values = np.column_stack([model.coef_, model.intercept_])
        lines = [(str(name), line.tolist()) for name, line in zip(classes, values, strict=True)]
        return [*map(str, names), "(intercept)"], lines

    def __str__(self) -> str:
        """Return the summary as text."""
        head = [f"{name + ':':<26}{value}" for name, value in self.header().items()]
        noise = [f"{right} given as {given}: {share}" for right, given, share in self.noise()][
            :MOST_CLASSES
        ]
        notes = [line for note in self.notes() for line in textwrap.wrap(note, WIDTH)]
        rule = "=" * WIDTH
        title = "Self-paced classification".center(WIDTH).rstrip()
        body = noise or ["Every label is taken as right."]
        return "\n".join([title, rule, *head, rule, *body, rule, *notes])

    __repr__ = __str__


def summary(model: Any) -> LabelSummary:
    """Return what a fit found."""
    check_is_fitted(model)
    return LabelSummary(model)


def report(
    model: Any,
    path: str | os.PathLike[str] | None,
    X: Any,
    y: Any,
    *,
    row_ids: Any,
    overwrite: bool,
) -> Report:
    """Return the page, written to a file if a path is given."""
    check_is_fitted(model)
    if path is not None:
        check_target(Path(path), overwrite)
    if (X is None) != (y is None):
        raise ValueError("a report needs both X and y, or neither")
    judged = None if X is None else model.judge(X, y)
    lines: list[dict[str, Any]] = []
    if judged is not None:
        worst = judged.worst()[:MOST_SUSPECTS]
        ids = validation.row_ids(row_ids, X, judged.given.size)[worst]
        columns = {"id": ids, **suspect_columns(model, judged, worst)}
        lines = [
            dict(zip(columns, line, strict=True)) for line in zip(*columns.values(), strict=True)
        ]
    n_wrong = 0 if judged is None else int(np.count_nonzero(judged.is_wrong))
    made = render(model, headline(model, judged), None if judged is None else lines, n_wrong)
    return made if path is None else made.save(path, overwrite)


def render(
    model: Any,
    headline: str,
    lines: Sequence[Mapping[str, Any]] | None,
    n_wrong: int,
    *,
    origin: Origin | None = None,
    patterns: Sequence[str] = (),
    batch_names: Sequence[Any] | None = None,
    shows_target: bool = True,
) -> Report:
    """Return the page on a classifier.

    Parameters
    ----------
    model
        The fitted classifier.
    headline
        How many labels look wrong.
    lines
        The worst of them, with what `suspect_columns` knows and `id`, and perhaps `remark` and
        `values` (pairs of name and value); None if rows are not known.
    n_wrong
        How many there are.
    origin, patterns
        Where the rows come from, and what wrong ones have in common.
    batch_names
        Of the batches, if they have names.
    shows_target
        Whether labels of single rows are shown.
    """
    converged = model.status_.converged
    page = (
        environment()
        .get_template("labels.html.j2")
        .render(
            headline=headline,
            summary=LabelSummary(model),
            origin=origin or Origin(),
            suspects=lines,
            n_suspects=n_wrong,
            shows_target=shows_target,
            has_remarks=any(line.get("remark") or line.get("values") for line in lines or ()),
            patterns=patterns,
            batches=_batches(model, batch_names),
            n_batches=model.batch_clean_share_.size,
            coefficients=_coefficients(model),
            doubts=model.doubts_ if converged else (model.status_.message, *model.doubts_),
            notes=model.notes_,
        )
    )
    return Report(page)


def headline(model: Any, judged: JudgedLabels | None) -> str:
    """Return how many labels look wrong, as far as that is known."""
    quality = getattr(model, "weights_", None) if judged is None else judged.quality
    if quality is None:
        if getattr(model, "corrupted_interval_", NOT_ESTIMATED) == NOT_ESTIMATED:
            return "How many labels are wrong was not estimated"
        return f"About {percent(model.corrupted_fraction_)} of the labels are wrong"
    return counted(int(np.count_nonzero(quality < 0.5)), quality.size)


def counted(wrong: int, total: int) -> str:
    """Return how many labels look wrong, in words."""
    if wrong == 0:
        return f"None of the {total:,} labels looks wrong"
    looks = "looks" if wrong == 1 else "look"
    return f"{wrong:,} of {total:,} labels {looks} wrong ({percent(wrong / total)})"


def _batches(model: Any, names: Sequence[Any] | None) -> list[tuple[str, float]]:
    shares = model.batch_clean_share_
    worst = np.argsort(shares, kind="stable")[:MOST_BATCHES]
    known = range(shares.size) if names is None else names
    return [(visible(known[batch]), float(shares[batch])) for batch in worst]


def _coefficients(model: Any) -> dict[str, Any]:
    names, lines = LabelSummary(model).coefficients()
    rows = [(name, [number(line[j]) for _, line in lines]) for j, name in enumerate(names)]
    return {"classes": [label for label, _ in lines], "rows": rows[-200:]}
