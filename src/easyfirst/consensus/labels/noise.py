"""How often labels are wrong: P(given | right), read off the rows that are most certain.

Among rows that are certainly of class k, the labels given are those that the noise gave them: their
frequencies are line k of the noise matrix. Which rows are certain is told by models that have not
seen the labels of these rows, so that the frequencies are honest. Rows are sorted by how sure the
models are of class k; how often other labels are given rises along the way, and where the way
begins is the rate of errors.

The matrix is known only if some rows of each class are certain and most labels are right. Labels
that depend on chance as much as on the columns cannot be told from noisy ones by the surest rows
alone: the sex of a person, by age and wage, is never sure. Which of both it is, is asked elsewhere
(`evidence.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import norm, rankdata

from easyfirst.consensus.labels.levels import Levels
from easyfirst.consensus.labels.pairs import EvidenceOfPairs, OneRate
from easyfirst.contracts import Matrix, Vector
from easyfirst.local import labels

LEAST_ROWS = 50  # of each class, below which nothing is said about its labels
ALONG = 0.8  # of as many rows as have the label, the surest first: those that the rate is read from
FEWER = 0.6  # rows of a class over those that have the label, below which the former count
BINS = 40  # of these rows
RISES = (1.0, 2.0, 4.0, 8.0)  # powers of the rank by which errors may become more frequent
LIKENESS = 3.0  # variances by which squared rates must differ before they are thought to differ
CAUTION = 0.25  # standard errors by which less noise is assumed,
# and besides, where a class has a rate of its own: its surest rows may not all be of it.
MORE_CAUTION = 0.5
UNSURE = 0.05  # standard error beyond which a rate is in doubt
RISEN = 0.85  # of how much more frequent errors become: by how much a rate may be off, and
MOST_OFF = 2.0  # times a rate: more than that it is not off
NEARLY_HALF = 0.45  # a rate from which rows of a class look as if they were not certain at all
CONTRADICTION = 0.1  # from the rate that a class has by its own rows, beyond which it is in doubt
NO_NOISE = 0.02  # rates of errors that may as well be rows that were not certain after all
SIGNIFICANT = norm.ppf(0.95)
SIGNAL = 2.5  # standard errors of a rank test by which the columns must tell a class
HALF = 0.5  # of the labels of either of two classes: most are right
# Of the labels of one class, if those of others are right: from there on rows are not as certain as
# they look, or most labels are wrong.
MOST_WRONG = 0.55
CERTAIN = 0.95  # probability of a class from which a row is certain,
MOST_CERTAIN = 0.5  # and the share of such rows in each class from which all of them are counted
SURE = 1.96  # standard errors on each side of the share of wrong labels
LEAST_INFORMATION = 0.15  # the smallest eigenvalue of the matrix: no noise leaves less


@dataclass(frozen=True, eq=False)
class LabelNoise:
    """The noise matrix P(given | right), and what its lines rest on.

    `variance` is that of each line's rate of errors. Only classes that are `told` by the columns
    have a rate of their own. Lines in doubt rest on too few certain rows. Where classes overlap too
    much for wrong labels to be told, every label is right. Noise that is not identified is what it
    would be if most labels are right, which the surest rows do not say: it needs more evidence.
    """

    matrix: Matrix
    variance: Vector
    told: tuple[int, ...] = ()
    in_doubt: tuple[int, ...] = ()
    is_unidentified: bool = False
    overlaps: bool = False

    @classmethod
    def none(cls, n_classes: int, is_unidentified: bool = False) -> LabelNoise:
        """Return that every label is right."""
        return cls(np.eye(n_classes), np.zeros(n_classes), is_unidentified=is_unidentified)

    @classmethod
    def overlap(cls, n_classes: int) -> LabelNoise:
        """Return that every label is right, as far as classes that overlap let anyone tell."""
        return cls(np.eye(n_classes), np.zeros(n_classes), overlaps=True)

    def refused(self) -> LabelNoise:
        """Return that every label is taken as right, because the noise is not identified."""
        return LabelNoise.none(len(self.matrix), is_unidentified=True)

    @property
    def is_none(self) -> bool:
        """Whether every label is taken as right."""
        return bool(np.all(self.matrix == np.eye(len(self.matrix))))

    def at_most(self, shares: Matrix) -> LabelNoise:
        """Return the noise without what pairs of classes do not show.

        `shares` are of each wrong label, over the right one.
        """
        errors = self.matrix * (1.0 - np.eye(len(self.matrix)))
        right = 1.0 / (1.0 + shares.sum(axis=1, keepdims=True))
        matrix = np.minimum(errors, shares * right)
        return replace(self, matrix=matrix + np.diag(1.0 - matrix.sum(axis=1)))

    def beside_levels(self, levels: Levels) -> LabelNoise:
        """Return the noise of two classes by the surest rows and by the levels of their curve.

        Each has errors of its own: rates are the mean of both, less a part of a standard error.
        """
        rates = 1.0 - np.diag(self.matrix)
        both = 0.5 * (rates + np.array([1.0 - levels.high, levels.low]))
        cautious = np.maximum(both - MORE_CAUTION * np.sqrt(self.variance), 0.0)
        return replace(self, matrix=_with_rates(self.matrix, np.where(rates > 0.0, cautious, 0.0)))

    def going_anywhere(self, shared: OneRate) -> LabelNoise:
        """Return the noise if labels of all classes go to every other class alike."""
        n_classes = len(self.matrix)
        rate = max(shared.rate - CAUTION * float(np.sqrt(shared.variance)), 0.0)
        matrix = np.full((n_classes, n_classes), rate / (n_classes - 1))
        np.fill_diagonal(matrix, 1.0 - rate)
        variance = np.full(n_classes, shared.variance)
        return replace(self, matrix=matrix, variance=variance)

    @property
    def is_estimated(self) -> bool:
        """Whether the rows tell how often labels are wrong, be it never."""
        return bool(self.told) and not self.overlaps and not self.is_unidentified

    def interval(self, share: float, right_shares: Vector) -> tuple[float, float]:
        """Return a 95 % interval of the share of wrong labels; classes have given shares.

        From 0 to 1 where it is not estimated: that every label is taken as right is no finding.
        """
        if not self.is_estimated:
            return 0.0, 1.0
        error = float(np.sqrt(np.square(right_shares) @ self.variance))
        return max(share - SURE * error, 0.0), min(share + SURE * error, 1.0)


def noise_by_evidence(
    noise: LabelNoise,
    evidence: EvidenceOfPairs,
    probabilities: Matrix,
    codes: NDArray[np.intp],
    weight: Vector,
) -> LabelNoise:
    """Return the noise as far as there is evidence of it: none, equal in all classes, or of pairs.

    Of a rare class few rows are sure, and its own rate may be far off.
    """
    if noise.is_unidentified and not (evidence.only and evidence.only.may_be_half):
        return noise.refused()
    if not evidence.is_enough:
        return LabelNoise.overlap(len(noise.matrix))
    if len(noise.matrix) == 2:
        if not evidence.has_equal_rates:
            assert evidence.only is not None
            return replace(
                noise.beside_levels(evidence.only.closest.apart()), is_unidentified=False
            )
        alike = estimate_noise(probabilities, codes, weight, alike=True)
        return alike.refused() if alike.is_unidentified else alike
    if evidence.goes_anywhere:
        noise = noise.going_anywhere(evidence.shared)
    else:
        noise = noise.at_most(evidence.most())
    # Levels confirm a rate, or put it in doubt, better than the surest rows of other classes.
    half = np.flatnonzero(1.0 - np.diag(noise.matrix) > NEARLY_HALF).tolist()
    in_doubt = {k for k in (*half, *evidence.in_doubt) if noise.matrix[k, k] < 1.0}
    return replace(noise, in_doubt=tuple(sorted(in_doubt)))


def estimate_noise(
    probabilities: Matrix, codes: NDArray[np.intp], weight: Vector, alike: bool = False
) -> LabelNoise:
    """Return the noise of labels, `probabilities` being those of the given labels out of fold.

    `alike`: labels of all classes are known to be wrong equally often. Of two classes, neither has
    more than half of its labels wrong.
    """
    n_classes = probabilities.shape[1]
    counts = np.bincount(codes, weights=weight, minlength=n_classes).astype(np.float64)
    tells = [
        bool(counts[k] >= LEAST_ROWS and _is_told(probabilities[:, k], codes == k, weight))
        for k in range(n_classes)
    ]
    lines, variance, rise = _read_lines(probabilities, codes, weight, counts, tells)
    # Of a rare class, most rows that have the label are of another one: not so deep.
    of_class = _rows_of_class(counts, lines, variance)
    fewer = np.where(of_class < FEWER * counts, of_class, counts)
    if np.any(fewer < counts):
        lines, variance, rise = _read_lines(probabilities, codes, weight, fewer, tells)
    is_told = variance > 0
    lines, variance, contradicts = _shrunk(lines, variance, rise, alike)
    is_beyond = bool(np.any(1.0 - np.diag(lines) > MOST_WRONG))
    if n_classes == 2:
        lines = _with_rates(lines, np.minimum(1.0 - np.diag(lines), HALF))
    elif is_beyond:
        return LabelNoise.none(n_classes, is_unidentified=True)
    matrix = _without_traces(lines, variance)
    rates = 1.0 - np.diag(matrix)
    unsure = ((np.sqrt(variance) > UNSURE) | contradicts | (rates > NEARLY_HALF)) & (rates > 0.0)
    left = float(np.min(np.abs(np.linalg.eigvals(matrix))))
    if left < LEAST_INFORMATION:
        # So little would be left of the labels that the slightest error of a rate decides.
        share = (1.0 - LEAST_INFORMATION) / (1.0 - left)
        matrix, unsure = np.eye(n_classes) + share * (matrix - np.eye(n_classes)), variance > 0
    told = tuple(np.flatnonzero(is_told).tolist())
    in_doubt = tuple(np.flatnonzero(unsure).tolist())
    return LabelNoise(matrix, variance, told, in_doubt, is_unidentified=is_beyond)


def _read_lines(
    probabilities: Matrix,
    codes: NDArray[np.intp],
    weight: Vector,
    rows: Vector,
    tells: list[bool],
) -> tuple[Matrix, Vector, Vector]:
    """Return lines of the matrix, variances of their rates, and how far errors rise.

    Each is read off the surest rows of its class, of which there are `rows`.
    """
    n_classes = len(rows)
    lines, variance, rise = np.eye(n_classes), np.zeros(n_classes), np.zeros(n_classes)
    for k in np.flatnonzero(tells):
        order = np.argsort(-probabilities[:, k], kind="stable")
        order = order[np.cumsum(weight[order]) <= ALONG * rows[k]]
        is_wrong = codes[order] != k
        rate, variance[k] = rate_where_certain(is_wrong, weight[order])
        rise[k] = np.average(is_wrong, weights=weight[order]) - rate
        surest = order[: max(order.size // 2, 1)]
        lines[k] = np.bincount(codes[surest], weights=weight[surest], minlength=n_classes)
        lines[k, k] = 0.0
        lines[k] *= rate / max(lines[k].sum(), 1e-300)
        lines[k, k] = 1.0 - lines[k].sum()
    return lines, variance, rise


def _rows_of_class(counts: Vector, lines: Matrix, variance: Vector) -> Vector:
    """Return about how many rows are of each class, if all had the rate that is known best.

    Errors are thought to go to each other class alike.
    """
    known, n_classes = variance > 0, len(counts)
    if not np.any(known):
        return counts
    best = int(np.argmin(np.where(known, variance, np.inf)))
    to_each = min(float(1.0 - lines[best, best]) / (n_classes - 1), 0.9 / n_classes)
    right = (counts - to_each * counts.sum()) / (1.0 - n_classes * to_each)
    return np.asarray(np.maximum(right, LEAST_ROWS / ALONG))


def refined_noise(
    noise: LabelNoise, right: Matrix, codes: NDArray[np.intp], weight: Vector
) -> LabelNoise:
    """Return the noise counted anew, where most rows of every class are certain.

    `right` are probabilities of the right labels, out of fold. All certain rows tell the rates
    then, and nothing has to be read off the end of a curve.
    """
    n_classes = len(noise.matrix)
    sure = (right.max(axis=1) >= CERTAIN) & (weight > 0)
    given = np.eye(n_classes)[codes[sure]]
    joint = labels.expected_counts(right[sure], given, weight[sure], noise.matrix)
    rows = joint.sum(axis=1)
    if np.any(rows < MOST_CERTAIN * (weight @ right)) or rows.min() < LEAST_ROWS:
        return noise
    lines = joint / rows[:, None]
    rates = 1.0 - np.diag(lines)
    variance = np.maximum(rates * (1.0 - rates) / rows, 1.0 / np.square(rows))
    lines, variance, _ = _shrunk(lines, variance, np.zeros(n_classes))
    return replace(noise, matrix=lines, variance=variance, in_doubt=())


def rate_where_certain(is_wrong: NDArray[np.bool_], weight: Vector) -> tuple[float, float]:
    """Return the rate of errors at the first of the rows, the surest, and its variance.

    The rate rises from there with a power of the rank. Several powers are fitted by maximum
    likelihood, with a preference for no rise, and averaged by how well they fit.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rank = np.linspace(0.0, 1.0, 4000)
    >>> wrong = rng.random(4000) < 0.2 + 0.3 * rank**2
    >>> rate, variance = rate_where_certain(wrong, np.ones(4000))
    >>> abs(rate - 0.2) < 0.03, variance < 0.03**2
    (True, True)
    """
    sizes = np.cumsum(weight)
    place = np.minimum((BINS * (sizes - 0.5 * weight) / sizes[-1]).astype(np.intp), BINS - 1)
    rows = np.bincount(place, weights=weight, minlength=BINS).astype(np.float64)
    wrong = np.bincount(place, weights=weight * is_wrong, minlength=BINS).astype(np.float64)
    rank = (np.arange(BINS) + 0.5) / BINS
    fits = np.array([_rise(rows, wrong, rank**power) for power in RISES])
    share = np.exp(fits[:, 0].min() - fits[:, 0])
    share /= share.sum()
    rate = float(share @ fits[:, 1])
    return rate, float(share @ (fits[:, 2] + np.square(fits[:, 1] - rate)))


def _rise(rows: Vector, wrong: Vector, rank: Vector) -> tuple[float, float, float]:
    """Return minus the log likelihood of rates a + b rank at its best, a, and the variance of a."""

    def objective(point: Vector) -> tuple[float, Vector]:
        rate = np.clip(point[0] + point[1] * rank, 1e-6, 1.0 - 1e-6)
        slope = (rows - wrong) / (1.0 - rate) - wrong / rate
        value = -float(wrong @ np.log(rate) + (rows - wrong) @ np.log(1.0 - rate))
        return value + point[1], np.array([slope.sum(), slope @ rank + 1.0])

    half = rank <= np.median(rank)
    start = [max(float(wrong[half].sum() / max(rows[half].sum(), 1e-300)), 0.01), 0.05]
    found = minimize(
        objective, start, jac=True, method="L-BFGS-B", bounds=[(0.0, 0.99), (0.0, 1.0)]
    )
    first, rise = found.x.tolist()
    rate = np.clip(first + rise * rank, 1e-6, 1.0 - 1e-6)
    information = rows / (rate * (1.0 - rate))
    own, cross, other = information.sum(), information @ rank, information @ np.square(rank)
    left = own - (cross**2 / other if rise > 1e-6 else 0.0)
    least = 1.0 / max(float(rows.sum()), 1.0) ** 2  # no error at all is no certainty
    return float(found.fun), first, max(1.0 / max(float(left), 1e-300), least)


def _is_told(score: Vector, own: NDArray[np.bool_], weight: Vector) -> bool:
    """Return whether a score tells a class from the others, by a rank test."""
    counted = weight > 0
    ranks, own = rankdata(score[counted]), own[counted]
    n, m = int(own.sum()), int((~own).sum())
    if n == 0 or m == 0:
        return False
    excess = float(ranks[own].sum()) - 0.5 * n * (n + m + 1)
    return excess > SIGNAL * float(np.sqrt(n * m * (n + m + 1) / 12.0))


def _shrunk(
    lines: Matrix, variance: Vector, rise: Vector, alike: bool = False
) -> tuple[Matrix, Vector, NDArray[np.bool_]]:
    """Return the lines with rates of errors drawn together as far as chance explains them.

    And what is left of their variances, and whose own rate was overruled. A rate may be off by as
    much as errors become more frequent along the way to it: where that is much, no row is certain,
    or the noise depends on the columns, and the classes with certain rows speak for all. No error
    at all among the surest rows is no accident. The rates are also drawn, by a part of the standard
    error, towards no noise: some rows are less certain than they look, and too much noise does more
    harm than too little.
    """
    rates, known = 1.0 - np.diag(lines), variance > 0
    if not np.any(known):
        return lines, variance, known
    spread = variance + np.square(RISEN * np.minimum(rise, MOST_OFF * rates))
    share = np.where(known, 1.0 / np.where(known, spread, 1.0), 0.0)
    share /= share.sum()
    mean = float(share @ rates)
    between = float(np.sum(np.square(rates[known] - mean)))
    chance = LIKENESS * float(np.mean(spread[known])) * (np.count_nonzero(known) - 1)
    keep = max(0.0, 1.0 - (chance / between) ** 2) if between > 0 and not alike else 0.0
    left = np.where(known, keep * variance + (1.0 - keep) * (np.square(share) @ variance), 0.0)
    drawn = np.where(known, mean + keep * (rates - mean), 0.0)
    wanted = np.maximum(drawn - CAUTION * np.sqrt(left), 0.0)
    return _with_rates(lines, wanted), left, np.abs(drawn - rates) > CONTRADICTION


def _with_rates(lines: Matrix, rates: Vector) -> Matrix:
    """Return lines whose errors are as often as given, and go where they went."""
    errors = lines * (1.0 - np.eye(len(lines)))
    total = errors.sum(axis=1, keepdims=True)
    even = (1.0 - np.eye(len(lines))) / max(len(lines) - 1, 1)
    where = np.where(total > 0, errors / np.where(total > 0, total, 1.0), even)
    return np.asarray(np.diag(1.0 - rates) + rates[:, None] * where)


def _without_traces(matrix: Matrix, variance: Vector) -> Matrix:
    """Return the matrix without rates that rows which were not quite certain explain.

    A rate that is too much to be explained may go to so many classes that no part of it is.
    """
    chance = SIGNIFICANT * np.sqrt(variance)[:, None]
    errors = matrix * (1.0 - np.eye(len(matrix)))
    kept = np.where(errors - chance < NO_NOISE, 0.0, errors)
    is_spread = (kept.sum(axis=1) == 0.0) & (errors.sum(axis=1) - chance[:, 0] >= NO_NOISE)
    kept = np.where(is_spread[:, None], errors, kept)
    return np.asarray(kept + np.diag(1.0 - kept.sum(axis=1)))
