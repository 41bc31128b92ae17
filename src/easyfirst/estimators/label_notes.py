"""What a user should know about how labels were judged, and when not to believe it, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easyfirst.consensus.labels.fit_classes import FittedLabels
from easyfirst.consensus.labels.noise import LEAST_ROWS, LabelNoise
from easyfirst.consensus.labels.pairs import LEAST_OF_A_LABEL
from easyfirst.contracts import Vector

MORE_WRONG = 0.05  # share of wrong labels above that of a typical batch that makes a batch bad
MOST_NAMED = 10
NOT_CHECKED = (
    f"Labels were not checked: that needs at least {LEAST_ROWS} rows of two classes, and columns "
    "in which rows differ. "
    f"Every label is taken as right."
)
OVERLAP = (
    "Every label is taken as right: the columns leave many rows between the classes, and nothing "
    "says that labels there were flipped rather than left to chance. SelfPaced with a better "
    "model, or more columns, may tell more."
)
NOT_TOLD = (
    "Labels were not checked: models of other rows tell the labels no better than chance. Every "
    "label is taken as right."
)
BY_COLUMNS = (
    "Labels are wrong more often for some values of the columns than for others. weights_ and "
    "judge know by how much; label_noise_ is the mean over all rows."
)


def notes_of(fitted: FittedLabels, classes: NDArray[Any], counts: Vector) -> tuple[str, ...]:
    """Return how labels were judged, where that is not plain; classes have `counts` rows."""
    if fitted.noise is None:
        return ()
    if not fitted.has_judge:
        return (NOT_CHECKED,)
    few = note_about_few(classes, counts)
    if fitted.noise.overlaps:
        return (OVERLAP, *few)
    if not fitted.noise.told and not fitted.noise.is_unidentified:
        return (NOT_TOLD,)
    by_columns = () if fitted.rates_by_columns is None else (BY_COLUMNS,)
    shares = np.array([t.weight / t.total if t.total else 1.0 for t in fitted.tallies])
    return (*by_columns, *few, *notes_about_batches(shares, fitted.own_noise))


def note_about_few(classes: NDArray[Any], counts: Vector) -> tuple[str, ...]:
    """Name the classes of so few rows that nothing tells how often their labels are wrong."""
    few = [
        name
        for name, rows in zip(classes.tolist(), counts, strict=True)
        if 0 < rows < LEAST_OF_A_LABEL
    ]
    if not few:
        return ()
    named = ", ".join(repr(name) for name in few[:MOST_NAMED])
    more = f" and {len(few) - MOST_NAMED} more" if len(few) > MOST_NAMED else ""
    return (
        f"Labels of {named}{more} could not be judged: fewer than {LEAST_OF_A_LABEL} rows have "
        f"{'it' if len(few) == 1 else 'each of them'}. That they are taken as right is no finding.",
    )


def notes_about_batches(clean_shares: Vector, own_noise: Sequence[int]) -> tuple[str, ...]:
    """Name the batches whose labels are wrong clearly more often than those of others."""
    usual = float(np.median(clean_shares))
    bad = [b for b in own_noise if clean_shares[b] < usual - MORE_WRONG]
    if not bad:
        return ()
    named = ", ".join(f"{b} ({100 * (1 - clean_shares[b]):.0f} % wrong)" for b in bad[:MOST_NAMED])
    more = f" and {len(bad) - MOST_NAMED} more" if len(bad) > MOST_NAMED else ""
    one = len(bad) == 1
    return (
        f"{'Batch' if one else 'Batches'} {named}{more}: labels are wrong more often there than in "
        f"the other batches. Each was judged by its own noise.",
    )


def doubts_of(noise: LabelNoise | None, classes: NDArray[Any]) -> tuple[str, ...]:
    """Return where the data do not support the estimate of the noise."""
    if noise is None:
        return ()
    if noise.is_unidentified:
        return (
            "Labels were not checked: for some class not even the surest rows have mostly that "
            "label. Either the columns say little about the labels, or most labels of a class are "
            "wrong; these cannot be told apart. Every label is taken as right.",
        )
    if not noise.in_doubt:
        return ()
    names = ", ".join(repr(classes.tolist()[k]) for k in noise.in_doubt)
    return (
        f"How often labels of {names} are wrong is in doubt: few rows are certain to be of that "
        f"class, and labels that depend on chance look like wrong ones. Check some of the "
        f"suspicious rows before you trust label_noise_ and weights_.",
    )
