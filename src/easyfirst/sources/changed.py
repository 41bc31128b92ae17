"""A source whose batches are changed as they are read, wherever that happens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from easyfirst.contracts import Batch, HeldPartition, Partition

Change = Callable[[Batch], Batch]


@dataclass(frozen=True, eq=False)
class ChangedSource:
    """The batches of a source, each as a pure function returns it; it travels to the workers."""

    source: Any
    change: Change

    @property
    def feature_names(self) -> Any:
        """The names of the columns, if the source has them."""
        return getattr(self.source, "feature_names", None)

    def partitions(self) -> Sequence[Partition]:
        """Return the partitions of the source, each with the change to come."""
        return [self._changed(part) for part in self.source.partitions()]

    def _changed(self, part: Any) -> Partition:
        if isinstance(part, HeldPartition):
            return replace(part, read=_ReadAndChange(part.read, self.change))
        return _ChangedPartition(part, self.change)


@dataclass(frozen=True, eq=False)
class _ChangedPartition:
    part: Partition
    change: Change

    @property
    def in_memory(self) -> bool:
        return bool(getattr(self.part, "in_memory", False))

    def load(self) -> Batch:
        return self.change(self.part.load())


@dataclass(frozen=True, eq=False)
class _ReadAndChange:
    read: Callable[[Any], Batch]
    change: Change

    def __call__(self, block: Any) -> Batch:
        return self.change(self.read(block))
