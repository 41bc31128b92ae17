"""Simple mistakes by which a right number becomes a wrong one, and how likely each makes it.

A mistake takes the true value, which lies near the prediction, to the given one. Its density at
the given value is that of the noise around the prediction at the true value, over how far the
mistake spreads values apart. Mistakes that would have moved the value too little to be noticed
are not considered: rows with small errors are not among those that look wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from easyfirst.contracts import Matrix, Vector
from easyfirst.report.digits import Slips, kinds_of_misreading, transposed_digits
from easyfirst.report.true_values import TrueValues
from easyfirst.report.wording import visible
from easyfirst.report.writing import Writing, written_step
from easyfirst.transforms import IDENTITY, TargetTransform

NOTICED = 3.5  # noise scales that a mistake moves a value at least to be noticed at all
MOVED = 2.0  # noise scales at least between the given and the true value
TAIL = 5.0  # degrees of freedom of the noise, so that no fix hangs on a tenth of a scale
TAIL_CONSTANT = float(gammaln((TAIL + 1) / 2) - gammaln(TAIL / 2) - 0.5 * np.log(TAIL * np.pi))
USUAL_CODES = (-1.0, -9.0, -99.0, -999.0, -9999.0, 9.0, 99.0, 999.0, 9999.0, 99999.0)
SPIKE = 3  # equal values that make a spike, with at most a third as many others around
NOTHING = -np.inf
LEARNED_FACTOR = "by about"  # in the fix of rows that share a factor which is not listed
MOST_POWER = 300.0  # of ten that a float holds with room to spare
MISSING_CODE = "treat as missing"  # the fix of a target that holds a code

# Factor: how common it is beside other mistakes (each way), and what to ask about it.
FACTORS: dict[float, tuple[float, str]] = {
    10.0: (0.10, "decimal slip"),
    100.0: (0.05, "decimal slip, or a percentage"),
    1000.0: (0.04, "thousands, or another unit"),
    60.0: (0.002, "seconds, minutes or hours"),
    12.0: (0.002, "months and years"),
    2.54: (0.002, "inches and centimetres"),
    1.609: (0.002, "miles and kilometres"),
    4.184: (0.001, "calories and joules"),
}
# Of mistakes in writing numbers by hand, most are of one digit (Verhoeff 1969).
SIGN, SWAP, DIGIT, TRANSPOSED, CODE, COPIED = 0.04, 0.08, 0.35, 0.04, 0.06, 0.03
COMMON, SHARED = 0.06, 0.06
KINDS_OF_MISREADING = 0.4, 0.1, 0.4, 0.1  # first digit: alike, any; later ones
CLOSE_RATIO = 0.1  # difference of logarithms within which a shared factor is a listed one
N_QUANTILES = 32  # true values by which it is told how many mistakes are noticed
ANY_SIZE = float(np.log(1e6))  # an error may have each of so many powers of e alike


@dataclass(frozen=True, eq=False)
class SwapPartner:
    """Another column of the same rows, with which the target may have changed places.

    `predicted` is what the model predicts where it has. `center` and `spread` say which values
    the column usually has.
    """

    name: str
    values: Vector
    predicted: Vector
    center: float
    spread: float


@dataclass(frozen=True, eq=False)
class RowsInQuestion:
    """Rows that look wrong, and what is known around them; all arrays have one entry per row.

    Parameters
    ----------
    given, predicted, scale
        The target as given, as predicted, and the standard deviation of the noise, which belongs
        to the transformed target where there is a `transform`.
    quality
        The probability that the row is clean after all.
    above
        The target of the row above, NaN where there is none.
    equal, nearby
        How many rows of the whole table have the very same target, and how many others one within
        three noise scales of it.
    equal_if_scaled
        How many have the value that a factor makes of the target, at most.
    repeated
        How many of the rows with the very same target, if it is there in several places, stand
        below another one of them.
    usual_share
        Share of the table that has the very same target as a usual row.
    clean_nearby
        How many that look clean have one within three noise scales of it.
    clean_range
        The least and the largest value of rows that look clean; none if there are none.
    whole_range
        The least and the largest value of all rows; none if all of them look wrong.
    unusual_sign, crossing_share
        The sign (1 or -1) that hardly any row has which looks clean, 0 if there is none; and how
        often these have it.
    n_rows, n_wrong
        Rows of the whole table, and how many of them look wrong.
    step
        In which the target is written: 0.01 for two decimals.
    writing
        How right values are written.
    truth
        Where true values lie around predictions.
    partners
        Columns that the target may have changed places with.
    """

    given: Vector
    predicted: Vector
    scale: Vector
    quality: Vector
    above: Vector
    equal: Vector
    nearby: Vector
    equal_if_scaled: Vector
    repeated: Vector
    clean_nearby: Vector
    usual_share: float
    clean_range: tuple[float, float] | None
    whole_range: tuple[float, float] | None
    unusual_sign: float
    crossing_share: float
    n_rows: int
    n_wrong: int
    step: float
    writing: Writing
    truth: TrueValues
    partners: Sequence[SwapPartner] = field(default=())
    transform: TargetTransform = IDENTITY

    @cached_property
    def off(self) -> Vector:
        """How far the given values are from the predictions, as they were fitted."""
        return np.abs(distance(self.transform, self.given, self.predicted))

    @property
    def error(self) -> Vector:
        """The same, no less than one noise scale."""
        return np.asarray(np.maximum(self.off, self.scale))

    @cached_property
    def log_slope(self) -> Vector:
        """What makes a log density of fitted values one of the given values."""
        return slope_at(self.transform, self.given, self.predicted)

    @cached_property
    def log_reference(self) -> Vector:
        """The log density of errors of all orders of magnitude, but for a constant."""
        return np.asarray(self.log_slope - np.log(self.error))

    @cached_property
    def log_column(self) -> Vector:
        """The log density of the given values among those of rows that look clean."""
        width = np.log(6.0 * self.scale) - self.log_slope
        with np.errstate(divide="ignore"):
            return np.asarray(
                np.log(self.clean_nearby / max(self.n_rows - self.n_wrong, 1)) - width
            )

    @cached_property
    def log_range(self) -> Vector:
        """The log density of the given values, if any value is as likely that a clean row has."""
        return self._log_even(self.clean_range)

    @cached_property
    def log_whole_range(self) -> Vector:
        """The same, if any value is as likely that some row has."""
        return self._log_even(self.whole_range)

    def _log_even(self, among: tuple[float, float] | None) -> Vector:
        if among is None or not 0.0 < among[1] - among[0] < np.inf:
            return np.full(self.given.size, NOTHING)
        inside = (self.given >= among[0]) & (self.given <= among[1])
        return np.where(inside, -np.log(among[1] - among[0]), NOTHING)

    @cached_property
    def crossed(self) -> NDArray[np.bool_]:
        """Where the given value has a sign that few right values have, and not the prediction's."""
        if self.unusual_sign == 0.0:
            return np.zeros(self.given.size, dtype=bool)
        changed = self.unusual_sign * self.predicted < 0.0
        return np.asarray(changed & (self.unusual_sign * self.given > 0.0))

    def some(self, rows: NDArray[np.intp]) -> RowsInQuestion:
        """Return some of these rows."""
        own = ("given", "predicted", "scale", "quality", "above")
        counts = ("equal", "nearby", "equal_if_scaled", "repeated", "clean_nearby")
        partners = [
            replace(each, values=each.values[rows], predicted=each.predicted[rows])
            for each in self.partners
        ]
        parts = {name: getattr(self, name)[rows] for name in (*own, *counts)}
        return replace(self, **parts, partners=partners)

    def noise(self, value: Vector, predicted: Vector | None = None) -> Vector:
        """Return the log density of true values around the predictions."""
        center = self.predicted if predicted is None else predicted
        shape = (-1, *[1] * (np.ndim(value) - 1))
        scale = self.scale.reshape(shape)
        far = (self.transform.of(value) - self.transform.of(center).reshape(shape)) / scale
        density = self.truth.log_density(far) - np.log(scale)
        return np.asarray(density + self.transform.log_slope(value))

    def noticed_share(self, times: float) -> float:
        """Return how many mistakes by a factor would be noticed in these rows."""
        center = self.transform.of(self.predicted)[:, None]
        true = self.transform.back(center + self.scale[:, None] * self.truth.quantiles(N_QUANTILES))
        far = np.abs(distance(self.transform, times * true, self.predicted[:, None]))
        return float(np.mean(far >= NOTICED * self.scale[:, None]))

    def noticed(self, value: Vector) -> NDArray[np.bool_]:
        """Return where the given value is so far from the true one that this is no accident."""
        shape = (-1, *[1] * (np.ndim(value) - 1))
        moved = np.abs(distance(self.transform, self.given.reshape(shape), value))
        return np.asarray(moved >= MOVED * self.scale.reshape(shape))


