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
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from easyfirst.contracts import Matrix, Vector
from easyfirst.report.digits import Slips, misread_digits, resolution, transposed_digits
from easyfirst.report.wording import visible
from easyfirst.transforms import IDENTITY, TargetTransform

NOTICED = 3.5  # noise scales that a mistake moves a value at least to be noticed at all
MOVED = 2.0  # noise scales at least between the given and the true value
ANY_SIZE = np.log(1e6)  # mistakes without a rule: each order of magnitude alike ...
SIZE_ROWS = 20.0  # ... until so many rows show which one is usual
LEAST_SPREAD = 0.7  # of the logarithms of their sizes
# The tail of the noise is any decreasing density on either side: a mixture of exponential ones
# that fall off over so many noise scales.
TAILS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
TAIL = 5.0  # degrees of freedom of the noise, so that no fix hangs on a tenth of a scale
TAIL_CONSTANT = float(gammaln((TAIL + 1) / 2) - gammaln(TAIL / 2) - 0.5 * np.log(TAIL * np.pi))
USUAL_CODES = (-1.0, -9.0, -99.0, -999.0, -9999.0, 9.0, 99.0, 999.0, 9999.0, 99999.0)
SPIKE = 3  # equal values that make a spike, with at most a third as many others around
NOTHING = -np.inf
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
OTHER, SIGN, SWAP, DIGIT, TRANSPOSED, CODE, COPIED = 0.30, 0.04, 0.08, 0.12, 0.04, 0.06, 0.03
COMMON, NOISE_TAIL, SHARED = 0.03, 0.05, 0.06
NEAR = 8.0  # noise scales around a factor in which errors of other causes lie
CLOSE_RATIO = 0.1  # difference of logarithms within which a shared factor is a listed one
BY_CHANCE = 0.5  # of a mistake's own prior: that of only coming near it


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


