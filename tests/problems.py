"""Small problems, and slow but obvious solutions of them to compare with."""

import inspect
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from easyfirst.engines import Inline


def members(kind):
    """Every concrete class of the package that implements `kind`, however deep."""
    found, waiting = [], [kind]
    while waiting:
        for child in waiting.pop().__subclasses__():
            waiting.append(child)
            if child.__name__.startswith("_"):
                continue
            if child.__module__.startswith("easyfirst.") and not inspect.isabstract(child):
                found.append(child)
    return sorted(set(found), key=lambda cls: cls.__name__)


@dataclass
class Rows:
    """Linear responses, some of them replaced, and which."""

    X: np.ndarray
    y: np.ndarray
    clean: np.ndarray
    coef: np.ndarray
    intercept: float


def corrupted_rows(n=240, p=3, *, share=0.25, noise=0.1, intercept=0.5, seed=0):
    """Draw rows whose corruption lies far above the clean noise: every method should find it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    coef = rng.uniform(0.5, 2.0, size=p) * rng.choice([-1.0, 1.0], size=p)
    y = X @ coef + intercept + noise * rng.normal(size=n)
    clean = np.ones(n, dtype=bool)
    clean[rng.choice(n, size=round(share * n), replace=False)] = False
    y[~clean] += rng.uniform(5.0, 15.0, size=n - clean.sum()) * rng.choice([-1, 1], n - clean.sum())
    return Rows(X, y, clean, coef, intercept)


def least_squares(X, y, weights, strength=0.0, fit_intercept=True):
    """Weighted ridge regression on stacked rows; the last entry is the intercept, if any."""
    p = X.shape[1]
    design = np.column_stack([X, np.ones(len(y))]) if fit_intercept else X
    pull = np.sqrt(strength) * np.eye(p, design.shape[1])
    root = np.sqrt(weights)[:, None]
    stacked = np.vstack([design * root, pull])
    target = np.concatenate([y * root[:, 0], np.zeros(p)])
    return np.linalg.lstsq(stacked, target, rcond=None)[0]


def pooled_self_paced(X, y, paces, rule, strength=0.0, fit_intercept=True):
    """Self-paced learning on all rows at once: no batches, no consensus, no cache.

    `rule(losses, pace)` gives the weights. The last pace is repeated until they stand still.
    """
    design = np.column_stack([X, np.ones(len(y))]) if fit_intercept else X
    coef = least_squares(X, y, np.ones(len(y)), strength, fit_intercept)
    weights = None
    waiting = list(paces)
    while True:
        pace = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        before, weights = weights, rule((y - design @ coef) ** 2, pace)
        coef = least_squares(X, y, weights, strength, fit_intercept)
        if len(waiting) == 1 and before is not None and np.max(np.abs(weights - before)) < 1e-12:
            return coef, weights


def ladder(start, factor, ceiling):
    """The paces start, start * factor, ... up to and including the ceiling."""
    paces = [start]
    while paces[-1] < ceiling:
        paces.append(min(paces[-1] * factor, ceiling))
    return paces


def solution(model):
    """Coefficients and, if fitted, the intercept, in one vector."""
    return np.append(model.coef_, model.intercept_) if model.fit_intercept else model.coef_


class Spy:
    """The inline engine, keeping the batches it was given for a look after the fit."""

    def __init__(self):
        self.batches = []

    @contextmanager
    def open(self, partitions):
        self.batches = [part.load() for part in partitions]
        with Inline().open(partitions) as workers:
            yield workers
