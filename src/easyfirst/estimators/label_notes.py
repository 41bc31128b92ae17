"""What a user should know about how labels were judged, and when not to believe it, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easyfirst.consensus.labels.fit_classes import FittedLabels
from easyfirst.consensus.labels.noise import LEAST_ROWS, LabelNoise
from easyfirst.contracts import Vector

MORE_WRONG = 0.05  # share of wrong labels above that of a typical batch that makes a batch bad
MOST_NAMED = 10
NOT_CHECKED = (
    f"Labels were not checked: that needs at least {LEAST_ROWS} rows of two classes. "
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


def notes_of(fitted: FittedLabels) -> tuple[str, ...]:
    """Return how labels were judged, where that is not plain."""
    if fitted.noise is None:
        return ()
    if not fitted.has_judge:
        return (NOT_CHECKED,)
    if fitted.noise.overlaps:
        return (OVERLAP,)
    if not fitted.noise.told and not fitted.noise.is_unidentified:
        return (NOT_TOLD,)
    shares = np.array([t.weight / t.total if t.total else 1.0 for t in fitted.tallies])
    return notes_about_batches(shares, fitted.own_noise)


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
