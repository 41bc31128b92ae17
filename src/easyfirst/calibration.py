"""The clean and the corrupted part of the residuals, fitted to their histogram.

Clean residuals are taken as normal, N(0, scale**2); corrupted ones as flat within a window around
zero, at one level below and another above it (nothing is assumed further out). The posterior
probability that a row is clean is then the entropic self-paced weight with width 2 scale**2 and
the threshold that `CleanMixture.thresholds` returns, so maximum likelihood leaves no pace to
choose. `docs/calibrated-pace.md` derives it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import expit, ndtr

from easyfirst.contracts import Matrix, Vector
from easyfirst.summaries import BINS_PER_OCTAVE, N_BINS, LossSummary, bin_edges

ROOT_2PI = float(np.sqrt(2.0 * np.pi))
WINDOW = 8.0  # half-width, in scales, of the window in which the corrupted part is flat
SMALL_WINDOW = 10.0  # the same for a hundred rows or fewer, where the scale itself is uncertain
NO_WEIGHT = 16.0  # scales from which no row has a weight, whatever the odds
FINEST = 1.0 / 32.0  # of a scale: residuals below tell nothing more about it
PSEUDO_ROWS = 0.35  # corrupted rows taken for granted on each side: no finite row is ever certain
PRIOR_ROWS = 20.0  # rows' worth of the overall clean share in a batch's own
GRANTED = 0.85  # of few rows, that are clean unless there is evidence against it
MOST_TAKEN, MOST_CHOSEN = 0.75, 0.18  # of a scale, by coefficients that are many for their rows
SHARE_TOLERANCE = 1e-12  # of a batch's clean share
ROUNDING = 2.0**-34  # residuals below this share of the spread of y are rounding errors
HALF_OCTAVE = BINS_PER_OCTAVE // 2
MOST_WINDOWS = 24
STRAYED = 0.5  # in log scale: a move for which another window is due
SAME_WINDOW = 0.1  # in log scale: a move within which the window serves
ROUGHLY = 1e-2  # a step in the logarithms after which the window is looked at
LARGEST_EXPONENT = 1400.0  # keeps exp within range for rows that are out anyway

Parameters = tuple[float, float, float, float]  # logarithms of (scale, clean, below, above)


@dataclass(frozen=True)
class CleanMixture:
    """`clean` rows of N(0, scale**2) among `total`; `below` and `above` corrupted rows per unit."""

    total: float
    scale: float
    clean: float
    below: float
    above: float
    free_scale: float = 0.0  # what the scale would be without a least one

    @property
    def share(self) -> float:
        """The share of clean rows."""
        return min(self.clean / self.total, 1.0)

    @property
    def width(self) -> float:
        """The width of the entropic step: twice the clean variance."""
        return 2.0 * self.scale**2

    def parameters(self, scale: float, total: float) -> Parameters:
        """Return the logarithms of a like mixture of another scale and number of rows."""
        times = total / self.total
        rows = (times * self.clean, times * self.below, times * self.above)
        clean, below, above = (math.log(max(number, 1e-300)) for number in rows)
        return math.log(scale), clean, below, above

    @property
    def odds_at_zero(self) -> float:
        """How many corrupted rows there are per clean one where the fit is exact, at worst."""
        return float(np.max(self._odds(np.array([self.share]))))

    def thresholds(self, shares: Vector) -> Matrix:
        """Return the (below, above) thresholds on the loss for batches with these clean shares.

        At the threshold a row is as likely clean as corrupted. It is negative where no row of
        the batch is more likely clean than not.
        """
        odds = self._odds(shares)
        return np.asarray(-self.width * np.log(odds))

    def posterior(self, residuals: Vector, shares: Vector | None = None) -> Vector:
        """Return the probability of being clean, shape (batches, 2, residuals) for each sign."""
        own = np.array([self.share]) if shares is None else shares
        exponent = np.minimum(np.square(residuals / self.scale), LARGEST_EXPONENT) / 2.0
        return np.asarray(expit(-np.log(self._odds(own))[:, :, None] - exponent))

    def flat_odds(self, residuals: Vector) -> Matrix:
        """Return the density of corrupted over that of clean rows, shape (2, residuals)."""
        clean = np.exp(-np.minimum(np.square(residuals / self.scale), LARGEST_EXPONENT) / 2.0)
        corrupted = np.array([[self.below], [self.above]]) / max(self.total - self.clean, 1e-9)
        return np.asarray(corrupted * self.scale * ROOT_2PI / np.maximum(clean, 1e-300))

    def _odds(self, shares: Vector) -> Matrix:
        """Corrupted-to-clean odds at zero residual, shape (batches, 2)."""
        overall = self.scale * ROOT_2PI / self.clean * np.array([self.below, self.above])
        least = 1.0 / (self.total + 2.0)
        own = np.clip(shares, least, 1.0 - least)
        pooled = float(np.clip(self.share, least, 1.0 - least))
        return np.asarray(((1.0 - own) / own * (pooled / (1.0 - pooled)))[:, None] * overall)


def fit_mixture(
    losses: LossSummary,
    start: float | CleanMixture,
    max_iter: int = 400,
    tol: float = 1e-7,
    granted: float = GRANTED,
) -> CleanMixture:
    """Return the maximum-likelihood mixture near `start`: a scale, or a mixture of like residuals.

    The likelihood has one maximum per scale at which the residuals look clean; easy rows come
    first, so the caller starts from the scale of the rows selected so far. The window follows
    the scale until the two agree. `granted` is the share of few rows that are clean for certain.
    """
    edges = bin_edges(losses.anchor)
    floor = max(losses.anchor * ROUNDING, _least_scale(losses, granted))
    fitted: Parameters | None = None
    if isinstance(start, CleanMixture):
        scale = max(start.scale, floor)
        fitted = start.parameters(scale, losses.total)
    else:
        scale = max(start, floor)
    half_width = WINDOW + (SMALL_WINDOW - WINDOW) * min(1.0, 100.0 / losses.total)
    spent = 0.0 if losses.studentized else float(losses.n_coef)
    # Where rough numbers will do, those of the first window that the scale stays in are enough.
    settled = fitted is not None or tol >= ROUGHLY
    for _ in range(MOST_WINDOWS):
        first, last = _window(edges, scale, half_width)
        counts, known = losses.merged, (0.0, 0.0)
        if losses.trusted is not None:
            counts = counts - losses.trusted
            near = losses.trusted[:, :last].sum(axis=0)
            squares = np.square(bin_middles(losses.anchor)[:last])
            known = (float(near.sum()), float(near @ squares))
        counts = _joined(counts, first, last)
        window = _Window(counts, np.append(0.0, edges[first : last + 1]), floor, spent, known)
        fitted = _most_likely(
            window, scale, fitted, max_iter, tol if settled else max(tol, ROUGHLY)
        )
        moved = abs(fitted[0] - math.log(scale))
        scale = math.exp(fitted[0])
        if settled and moved < SAME_WINDOW:
            break
        settled = moved < SAME_WINDOW
    assert fitted is not None
    free_scale = math.sqrt(window.expect(fitted)[1])
    scale, clean, below, above = map(math.exp, fitted)
    return CleanMixture(losses.total, scale, clean + window.known[0], below, above, free_scale)


def keep_everything(losses: LossSummary, scale: float) -> CleanMixture:
    """Return a mixture in which every row is clean, as far as one can be."""
    floor = max(scale, losses.anchor * ROUNDING)
    level = PSEUDO_ROWS / (SMALL_WINDOW * floor)
    return CleanMixture(losses.total, floor, losses.total, level, level, floor)


def clean_shares(losses: LossSummary, mixture: CleanMixture) -> Matrix:
    """Return the clean share of every band of every batch, shape (n_batches, n_bands).

    A band's share is drawn towards the overall one, a batch's towards its band's, by a few
    rows' worth: where rows are many they speak for themselves.
    """
    overall = np.array([mixture.share])
    n_batches, n_bands = losses.counts.shape[:2]
    if n_batches == n_bands == 1:
        return overall[None]
    by_band = _likely_shares(losses.counts.sum(axis=0), mixture, overall, losses)
    if n_batches == 1:
        return by_band[None]
    prior = np.tile(by_band, n_batches)
    groups = losses.counts.reshape(n_batches * n_bands, 2, N_BINS)
    return _likely_shares(groups, mixture, prior, losses).reshape(n_batches, n_bands)


def _likely_shares(
    counts: Vector, mixture: CleanMixture, prior: Vector, losses: LossSummary
) -> Vector:
    """Return the clean share of every group that makes its histogram most likely.

    Scale and corrupted levels are given; what is left is concave in the share, so Newton's steps,
    halved towards the bracket where they leave it, find the maximum. The prior enters as rows
    that are clean in that share.
    """
    first, last = _window(bin_edges(losses.anchor), mixture.scale, WINDOW)
    observed = _joined(counts, first, last).reshape(len(counts), -1)
    middles = bin_middles(losses.anchor)
    odds = mixture.flat_odds(np.append(0.0, middles[first:last])).ravel()
    outside = counts[:, :, last:].sum(axis=(1, 2))
    low = np.full(len(counts), SHARE_TOLERANCE)
    high = 1.0 - low
    share = np.clip(np.broadcast_to(prior, len(counts)), 0.01, 0.99)
    for _ in range(40):
        gain = (1.0 - odds) / (odds + share[:, None] * (1.0 - odds))
        clean, corrupted = prior / share, (1.0 - prior + outside / PRIOR_ROWS) / (1.0 - share)
        slope = np.einsum("gb,gb->g", observed, gain) + PRIOR_ROWS * (clean - corrupted)
        fall = np.einsum("gb,gb,gb->g", observed, gain, gain)
        fall += PRIOR_ROWS * (clean / share + corrupted / (1.0 - share))
        low, high = np.where(slope > 0, share, low), np.where(slope > 0, high, share)
        step = share + slope / fall
        step = np.where((step >= low) & (step <= high), step, 0.5 * (low + high))
        moved = float(np.max(np.abs(step - share), initial=0.0))
        share = step
        if moved < SHARE_TOLERANCE:
            break
    return np.asarray(share)


def _window(edges: Vector, scale: float, half_width: float) -> tuple[int, int]:
    """Return the first bin that counts for itself and the end of a window, in scales.

    Far inside the scale all bins say the same, so they are taken together.
    """
    first, last = np.searchsorted(edges, (FINEST * scale, half_width * scale)).tolist()
    last = min(max(last, 8), N_BINS - 1)
    return min(max(first, 1), last - 1), last


@lru_cache(maxsize=8)
def bin_middles(anchor: float) -> Vector:
    """Return one |residual| per bin to stand for it."""
    edges = bin_edges(anchor)
    inner = np.sqrt(edges[1:-2] * edges[2:-1])
    middles = np.concatenate(([0.0], inner, [edges[-2]]))
    middles.flags.writeable = False  # shared by all who ask
    return middles


def information(losses: LossSummary, mixture: CleanMixture) -> tuple[float, float]:
    """Return (sum of weights, sum of d(weight * residual) / d residual).

    The second is how many clean rows the weighted rows are worth to the coefficients; their
    ratio is how much further than the weighted fit the maximum of the likelihood lies.
    """
    first, last = _window(bin_edges(losses.anchor), mixture.scale, NO_WEIGHT)
    middle = np.append(0.0, bin_middles(losses.anchor)[first:last])
    counts = _joined(losses.merged, first, last)
    posterior = mixture.posterior(middle)[0]
    slope = posterior * (1.0 - (1.0 - posterior) * np.square(middle / mixture.scale))
    return float(np.vdot(counts, posterior)), float(np.vdot(counts, slope))


def _joined(counts: Matrix, first: int, last: int) -> Matrix:
    """Return the counts of a window's bins, those before the first one together."""
    inner = counts[..., :first].sum(axis=-1, keepdims=True)
    return np.concatenate([inner, counts[..., first:last]], axis=-1)