def distance(transform: TargetTransform, value: Vector, center: Vector) -> Vector:
    """Return how far values are from others, as they were fitted.

    A value that could not be fitted lies where the slope at the other one takes it.
    """
    if transform.is_identity:
        return value - center
    slope = np.exp(transform.log_slope(center))
    with np.errstate(invalid="ignore"):
        apart = transform.of(value) - transform.of(center)
        return np.asarray(np.where(transform.has(value), apart, (value - center) * slope))


def slope_at(transform: TargetTransform, value: Vector, center: Vector) -> Vector:
    """Return the log slope of the transformation at values, or where they should have been."""
    return transform.log_slope(np.where(transform.has(value), value, center))


@dataclass(frozen=True, eq=False)
class Mistake:
    """One kind of mistake: how common, how likely it makes each row, what would put it right.

    One without a `fix` is an error that no rule explains.

    `times` is what true values are multiplied by, None where that is not the mistake.

    `fix` says what to do in words; `cause` says what probably happened, with braces where the
    true value goes. `part` is the share of the density that the one true value in `value` has,
    where a kind has several.
    """

    fix: str
    cause: str
    prior: float
    log_density: Vector
    value: Vector
    part: Vector
    times: float | None = None


def mistakes_in(rows: RowsInQuestion) -> list[Mistake]:
    """Return all kinds of mistake for some rows."""
    return [
        *_factors(rows),
        _single(rows, _wrong_sign(rows)),
        *_swaps(rows),
        *_misread(rows),
        _slips(
            rows,
            "transpose two digits",
            "two digits transposed",
            TRANSPOSED,
            transposed_digits(rows.given),
        ),
        *_point_masses(rows),
    ]


