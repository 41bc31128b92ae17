"""How much each model of labels is worth beside the others: as the labels given say themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from easyfirst.contracts import Matrix, Vector
from easyfirst.local.label_judge import LEAST_PROBABILITY, clipped, mixed, without_noise

PRIOR = 2.0  # holds the weights of the mix where they are where labels say little
LARGEST_WEIGHT = 4.0  # of a model: shares in the leaves of a forest are nearer to each other


def best_mix(
    given: Sequence[Matrix],
    own: Matrix,
    noise: Matrix,
    codes: NDArray[np.intp],
    weight: Vector,
) -> tuple[tuple[float, ...], Vector]:
    """Return the weights of models by which the labels given are most probable, and offsets.

    `given` are probabilities of the labels as given, by one model each, `own` logits of the right
    ones; `codes` are the numbers of the labels given. Where labels say little, all models count
    alike; with noise, the given probabilities, which were mixed before, have all.
    """
    models = [*(without_noise(told, noise) for told in given), clipped(own)]
    first, k = len(models), own.shape[1]
    usual = np.full(first, 1.0 / first)
    if given and not np.all(noise == np.eye(k)):
        usual = np.append(np.full(first - 1, 1.0 / (first - 1)), 0.0)
    center = np.concatenate([usual, np.zeros(k)])
    through = np.maximum(noise.T[codes], LEAST_PROBABILITY * 1e-6)
    # Flips leave a part of what labels say: of that, its square. What is held against them has to
    # shrink by less, or there is none where they say least.
    hold = PRIOR * float(np.min(np.abs(np.linalg.eigvals(noise))))

    def objective(point: Vector) -> tuple[float, Vector]:
        logits = (
            sum(share * model for share, model in zip(point, models, strict=False)) + point[-k:]
        )
        right = np.exp(logits - logsumexp(logits, axis=1, keepdims=True))
        joint = right * through
        seen = joint.sum(axis=1, keepdims=True)
        slope = weight[:, None] * (right - joint / seen)
        pull = np.array([*(np.sum(slope * model) for model in models), *slope.sum(axis=0)])
        value = -float(weight @ np.log(seen[:, 0]))
        away = point - center
        return value + hold * float(np.sum(np.square(away))), pull + 2 * hold * away

    limits = [*[(0.0, LARGEST_WEIGHT)] * first, *[(None, None)] * k]
    found = minimize(objective, center, jac=True, method="L-BFGS-B", bounds=limits).x
    return tuple(found[:first].tolist()), found[first:]


def log_likelihood(
    others: Sequence[Matrix], own: Matrix, codes: NDArray[np.intp], weight: Vector
) -> float:
    """Return how probable labels are by the best mix of models, as a logarithm."""
    nothing = np.eye(own.shape[1])
    seen = mixed(others, own, nothing, *best_mix(others, own, nothing, codes, weight))
    return float(weight @ np.log(seen[np.arange(codes.size), codes]))