def shortfall(losses: LossSummary, mixture: CleanMixture) -> float:
    """Return the largest deficit of rows within two scales of zero, over the clean rows.

    A normal stretched over a flat cloud of corrupted rows has too few rows in its middle: about
    0.09 for a uniform cloud, and near 0 for a mixture that fits.
    """
    edges = bin_edges(losses.anchor)
    last = int(np.clip(np.searchsorted(edges, 2.0 * mixture.scale), 2, N_BINS - 1))
    edges = edges[: last + 1]
    expected = 2.0 * mixture.clean * np.diff(ndtr(edges / mixture.scale))
    expected += (mixture.below + mixture.above) * np.diff(edges)
    observed = losses.merged[:, :last].sum(axis=0)
    return float(np.max(np.cumsum(expected - observed)) / mixture.clean)


def log_likelihood(losses: LossSummary, mixture: CleanMixture) -> float:
    """Return the mean log density of the residuals: the mixture near zero, the histogram far out.

    Beyond the window no model is assumed, so a far row counts by how many lie near it.
    """
    edges = bin_edges(losses.anchor)
    last = _window(edges, mixture.scale, WINDOW)[1]
    width = np.diff(edges[: last + 1])
    clean = mixture.clean * np.diff(ndtr(edges[: last + 1] / mixture.scale))
    near = clean + np.array([[mixture.below], [mixture.above]]) * width
    total = float(np.sum(losses.merged[:, :last] * np.log(near / width)))
    # Half an octave at a time, and the same halves whatever the window.
    groups = np.arange(N_BINS) // HALF_OCTAVE
    widths = np.diff(np.append(edges[:-1], 2.0 * edges[-2]))
    width_of = np.bincount(groups, weights=np.where(np.arange(N_BINS) >= last, widths, 0.0))
    far = np.where(np.arange(N_BINS) >= last, losses.merged, 0.0)
    mass = np.stack([np.bincount(groups, weights=side) for side in far])
    density = mass / np.maximum(width_of, 1e-300)
    logs = np.log(np.maximum(density, 1e-300))[:, groups]
    return (total + float(np.sum(far * logs))) / losses.total - float(np.log(losses.total))


