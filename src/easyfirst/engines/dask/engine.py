"""The engine that a user names: a connected client, and how long to wait for its cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

from easyfirst.contracts import Partition
from easyfirst.engines.dask.tasks import distributed
from easyfirst.engines.dask.workers import DaskWorkers


@dataclass(frozen=True, eq=False)
class DaskEngine:
    """Run steps on the workers of a `dask.distributed` cluster.

    Parameters
    ----------
    client
        A connected client; None takes the current one of this process.
    patience
        Seconds to wait for a worker, or for an answer of the scheduler, before giving up.
    """

    client: Any = None
    patience: float = 120.0

    def __post_init__(self) -> None:
        """Find the client, and refuse what is not one."""
        library = distributed()
        client = self.client
        if client is None:
            try:
                client = library.Client.current()
            except ValueError:
                raise ValueError(
                    "DaskEngine() found no connected client: give one, as in "
                    "DaskEngine(distributed.Client(address))"
                ) from None
        if not isinstance(client, library.Client) or client.asynchronous:
            raise TypeError(f"client must be a synchronous distributed.Client, got {client!r}")
        if not self.patience > 0:
            raise ValueError(f"patience must be a number of seconds > 0, got {self.patience!r}")
        object.__setattr__(self, "client", client)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Stay the same when an estimator is cloned: a connection has no copies."""
        return self

    @contextmanager
    def open(self, partitions: Sequence[Partition]) -> Iterator[DaskWorkers]:
        """Load the batches on the workers for the duration of a fit."""
        workers = DaskWorkers(self.client, partitions, self.patience)
        try:
            yield workers
        finally:
            workers.close()
