"""The paper's synthetic data: linear responses, a share of which is replaced by nonsense."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from easyfirst.contracts import Matrix, Vector

BAD_BATCH_RATIO = 0.9
GOOD_BATCH_RATIO = 0.1
CORRUPTED_NOISE_SHARE = 0.1  # of the clean noise variance: the authors' code has 0.01 and 0.1
REACH = 5.0  # corruption reaches this many times the largest clean |y| of its batch


@dataclass(frozen=True, eq=False)
class CorruptedRegression:
    """Rows, and the truth about them."""

    X: Matrix
    y: Vector
    batches: NDArray[np.intp]
    clean: NDArray[np.bool_]
    coef: Vector

    def __iter__(self) -> Any:
        """Unpack as X, y, batches, clean, coef."""
        return iter((self.X, self.y, self.batches, self.clean, self.coef))


def make_corrupted_regression(
    n_samples_per_batch: int = 1000,
    n_features: int = 100,
    n_batches: int = 10,
    *,
    corruption_ratio: float = 0.4,
    mode: Literal["uniform", "batches", "heterogeneous"] = "uniform",
    n_bad_batches: int | None = None,
    noise_variance: float = 0.1,
    random_state: int | np.random.RandomState | None = None,
) -> CorruptedRegression:
    """Draw data as the generators published with the paper's predecessors do.

    The true coefficients are uniform on [0, 1], scaled to length one; X is standard normal.
    Clean rows are y = X @ coef + noise. Corrupted rows keep their X and get, instead of that
    noise, a tenth of its variance plus u ~ U(-R, R), where R is five times the largest |y| among
    the clean rows of the batch.

    Parameters
    ----------
    n_samples_per_batch, n_features, n_batches
        Sizes; the captions of the paper's figures count rows per batch too.
    corruption_ratio
        Share of corrupted rows. Ignored by mode "batches".
    mode
        "uniform": the same share in every batch. "batches": `n_bad_batches` randomly chosen
        batches are 90 % corrupted and the others 10 %. "heterogeneous": every batch has its
        own random share, and they average to `corruption_ratio`.
    n_bad_batches
        For mode "batches"; None: four of ten.
    noise_variance
        Variance of the clean noise.
    random_state
        Seed.

    Returns
    -------
    CorruptedRegression
        Unpacks as X, y, batches (id of each row's batch), clean (mask), coef (the truth).

    Examples
    --------
    >>> X, y, batches, clean, coef = make_corrupted_regression(
    ...     100, 5, 4, corruption_ratio=0.3, random_state=0
    ... )
    >>> X.shape, int(clean.sum())
    ((400, 5), 280)
    """
    for name, value in {
        "n_samples_per_batch": n_samples_per_batch,
        "n_features": n_features,
        "n_batches": n_batches,
    }.items():
        if value < 1:
            raise ValueError(f"{name} must be >= 1, got {value!r}")
    if not noise_variance >= 0:
        raise ValueError(f"noise_variance must be >= 0, got {noise_variance!r}")
    if not 0 <= corruption_ratio <= 1:
        raise ValueError(f"corruption_ratio must lie in [0, 1], got {corruption_ratio!r}")
    rng = check_random_state(random_state)
    coef = rng.uniform(size=n_features)
    coef /= np.linalg.norm(coef)
    ratios = _batch_ratios(mode, n_batches, corruption_ratio, n_bad_batches, rng)
    parts = [_draw_batch(n_samples_per_batch, coef, ratio, noise_variance, rng) for ratio in ratios]
    return CorruptedRegression(
        X=np.concatenate([part[0] for part in parts]),
        y=np.concatenate([part[1] for part in parts]),
        batches=np.repeat(np.arange(n_batches), n_samples_per_batch),
        clean=np.concatenate([part[2] for part in parts]),
        coef=coef,
    )


def _draw_batch(
    n: int, coef: Vector, ratio: float, variance: float, rng: np.random.RandomState
) -> tuple[Matrix, Vector, NDArray[np.bool_]]:
    X = rng.standard_normal((n, coef.size))
    signal = X @ coef
    y = signal + np.sqrt(variance) * rng.standard_normal(n)
    n_corrupted = round(n * ratio)
    bad = rng.choice(n, size=n_corrupted, replace=False)
    clean = np.ones(n, dtype=bool)
    clean[bad] = False
    reach = REACH * np.max(np.abs(y[clean] if clean.any() else y))
    noise = np.sqrt(CORRUPTED_NOISE_SHARE * variance) * rng.standard_normal(n_corrupted)
    y[bad] = signal[bad] + noise + rng.uniform(-reach, reach, size=n_corrupted)
    return X, y, clean


def _batch_ratios(
    mode: str,
    n_batches: int,
    ratio: float,
    n_bad_batches: int | None,
    rng: np.random.RandomState,
) -> Vector:
    if mode == "uniform":
        return np.full(n_batches, ratio)
    if mode == "heterogeneous":
        return random_shares(n_batches, ratio, rng)
    if mode != "batches":
        raise ValueError(f"mode must be 'uniform', 'batches' or 'heterogeneous', got {mode!r}")
    n_bad = round(0.4 * n_batches) if n_bad_batches is None else n_bad_batches
    if not 0 <= n_bad <= n_batches:
        raise ValueError(f"n_bad_batches must lie in [0, {n_batches}], got {n_bad!r}")
    ratios = np.full(n_batches, GOOD_BATCH_RATIO)
    ratios[rng.choice(n_batches, size=n_bad, replace=False)] = BAD_BATCH_RATIO
    return ratios


def random_shares(n: int, mean: float, rng: np.random.RandomState) -> Vector:
    """Draw n shares in [0, 1] whose mean is `mean`, in bounded time.

    The authors scale uniform draws to the wanted sum and reject if a share exceeds one, which
    accepts four draws in a million at a mean of 0.9. Instead, what a share has above one is
    spread over the others in proportion to the room they have left, which ends after one pass.
    """
    shares = rng.uniform(size=n)
    shares *= n * mean / shares.sum()
    surplus = np.sum(np.maximum(shares - 1.0, 0.0))
    shares = np.minimum(shares, 1.0)
    room = 1.0 - shares
    if surplus > 0 and room.sum() > 0:
        shares += room * (surplus / room.sum())
    return np.asarray(np.clip(shares, 0.0, 1.0))