def mass_quantile(mass: Vector, anchor: float, level: float) -> float:
    """Return the |residual| below which `level` of the mass lies."""
    cumulative = np.cumsum(mass)
    target = level * cumulative[-1]
    edges = bin_edges(anchor)
    index = min(int(np.searchsorted(cumulative, target)), N_BINS - 2)
    before = cumulative[index - 1] if index else 0.0
    inside = (target - before) / mass[index] if mass[index] > 0 else 1.0
    return float(edges[index] + min(inside, 1.0) * (edges[index + 1] - edges[index]))


def signed_quantile(mass: Matrix, anchor: float, level: float) -> float:
    """Return the residual below which `level` of the mass lies; mass has a row for each sign."""
    below, above = mass.sum(axis=1).tolist()
    target = level * (below + above)
    if target < below:
        return -mass_quantile(mass[0], anchor, 1.0 - target / below)
    return mass_quantile(mass[1], anchor, (target - below) / max(above, 1e-300))


def corrupted_interval(
    losses: LossSummary, mixture: CleanMixture, z: float = 1.959964
) -> tuple[float, float]:
    """Return an interval for the share of corrupted rows among these rows.

    From the Poisson information of the bins about the four parameters; fitting the coefficients
    draws some corrupted rows into the middle, which is corrected for.
    """
    edges = bin_edges(losses.anchor)
    last = _window(edges, mixture.scale, WINDOW)[1]
    scaled = edges[: last + 1] / mixture.scale
    width = np.diff(edges[: last + 1])
    mass = np.diff(ndtr(scaled))
    slope = -mixture.clean * np.diff(scaled * np.exp(-0.5 * np.square(scaled))) / ROOT_2PI
    zero = np.zeros(last)
    derivative = np.hstack(
        [np.stack([mass, slope, width, zero]), np.stack([mass, slope, zero, width])]
    )
    rate = (
        mixture.clean * derivative[0]
        + mixture.below * derivative[2]
        + mixture.above * derivative[3]
    )
    rate = np.maximum(rate, np.finfo(float).tiny)
    unit = np.sqrt(np.sum(np.square(derivative) / rate, axis=1))
    derivative = derivative / unit[:, None]
    variance = np.linalg.pinv((derivative / rate) @ derivative.T)[0, 0] / unit[0] ** 2
    weight, worth = information(losses, mixture)
    clean = mixture.clean - losses.n_coef * max(1.0 - worth / max(weight, 1e-300), 0.0)
    # The clean rows at hand are fixed, so their own Poisson variance does not count; three rows
    # are what seeing none leaves possible.
    half = z * float(np.sqrt(max(variance - mixture.clean, 0.0))) + 3.0
    return (
        max(0.0, 1.0 - (clean + half) / mixture.total),
        min(1.0, 1.0 - (clean - half) / mixture.total),
    )


