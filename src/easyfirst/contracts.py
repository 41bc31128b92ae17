"""The values and protocols that the parts of easyfirst exchange; nothing here computes.

Read this file first: every other module either implements one of these protocols or passes
these values on. The math imports no cluster library, cluster code imports no math, and both
know this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property, update_wrapper
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# Applies a function to items and yields the results in their order: the built-in `map`, or that of
# a pool of threads.
Spread = Callable[..., Iterable[Any]]


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows in memory: `X` is a float array or a CSR matrix.

    Arrays are C-ordered where a source makes them; a user's own keep their order, so that nothing
    is copied.

    `sample_weight` is the user's importance of each row (None: all one). It is not the
    self-paced weight, which is called `weights` everywhere. `row_ids` are the user's names of
    the rows, if a source has them. `trusted` rows are known to be right, and always have the
    self-paced weight one (None: no row is).
    """

    X: Any
    y: Vector
    sample_weight: Vector | None = None
    row_ids: NDArray[Any] | None = None
    trusted: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        """Copy numbers that a transport left at odd addresses: their products round otherwise."""
        for name in ("X", "y", "sample_weight"):
            values = getattr(self, name)
            if isinstance(values, np.ndarray) and not values.flags.aligned:
                object.__setattr__(self, name, values.copy())

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns, the intercept not counted."""
        return int(self.X.shape[1])


class Partition(Protocol):
    """A batch that is not loaded yet; light enough to be sent to a worker."""

    def load(self) -> Batch:
        """Read the rows, where the rows are wanted."""
        ...


@dataclass(frozen=True, eq=False)
class HeldPartition:
    """Rows that a cluster holds already.

    `block` is the cluster's own name for them (a key, a reference, a partition's number), which
    its engine knows how to resolve; `read` makes a batch of what the block stands for, on the
    worker that has it.
    """

    block: Any
    read: Callable[[Any], Batch]

    def load(self) -> Batch:
        """Read the rows, if the block is the rows themselves."""
        return self.read(self.block)


class Source(Protocol):
    """Where the rows of a fit come from.

    A source that knows the names of its columns has them as `feature_names`.
    """

    def partitions(self) -> Sequence[Partition]:
        """Return one light descriptor per batch; the data alone fix how many."""
        ...


@dataclass
class Resident:
    """A loaded batch and what its worker remembers about it.

    The memory is only a cache: a step must return the same bits when it is empty. `spread` lets
    idle cores work on blocks of its rows.
    """

    batch: Batch
    _memory: dict[str, tuple[object, Any]] = field(default_factory=dict)
    spread: Spread = map

    def recall(self, name: str, key: object, compute: Callable[[], Any]) -> Any:
        """Return what is stored under `name` if it was computed for `key`, else compute it.

        One value per name, so the memory stays bounded by the number of names.
        """
        found = self._memory.get(name)
        if found is not None and found[0] == key:
            return found[1]
        return self.keep(name, key, compute())

    def keep(self, name: str, key: object, value: Any) -> Any:
        """Store a value under `name` in the place of the one before, and return it."""
        self._memory[name] = (key, value)
        return value

    def latest(self, name: str) -> Any:
        """Return what is stored under `name`, for whatever key, or None."""
        return self._memory.get(name, (None, None))[1]


# A worker's step: a pure function of (batch, message to this batch, message to all).
Step = Callable[[Resident, Any, Any], Any]


class Run(NamedTuple):
    """Equally long batches of a block: the first one's number, their rows, how many and how long.

    Values of the rows, in this shape, have one line per batch.
    """

    first: int
    rows: slice
    shape: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Block:
    """One batch or several small neighbours, whose rows lie one after the other.

    `rows` are those of all batches: a step that gets a block works on them in one operation each,
    with the bits that each batch has alone. Batch i has the rows from bounds[i] to bounds[i + 1].
    """

    residents: tuple[Resident, ...]
    rows: Batch
    bounds: tuple[int, ...]

    @classmethod
    def of(cls, resident: Resident) -> Block:
        """Return the block of one batch."""
        return cls((resident,), resident.batch, (0, resident.batch.n_samples))

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """The batches in runs of equal length."""
        if len(self.residents) == 1:
            return (Run(0, slice(0, self.bounds[1]), (1, self.bounds[1])),)
        lengths = np.diff(self.bounds).tolist()
        starts = [i for i in range(len(lengths)) if i == 0 or lengths[i] != lengths[i - 1]]
        return tuple(
            Run(i, slice(self.bounds[i], self.bounds[after]), (after - i, lengths[i]))
            for i, after in pairwise([*starts, len(lengths)])
        )

    @cached_property
    def batch_of(self) -> NDArray[np.intp]:
        """The number of each row's batch."""
        return np.repeat(np.arange(len(self.residents)), np.diff(self.bounds))

    def split(self, values: Vector) -> list[Vector]:
        """Return the values of each batch's rows."""
        return [values[first:last] for first, last in pairwise(self.bounds)]

    def recall(self, name: str, key: object, compute: Callable[[], Any]) -> Any:
        """Return what is remembered of all rows together: see `Resident.recall`."""
        return self.residents[0].recall(self._named(name), key, compute)

    def keep(self, name: str, key: object, value: Any) -> Any:
        """Remember a value for all rows together."""
        return self.residents[0].keep(self._named(name), key, value)

    def latest(self, name: str) -> Any:
        """Return what is remembered under `name`, for whatever key, or None."""
        return self.residents[0].latest(self._named(name))

    def _named(self, name: str) -> str:
        return name if len(self.residents) == 1 else f"{name} of {len(self.residents)} batches"