def nearest_listed(log_ratio: float) -> float:
    """Return the logarithm of the listed factor that a ratio is close to, or the ratio's own.

    Predictions that are a little off on the average make a ratio of 9.7 out of a decimal slip.
    """
    listed = [sign * float(np.log(factor)) for factor in FACTORS for sign in (1.0, -1.0)]
    best = min(listed, key=lambda each: abs(each - log_ratio))
    return best if abs(best - log_ratio) < CLOSE_RATIO else log_ratio


def common_factor(rows: RowsInQuestion, log_ratio: float, spread: float) -> Mistake:
    """Return a mistake by a factor that these rows share, with a spread known from themselves."""
    factor = float(np.exp(log_ratio))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found = np.log(rows.given / rows.predicted)
        slope = np.exp(rows.transform.log_slope(rows.predicted))
        width = np.hypot(spread, rows.scale / slope / np.abs(rows.predicted))
        far = (found - log_ratio) / width
        bent = np.log1p(np.square(far) / TAIL)
        density = TAIL_CONSTANT - np.log(width * np.abs(rows.given)) - 0.5 * (TAIL + 1.0) * bent
    usable = np.isfinite(density) & rows.noticed(rows.given / factor)
    density = np.where(usable, density, NOTHING)
    for listed, (_, question) in FACTORS.items():
        for sign in (1.0, -1.0):
            if log_ratio == sign * float(np.log(listed)):
                return replace(
                    _factor(rows, listed, sign < 0, COMMON, question), log_density=density
                )
    verb = "divide" if factor > 1 else "multiply"
    size = max(factor, 1.0 / factor)
    return Mistake(
        fix=f"{verb} {LEARNED_FACTOR} {size:.2g}",
        cause=f"another unit, as in other rows ({'times' if factor > 1 else 'divided by'} "
        f"about {size:.2g})",
        prior=COMMON,
        log_density=density,
        value=_rounded(rows.given / factor, 4),
        part=np.ones(rows.given.size),
        times=factor,
    )


