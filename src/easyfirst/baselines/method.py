"""What a method is: an estimator beside others, as experiments and `easyfirst compare` run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from easyfirst.contracts import Vector

EVERYWHERE = ("recovery", "rental")
PAPER_NOISE = float(np.sqrt(0.1))  # the noise for which the paper's pace, 0.1 to 1, was made


@dataclass(frozen=True)
class Told:
    """What a method is told before it sees the rows.

    Parameters
    ----------
    fit_intercept
        Whether it fits an intercept.
    corruption_ratio
        The share of corrupted rows, or what stands for it where nobody knows.
    batch_ratios
        The same for every batch; empty where there is one batch.
    last_pace
        The pace at which to end, for methods that run once per pace.
    seed
        For methods that draw; None: their default.
    engine
        Where our own estimator works: "inline" where methods run side by side.
    """

    fit_intercept: bool = True
    corruption_ratio: float = 0.0
    batch_ratios: Sequence[float] = ()
    last_pace: float | None = None
    seed: int | None = None
    engine: str = "auto"

    @property
    def ratios(self) -> float | list[float]:
        """The ratio of every batch if there are several, or the only one."""
        return list(self.batch_ratios) or self.corruption_ratio


@dataclass(frozen=True)
class Coefficients:
    """A linear model, whatever fitted it."""

    coef: Vector
    intercept: float = 0.0


@dataclass(frozen=True)
class MethodFit:
    """What a method found: usually one model, and figures that the problem cannot know."""

    models: tuple[Coefficients, ...]
    extra: Mapping[str, float] = field(default_factory=dict)


def one_model(model: Any) -> MethodFit:
    """Return the model that an estimator has fitted."""
    return MethodFit((Coefficients(np.asarray(model.coef_), float(model.intercept_)),))


@dataclass(frozen=True)
class Method:
    """An estimator as it is run beside others.

    Parameters
    ----------
    name, label
        For files and command lines; for tables.
    build
        From what the method is told to an unfitted estimator.
    read
        From the fitted estimator to what it found.
    rows
        What it is fitted to: all rows, the clean ones, or all with their uncorrupted responses.
    kind
        "ours", "limit" (uses what no method can know), or "rival".
    told
        In words, what it is told that the default estimator has to find out.
    needs_unit, needs_pace
        Whether it works on y in the unit that its constants were made for, and once per pace.
    takes_batches
        Whether its `fit` takes `batches`.
    experiments
        In which experiments it runs without being named there.
    compare
        Name and label in `easyfirst compare`; None: it is not offered there.
    order
        Its place in tables, from 0; new methods stand before least squares.
    cost
        Relative duration, for the estimate of the time left.
    """

    name: str
    label: str
    build: Callable[[Told], Any]
    read: Callable[[Any], MethodFit] = one_model
    rows: Literal["all", "clean", "uncorrupted"] = "all"
    kind: Literal["ours", "limit", "rival"] = "rival"
    told: str = ""
    needs_unit: bool = False
    needs_pace: bool = False
    takes_batches: bool = True
    experiments: tuple[str, ...] = EVERYWHERE
    compare: tuple[str, str] | None = None
    order: float = 17.0
    cost: float = 1.0


def plain(kind: Callable[..., Any]) -> Callable[[Told], Any]:
    """Return how to build an estimator that is told nothing but whether to fit an intercept."""
    return lambda told: kind(fit_intercept=told.fit_intercept)