class BlockStep:
    """A step that works on all batches of a block at once: (block, messages, message to all)."""

    def __init__(self, on_block: Callable[[Block, Sequence[Any], Any], list[Any]]) -> None:
        update_wrapper(self, on_block)
        self.on_block = on_block

    def __call__(self, resident: Resident, message: Any, broadcast: Any) -> Any:
        """Work on one batch."""
        return self.on_block(Block.of(resident), [message], broadcast)[0]

    def __reduce__(self) -> str:
        """Travel by name: it takes the place of the function that it was made of."""
        return self.on_block.__qualname__


@dataclass
class Ledger:
    """What the work on the batches has cost so far.

    `seconds` counts the time spent in each batch; messages and bytes are what went through the
    driver. In one process nothing is sent.
    """

    seconds: list[float]
    messages: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0


class Workers(Protocol):
    """Batches opened on an engine."""

    @property
    def ledger(self) -> Ledger:
        """The costs so far, kept up to date by `map`."""
        ...

    def map(
        self,
        step: Step,
        per_batch: Sequence[Any] | None,
        broadcast: Any,
        only: Sequence[int] | None = None,
    ) -> list[Any]:
        """Run `step` on every batch; replies come back in batch order.

        `only` names the batches to run it on, by ascending number; the others are left alone, and
        `per_batch` has one message for each of those named.
        """
        ...


class Engine(Protocol):
    """Something that runs steps where the batches are."""

    def open(self, partitions: Sequence[Partition]) -> AbstractContextManager[Workers]:
        """Make the batches available for the duration of one fit."""
        ...


Thresholds = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Pace:
    """How hard a row may be and still take part: the paper's lambda, as a value.

    Parameters
    ----------
    value
        The threshold on a row's loss. Infinity lets every row in.
    step
        How often the schedule has moved the pace so far.
    width
        Softness of the threshold on the scale of the losses, for regularizers that have one
        (`Entropic`); None lets the regularizer choose.
    thresholds
        For every batch, one (below, above) pair per band of its rows, which replaces `value`
        for rows whose residual is negative or positive; None means `value` for all.
    """

    value: float
    step: int = 0
    width: float | None = None
    thresholds: tuple[Thresholds, ...] | None = None

    def for_batch(self, index: int) -> Thresholds:
        """Return the thresholds that hold in one batch: one pair if they are all the same."""
        return ((self.value, self.value),) if self.thresholds is None else self.thresholds[index]


EVERY_ROW = Pace(value=float("inf"))
