"""Making the judge of labels, on a sample of the rows.

Flexible models (gradient boosting and, where labels look wrong, smoother ones) and the linear one
are fitted without each fold in turn, and mixed so that the labels given are most probable. What
they say out of fold tells how noisy the labels are; then the linear model is fitted anew with that
noise inside its likelihood, and mixed with what was said before, the noise taken out. No model has
to be right alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from easyfirst.consensus.labels.by_columns import noise_by_columns
from easyfirst.consensus.labels.evidence import LinearLogits, are_many
from easyfirst.consensus.labels.mixing import best_mix
from easyfirst.consensus.labels.models import (
    COMPARED,
    Folds,
    boosters,
    line,
    lines,
    lines_through_noise,
    smooth_models,
)
from easyfirst.consensus.labels.noise import (
    LEAST_ROWS,
    LabelNoise,
    estimate_noise,
    noise_by_evidence,
    refined_noise,
)
from easyfirst.consensus.labels.pairs import evidence_of_pairs
from easyfirst.contracts import Batch, Matrix, Spread, Vector
from easyfirst.local import labels
from easyfirst.local.label_judge import (
    Blend,
    Judge,
    class_probabilities,
    folds_of,
    linear_logits,
    mixed,
)
from easyfirst.local.labels import Labelling, LabelProblem
from easyfirst.local.weighing import importance

SAMPLE_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class Judged:
    """The noise of the labels, and the judge; there is none where rows are too few."""

    noise: LabelNoise
    judge: Judge | None = None
    start: Matrix | None = None  # a linear model of the sample, near that of all rows


def judge_labels(
    rows: Batch, problem: LabelProblem, penalty: Vector, spread: Spread, seed: int
) -> Judged:
    """Return the noise of the labels of a sample, and a judge for labels of any row."""
    codes, weight = labels.codes_of(rows, problem), importance(rows)
    counts = np.bincount(codes, weights=weight, minlength=problem.n_classes)
    if np.sort(counts)[-2:].min() < LEAST_ROWS:
        return Judged(LabelNoise.none(problem.n_classes))
    fold = folds_of(rows.X)
    if np.all(fold == fold[0]):  # all rows are alike: none tells anything of another
        return Judged(LabelNoise.none(problem.n_classes))
    even = replace(problem, class_weight=np.ones(problem.n_classes))
    folds = Folds(rows, even, penalty, fold, codes, weight, spread, seed)
    start = line(folds, labels.expand, Labelling(), None, None)
    given = _GivenLabels.by_models(folds, start)
    noise = estimate_noise(given.seen, codes, weight)
    by_columns = None
    if not _are_clearly_right(noise):
        given = given.with_smooth_models(folds)
        noise = estimate_noise(given.seen, codes, weight)
    # Where the surest rows are right, others that are not may as well be left to chance.
    if not _are_clearly_right(noise):
        by_columns = noise_by_columns(rows.X, given.seen, codes, weight)
    if by_columns is not None or not noise.is_none:
        linear = _linear_logits(folds, start, noise.matrix, given.own)
        evidence = evidence_of_pairs(given.seen, codes, weight, linear, rows.X)
        if not noise.is_none:
            noise = noise_by_evidence(noise, evidence, given.seen, codes, weight)
        if by_columns is not None and not by_columns.outdoes(evidence.only):
            by_columns = None
    through = labels.expand_through_noise
    if by_columns is not None:
        noise, rates = by_columns.noise, by_columns.rates
        judge = Judge(noise.matrix, given.flexible, given.blend, rates=rates)
        return Judged(noise, judge, line(folds, through, noise.matrix, start, None))
    if noise.is_none:
        return Judged(noise, Judge(noise.matrix, given.flexible, given.blend), start)
    of_right = lines_through_noise(folds, noise.matrix, given.blend.lines)
    start = line(folds, through, noise.matrix, start, None)
    others = [given.seen] if given.flexible else []
    second, right = _blended(folds, others, of_right, noise.matrix)
    judge = Judge(noise.matrix, given.flexible, given.blend, second)
    return Judged(refined_noise(noise, right, codes, weight), judge, start)


def _linear_logits(folds: Folds, start: Matrix, noise: Matrix, own: Matrix) -> LinearLogits:
    """Return what linear models say, those of all rows if these are many for their columns."""
    X, through, n_coef = folds.rows.X, labels.expand_through_noise, folds.penalty.size
    if are_many(float(folds.weight.sum()), n_coef):
        all_rows = np.zeros_like(folds.fold)
        levelled = linear_logits(X, all_rows, (line(folds, through, noise, start, None, COMPARED),))
        return LinearLogits(own, linear_logits(X, all_rows, (start,)), levelled, n_coef)
    levelled = linear_logits(X, folds.fold, lines(folds, through, noise, start))
    return LinearLogits(own, own, levelled, 0)


def _are_clearly_right(noise: LabelNoise) -> bool:
    """Return whether models tell the labels, and the surest rows of every class have its label."""
    return noise.is_none and not noise.is_unidentified and bool(noise.told)


@dataclass(frozen=True, eq=False)
class _GivenLabels:
    """What models that have not seen a row say of the label that it is given.

    `told` holds probabilities by each kind of flexible model, `own` the logits of linear ones, and
    `seen` the probabilities by all of them.
    """

    flexible: tuple[tuple[object, ...], ...]
    told: tuple[Matrix, ...]
    own: Matrix
    blend: Blend
    seen: Matrix

    @classmethod
    def by_models(cls, folds: Folds, start: Matrix) -> _GivenLabels:
        """Return what linear models say, and boosters where they know more."""
        of_given = lines(folds, labels.expand, Labelling(), start)
        own = linear_logits(folds.rows.X, folds.fold, of_given)
        fitted = boosters(folds, own)
        return cls._of(folds, (fitted,) if fitted else (), (), own, of_given)

    def with_smooth_models(self, folds: Folds) -> _GivenLabels:
        """Return what all say if models that follow single labels less are asked as well."""
        fitted = smooth_models(folds)
        if not fitted:
            return self
        flexible = (*self.flexible, *fitted)
        return self._of(folds, flexible, self.told, self.own, self.blend.lines)

    @classmethod
    def _of(
        cls,
        folds: Folds,
        flexible: tuple[tuple[object, ...], ...],
        told: tuple[Matrix, ...],
        own: Matrix,
        of_given: tuple[Matrix, ...],
    ) -> _GivenLabels:
        X, fold, n_classes = folds.rows.X, folds.fold, folds.n_classes
        more = [class_probabilities(X, fold, each, n_classes) for each in flexible[len(told) :]]
        blend, seen = _blended(folds, [*told, *more], of_given, np.eye(n_classes), own)
        return cls(flexible, (*told, *more), own, blend, seen)


def _blended(
    folds: Folds,
    others: Sequence[Matrix],
    of_fold: tuple[Matrix, ...],
    noise: Matrix,
    own: Matrix | None = None,
) -> tuple[Blend, Matrix]:
    """Return linear models blended with other probabilities, and what they say out of fold."""
    if own is None:
        own = linear_logits(folds.rows.X, folds.fold, of_fold)
    mix, offset = best_mix(others, own, noise, folds.codes, folds.weight)
    return Blend(of_fold, mix, offset), mixed(others, own, noise, mix, offset)