@dataclass(frozen=True)
class ErrorSizes:
    """The density of mistakes without a rule: any order of magnitude, and the usual one here.

    `center` and `spread` are those of the errors' logarithms; `share` says how far to trust them.
    """

    center: float
    spread: float
    share: float

    @classmethod
    def of(cls, error: Vector, matter: Vector) -> Self:
        """Learn the usual size from rows that look wrong, counted by `matter`."""
        total = float(np.sum(matter))
        if total <= 0:
            return cls(0.0, 1.0, 0.0)
        logs = np.log(error)
        center = float(np.average(logs, weights=matter))
        spread = float(np.sqrt(np.average(np.square(logs - center), weights=matter)))
        spread = max(spread, LEAST_SPREAD)
        return cls(center, spread, total / (total + SIZE_ROWS))

    def log_density(self, error: Vector) -> Vector:
        """Return the log density of errors of these sizes, either sign."""
        far = (np.log(error) - self.center) / self.spread
        usual = np.exp(-0.5 * np.square(far)) / (np.sqrt(2.0 * np.pi) * self.spread)
        either = self.share * usual + (1.0 - self.share) / ANY_SIZE
        return np.asarray(np.log(0.5 * either / error))


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
    n_rows, n_wrong
        Rows of the whole table, and how many of them look wrong.
    step
        In which the target is written: 0.01 for two decimals.
    sizes
        How large the errors of rows that look wrong are.
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
    usual_share: float
    n_rows: int
    n_wrong: int
    step: float
    sizes: ErrorSizes
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

    def some(self, rows: NDArray[np.intp]) -> RowsInQuestion:
        """Return some of these rows."""
        own = ("given", "predicted", "scale", "quality", "above")
        counts = ("equal", "nearby", "equal_if_scaled", "repeated")
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
        bent = np.log1p(np.square(far) / TAIL)
        density = TAIL_CONSTANT - np.log(scale) - 0.5 * (TAIL + 1.0) * bent
        return np.asarray(density + self.transform.log_slope(value))

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

    `fix` says what to do in words; `cause` says what probably happened, with braces where the
    true value goes. `part` is the share of the density that the one true value in `value` has,
    where a kind has several. `near` is another kind's fix to which a near miss comes close, without
    being of that kind. `log_factor` is that of a mistake by a factor.
    """

    fix: str
    cause: str
    prior: float
    log_density: Vector
    value: Vector
    part: Vector
    near: str = ""
    log_factor: float | None = None


def mistakes_in(rows: RowsInQuestion) -> list[Mistake]:
    """Return all kinds of mistake for some rows."""
    return [
        _without_rule(rows, OTHER, rows.sizes.log_density(rows.error) + rows.log_slope),
        *_tails(rows),
        *_factors(rows),
        *_single(rows, _wrong_sign(rows)),
        *_swaps(rows),
        _slips(rows, "correct one digit", "a digit misread", DIGIT, misread_digits(rows.given)),
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
        fix=f"{verb} by about {size:.2g}",
        cause=f"another unit, as in other rows ({'times' if factor > 1 else 'divided by'} "
        f"about {size:.2g})",
        prior=COMMON,
        log_density=density,
        value=_rounded(rows.given / factor, 4),
        part=np.ones(rows.given.size),
        log_factor=log_ratio,
    )


def _without_rule(rows: RowsInQuestion, prior: float, density: Vector) -> Mistake:
    nothing = np.full(rows.given.size, np.nan)
    return Mistake("", "", prior, density, nothing, np.ones(rows.given.size))


def _tails(rows: RowsInQuestion) -> Iterator[Mistake]:
    """Yield the ways in which errors fall off from where they are first noticed."""
    beyond = np.maximum(rows.error / rows.scale - NOTICED, 0.0)
    for side in (rows.given >= rows.predicted, rows.given < rows.predicted):
        for excess in TAILS:
            density = rows.log_slope - beyond / excess - np.log(excess * rows.scale)
            prior = 0.5 * NOISE_TAIL * excess**-2 / sum(each**-2 for each in TAILS)
            yield _without_rule(rows, prior, np.where(side, density, NOTHING))


def _single(rows: RowsInQuestion, kind: Mistake, stretch: float = 1.0) -> Iterator[Mistake]:
    """Yield a mistake that has one true value, and spreads values apart by `stretch`.

    Beside it goes what only comes near it: where a model is wrong rather than the rows, errors of
    all sizes gather around a factor and not right at it.
    """
    value = kind.value
    noticed, whole = rows.noticed(value), np.ones(value.size)
    density = np.where(noticed, rows.noise(value) - np.log(stretch), NOTHING)
    yield replace(kind, log_density=density)
    away = np.abs(distance(rows.transform, value, rows.predicted))
    near = noticed & (away < NEAR * rows.scale)
    width = 2.0 * NEAR * rows.scale * stretch
    flat = np.where(near, rows.transform.log_slope(value) - np.log(width), NOTHING)
    nothing = np.full(value.size, np.nan)
    yield Mistake("", "", BY_CHANCE * kind.prior, flat, nothing, whole, near=kind.fix)


def _factors(rows: RowsInQuestion) -> Iterator[Mistake]:
    for factor, (prior, question) in FACTORS.items():
        for inverse in (False, True):
            kind = _factor(rows, factor, inverse, prior, question)
            yield from _single(rows, kind, 1.0 / factor if inverse else factor)


def _wrong_sign(rows: RowsInQuestion) -> Mistake:
    whole = np.ones(rows.given.size)
    cause = "the sign is wrong? {} fits"
    return Mistake("change the sign", cause, SIGN, NOTHING * whole, -rows.given, whole)


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
        log_factor=float(np.log(factor)) * (-1.0 if inverse else 1.0),
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
    by_chance = np.log(
        np.maximum(rows.equal / rows.n_rows, rows.repeated)
    ) - rows.sizes.log_density(rows.error)
    by_chance -= rows.log_slope
    copied = rows.given == rows.above
    density = np.where(copied, np.minimum(-step, -by_chance), NOTHING)
    cause = "the same value as in the row above; copied?"
    yield Mistake("treat as missing (copied)", cause, COPIED, density, lost, certain)


def _rounded(values: Vector, digits: int = 12) -> Vector:
    """Return values without the last digits, which only computing has put there."""
    return np.array([float(f"{value:.{digits}g}") for value in values.tolist()])


def _decimal(values: Vector, given: Vector) -> Vector:
    """Return values with as many decimals as the given ones: 18.65, not 18.650000000000006."""
    steps = [resolution(np.array([value])) for value in given.tolist()]
    decimals = [round(-float(np.log10(step))) for step in steps]
    return np.array([round(v, d) for v, d in zip(values.tolist(), decimals, strict=True)])


def as_matrix(columns: Sequence[Vector]) -> Matrix:
    """Return vectors as the columns of a matrix."""
    return np.stack(columns, axis=1)