def granted_rows(total: float, n_coef: int, share: float = GRANTED) -> float:
    """Return how many rows are taken as clean: a share of few, some per coefficient of many."""
    return min(share * total, 4.0 * n_coef + 40.0)


def _least_scale(losses: LossSummary, granted: float) -> float:
    """Return the least scale that leaves as many clean rows as are taken for granted.

    At least two thirds of those lie within 0.967 scales. Residuals are smaller than the noise by
    what the coefficients took; studentized ones are not, but the rows that a fit suits are chosen.
    """
    rows = granted_rows(losses.total, losses.n_coef, granted)
    share = min(max(rows / 1.5, losses.n_coef + 1.0) / losses.total, 1.0)
    most = MOST_CHOSEN if losses.studentized else MOST_TAKEN
    fitted = 1.0 - min(0.7 * losses.n_coef / losses.total, most)
    return float(np.sqrt(losses.loss_quantile(share))) / 0.967 / fitted


@dataclass(frozen=True, eq=False)
class _Window:
    """The histogram within a window, and one step of expectation maximisation on it.

    Bins enter with their exact masses, so their width biases nothing. The clean variance is
    divided by the clean rows left after fitting the coefficients. `known` rows are clean for
    certain, with this sum of squares, and not among the counts. Parameters are the logarithms of
    (scale, clean, below, above). Called a thousand times per fit on short arrays, so what can
    be a plain number is one.
    """

    counts: Matrix
    edges: Vector
    floor: float
    spent: float
    known: tuple[float, float] = (0.0, 0.0)

    @cached_property
    def width(self) -> Vector:
        """The width of each bin."""
        return np.diff(self.edges)

    @cached_property
    def side(self) -> tuple[float, float]:
        """The rows below and above zero."""
        below, above = self.counts.sum(axis=1).tolist()
        return below, above

    @cached_property
    def reach(self) -> float:
        """The half-width of the window."""
        return float(self.edges[-1])

    def expect(self, theta: Parameters) -> tuple[float, float, float, float]:
        """Return the clean rows, their variance, and the corrupted rows below and above."""
        s, clean = math.exp(theta[0]), math.exp(theta[1])
        z = self.edges / s
        moment = np.empty((2, z.size))  # of the standard normal up to each edge: 0th and 2nd
        ndtr(z, out=moment[0])
        np.exp(-0.5 * z * z, out=moment[1])
        moment[1] *= z / -ROOT_2PI
        moment[1] += moment[0]
        inside = np.maximum(moment[:, 1:] - moment[:, :-1], 1e-300)
        level = np.array([[math.exp(theta[2])], [math.exp(theta[3])]])
        ratio = self.counts / (clean * inside[0] + level * self.width)
        (below, square_below), (above, square_above) = (clean * (ratio @ inside.T)).tolist()
        total = max(below + above, 1e-3)
        variance = ((square_below + square_above) * s * s + self.known[1]) / (total + self.known[0])
        variance /= max(1.0 - self.spent / (total + self.known[0]), 0.25)
        return total, variance, self.side[0] - below, self.side[1] - above

    def update(self, theta: Parameters) -> Parameters:
        """Return the parameters after one step."""
        clean, variance, below, above = self.expect(theta)
        s = min(max(math.sqrt(variance), self.floor), self.reach / 2.0)
        densities = ((rows + PSEUDO_ROWS) / self.reach for rows in (below, above))
        return math.log(s), math.log(clean), *map(math.log, densities)  # type: ignore[return-value]


