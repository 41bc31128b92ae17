"""What runs on the workers, and how it travels.

Batches travel as tuples, whose sizes Dask can tell. Rows that cannot be loaded become the error
that says why: raised by the first step on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from easyfirst.contracts import Batch
from easyfirst.engines import residency
from easyfirst.engines.residency import Work


def load(blob: bytes) -> tuple[Any, ...] | Exception:
    """Load a partition that came along."""
    return _as_tuple(from_bytes(blob).load)


def read(reader: Any, block: Any) -> tuple[Any, ...] | Exception:
    """Make a batch of a block that the cluster holds."""
    return _as_tuple(partial(reader, block))


def _as_tuple(load: Callable[[], Batch]) -> tuple[Any, ...] | Exception:
    try:
        batch = load()
    except Exception as error:
        return error
    return (batch.X, batch.y, batch.sample_weight, batch.row_ids, batch.trusted)


def _as_batch(parts: tuple[Any, ...] | Exception) -> Batch:
    if isinstance(parts, Exception):
        raise parts
    return Batch(*parts)


def run(fit: str, blob: bytes, numbers: Sequence[int], *batches: Any) -> bytes:
    """Carry out a worker's part of a step and pack its answers into one reply."""
    worker = distributed().get_worker()
    shared, messages = from_bytes(blob)
    step, broadcast = from_bytes(shared)
    works = [
        Work(number, partial(_as_batch, batch), message, held=True)
        for number, batch, message in zip(numbers, batches, messages, strict=True)
    ]
    answers = residency.carry_out(fit, works, step, broadcast, worker.state.nthreads)
    return to_bytes((worker.address, answers))


async def forget(fit: str) -> None:
    """Forget a fit; a coroutine, because only those are not waited for."""
    residency.forget(fit)


def to_bytes(value: Any) -> bytes:
    """Return a value as one message."""
    return bytes(distributed().protocol.serialize_bytes(value))


def from_bytes(blob: bytes) -> Any:
    """Return the value of a message."""
    return distributed().protocol.deserialize_bytes(blob)


def distributed() -> Any:
    """Return the library, or say how to get it."""
    try:
        import distributed
    except ImportError:
        raise ImportError(
            "DaskEngine needs the 'dask' extra: pip install 'easyfirst[dask]'"
        ) from None
    return distributed