def common_shift(rows: RowsInQuestion, center: float, spread: float) -> Mistake:
    """Return errors about as large as each other, which is no mistake that is listed."""
    noise = rows.scale / np.exp(rows.transform.log_slope(rows.predicted))
    width = np.hypot(spread, noise)
    far = (rows.given - rows.predicted - center) / width
    bent = np.log1p(np.square(far) / TAIL)
    density = TAIL_CONSTANT - np.log(width) - 0.5 * (TAIL + 1.0) * bent
    return _without_rule(rows, COMMON, density)


def _without_rule(rows: RowsInQuestion, prior: float, density: Vector) -> Mistake:
    nothing = np.full(rows.given.size, np.nan)
    return Mistake("", "", prior, density, nothing, np.ones(rows.given.size))


def _single(rows: RowsInQuestion, kind: Mistake, log_weight: Vector | float = 0.0) -> Mistake:
    """Return a mistake that has one true value, by whose density a weight is multiplied."""
    density = np.where(rows.noticed(kind.value), rows.noise(kind.value) + log_weight, NOTHING)
    return replace(kind, log_density=density)


def _factors(rows: RowsInQuestion) -> Iterator[Mistake]:
    """Yield mistakes by a factor: such that were rounded afterwards, and such that were not."""
    for factor, (prior, question) in FACTORS.items():
        for inverse in (False, True):
            times = 1.0 / factor if inverse else factor
            kind = _factor(rows, factor, inverse, prior, question)
            if rows.writing.steps.size:
                kind = replace(kind, prior=0.5 * prior)
                weight = rows.writing.log_weight_of_factor(rows.given, times)
                yield _single(rows, kind, weight)
            yield _single(rows, kind, -np.log(times))


def _wrong_sign(rows: RowsInQuestion) -> Mistake:
    whole = np.ones(rows.given.size)
    cause = "the sign is wrong? {} fits"
    return Mistake("change the sign", cause, SIGN, NOTHING * whole, -rows.given, whole, times=-1.0)


def _factor(
    rows: RowsInQuestion, factor: float, inverse: bool, prior: float, question: str
) -> Mistake:
    """Return a mistake by a listed factor, which has no density yet."""
    given = f"{factor:g}"
    return Mistake(
        fix=f"{'multiply' if inverse else 'divide'} by {given}",
        cause=f"{f'1/{given} of' if inverse else f'{given} times'} {{}}; {question}?",
        prior=prior,
        log_density=np.full(rows.given.size, NOTHING),
        value=_rounded(rows.given * factor if inverse else rows.given / factor),
        part=np.ones(rows.given.size),
        times=1.0 / factor if inverse else factor,
    )


def _swaps(rows: RowsInQuestion) -> Iterator[Mistake]:
    for partner in rows.partners:
        with np.errstate(invalid="ignore"):
            density = rows.noise(partner.values, partner.predicted)
            # The column, too, must look more usual with the other value in it.
            density += _usual(partner, rows.given) - _usual(partner, partner.values)
            usable = np.isfinite(density) & rows.noticed(partner.values)
        yield Mistake(
            fix=f"swap with {partner.name}",
            cause=f"swapped with {_quoted(partner.name)}? {{}} fits",
            prior=SWAP / len(rows.partners),
            log_density=np.where(usable, density, NOTHING),
            value=partner.values,
            part=np.ones(rows.given.size),
        )


def _quoted(name: str) -> str:
    """Return a name as a part of a cause, where braces have a meaning."""
    return visible(name).replace("{", "{{").replace("}", "}}")


def _usual(partner: SwapPartner, values: Vector) -> Vector:
    """Return how usual values are in a column, as a logarithm up to a constant; tails are long."""
    far = (values - partner.center) / partner.spread
    return np.asarray(-0.5 * (TAIL + 1.0) * np.log1p(np.square(far) / TAIL))


