"""What an experiment is made of; nothing here computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from easyfirst.baselines.method import Coefficients
from easyfirst.contracts import Matrix, Vector


@dataclass(frozen=True, eq=False)
class BenchmarkProblem:
    """Rows to fit, the truth about them, and how a fit is judged.

    Parameters
    ----------
    X, y, batches
        What a method sees.
    clean
        Which rows are not corrupted: for the oracle, and for methods that must be told a ratio.
    measure
        From a linear model to its figures, one of them called "error".
    fit_intercept
        Whether methods fit an intercept.
    unit
        What y is divided by for methods with an absolute scale of their own, so that the clean
        noise has the standard deviation of the paper's synthetic data.
    y_clean
        The responses before corruption, where the limit of a fit to them is of interest.
    """

    X: Matrix
    y: Vector
    batches: NDArray[np.intp]
    clean: NDArray[np.bool_]
    measure: Callable[[Coefficients], Mapping[str, float]]
    fit_intercept: bool = False
    unit: float = 1.0
    y_clean: Vector | None = None

    def batch_ratios(self) -> Vector:
        """Return the share of corrupted rows in each batch."""
        ids = np.unique(self.batches)
        return np.array([1.0 - self.clean[self.batches == i].mean() for i in ids])


class Spec(Protocol):
    """How to draw a problem: a value, so that cells of two experiments can share one."""

    @property
    def key(self) -> str:
        """A file name that stands for the specification."""
        ...

    @property
    def cost(self) -> float:
        """How long a fit takes, relative to other specifications."""
        ...

    def make(self, seed: int) -> BenchmarkProblem:
        """Draw the problem."""
        ...


@dataclass(frozen=True)
class Cell:
    """One place in a figure or table.

    `setting` is what only some methods look at, such as the pace at which they have to end.
    """

    series: str
    x: float
    label: str
    spec: Spec
    setting: float | None = None


@dataclass(frozen=True)
class Record:
    """One figure of one fit: what is kept of a run."""

    spec: str
    seed: int
    method: str
    setting: float | None
    metric: str
    value: float
    seconds: float
    status: str


Published = Mapping[tuple[str, str], Mapping[str, float]]  # (series, label) -> method -> value


@dataclass(frozen=True)
class Experiment:
    """A grid of cells, the methods that run in each, and what the paper printed for them.

    `published_spread` holds the standard deviations, where the paper gives any, and
    `published_curves` the points of plotted curves, which need not lie on the grid: metric to
    (x, value) pairs. `also` names further metrics that get a table, with a title for each.
    """

    name: str
    title: str
    axis: str
    cells: tuple[Cell, ...]
    methods: tuple[str, ...]
    seeds: int = 10
    published: Published = field(default_factory=dict)
    published_spread: Published = field(default_factory=dict)
    published_curves: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    also: Mapping[str, str] = field(default_factory=dict)
    log_scale: bool = True
    digits: int = 4
    published_digits: int = 4
    notes: tuple[str, ...] = ()

    @property
    def series(self) -> tuple[str, ...]:
        """The names of the panels, in order."""
        return tuple(dict.fromkeys(cell.series for cell in self.cells))

    def cells_of(self, series: str) -> tuple[Cell, ...]:
        """Return the cells of one panel."""
        return tuple(cell for cell in self.cells if cell.series == series)