def _most_likely(
    window: _Window, scale: float, start: Parameters | None, max_iter: int, tol: float
) -> Parameters:
    """Iterate to the maximum of the likelihood, with squared extrapolation.

    Or to where the scale is not that of the window any more.
    """
    if start is None:
        total = max(float(window.counts.sum()), 1e-300)
        flat = math.log(0.25 * total / window.reach)
        start = (math.log(scale), math.log(0.5 * total), flat, flat)
    theta = start
    for _ in range(max(1, max_iter // 3)):
        once = window.update(theta)
        twice = window.update(once)
        first = [b - a for a, b in zip(theta, once, strict=True)]
        second = [c - b - d for b, c, d in zip(once, twice, first, strict=True)]
        bend = math.hypot(*second)
        if math.dist(once, twice) < tol or bend == 0.0:
            return twice
        step = min(max(math.hypot(*first) / bend, 1.0), 16.0)
        a, b, c, d = (
            t + 2.0 * step * f + step * step * g
            for t, f, g in zip(theta, first, second, strict=True)
        )
        leap = (a, b, c, d)
        near = max(abs(x - y) for x, y in zip(leap, twice, strict=True)) < 1.0
        theta = window.update(leap) if near else twice
        if abs(theta[0] - math.log(scale)) > STRAYED:
            break
    return theta