def _misread(rows: RowsInQuestion) -> Iterator[Mistake]:
    slips = kinds_of_misreading(rows.given)
    for each, share in zip(slips, KINDS_OF_MISREADING, strict=True):
        yield _slips(rows, "correct one digit", "a digit misread", DIGIT * share, each)


def _slips(rows: RowsInQuestion, fix: str, cause: str, prior: float, slips: Slips) -> Mistake:
    """Return a mistake with several possible true values, of which a row knows the most likely."""
    weight = np.where(rows.noticed(slips.value), slips.weight, 0.0)
    total = weight.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.log(weight / total) + rows.noise(slips.value)
    each = np.where(weight > 0, each, NOTHING)
    best = np.argmax(each, axis=1)[:, None]
    with np.errstate(divide="ignore"):
        density = logsumexp(each, axis=1)
    with np.errstate(invalid="ignore"):
        part = np.exp(np.take_along_axis(each, best, axis=1)[:, 0] - density)
    value = _decimal(np.take_along_axis(slips.value, best, axis=1)[:, 0], rows.given)
    return Mistake(fix, f"{cause}? {{}} fits", prior, density, value, np.nan_to_num(part))


def _point_masses(rows: RowsInQuestion) -> Iterator[Mistake]:
    """Return mistakes that put one certain value in place of the true one, which is then lost.

    A value that many rows share, such as a cap, needs no mistake to be there.
    """
    step = np.log(rows.step)
    lost = np.full(rows.given.size, np.nan)
    certain = np.ones(rows.given.size)
    isolated = rows.equal >= SPIKE * (rows.nearby + 1.0 + rows.n_wrong * rows.usual_share)
    isolated &= rows.equal > rows.equal_if_scaled
    usual = np.isin(rows.given, USUAL_CODES) & (rows.nearby <= rows.equal)
    spike = np.where(isolated & (rows.equal >= SPIKE), 0.5 * rows.equal / rows.n_wrong, 0.0)
    mass = np.minimum(spike, 0.5) + np.where(usual, 0.5 / len(USUAL_CODES), 0.0)
    with np.errstate(divide="ignore"):
        density = np.log(mass) - step
    yield Mistake(MISSING_CODE, "looks like a missing code", CODE, density, lost, certain)
    shares_it = rows.equal >= SPIKE * np.maximum(rows.n_rows * rows.usual_share, 1.0)
    shares_it &= rows.equal > rows.equal_if_scaled
    with np.errstate(divide="ignore"):
        density = np.log(np.where(shares_it, rows.equal / rows.n_rows, 0.0)) - step
    yield _without_rule(rows, SHARED, density)
    # In a table with few different values neighbours are equal by chance, and in a sorted one
    # those that share a cap stand together.
    by_chance = np.log(np.maximum(rows.equal / rows.n_rows, rows.repeated))
    by_chance -= rows.log_reference - np.log(2.0 * ANY_SIZE)
    copied = rows.given == rows.above
    density = np.where(copied, np.minimum(-step, -by_chance), NOTHING)
    cause = "the same value as in the row above; copied?"
    yield Mistake("treat as missing (copied)", cause, COPIED, density, lost, certain)


def _rounded(values: Vector, digits: int = 12) -> Vector:
    """Return values without the last digits, which only computing has put there."""
    with np.errstate(divide="ignore"):
        power = digits - 1.0 - np.floor(np.log10(np.abs(values)))
    power = np.where(np.isfinite(power), np.clip(power, -MOST_POWER, MOST_POWER), 0.0)
    # By the powers that are whole numbers, which alone a computer knows exactly.
    up, down = 10.0 ** np.maximum(power, 0.0), 10.0 ** np.maximum(-power, 0.0)
    return np.asarray(np.round(values * up / down) / up * down)


def _decimal(values: Vector, given: Vector) -> Vector:
    """Return values with as many decimals as the given ones: 18.65, not 18.650000000000006."""
    steps = np.round(1.0 / written_step(given))
    return np.asarray(np.round(values * steps) / steps)


def as_matrix(columns: Sequence[Vector]) -> Matrix:
    """Return vectors as the columns of a matrix."""
    return np.stack(columns, axis=1)
