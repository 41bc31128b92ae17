"""Working through batches in one process: large ones side by side, small ones in blocks.

Threads gain nothing from small batches, because between any two calls of NumPy they wait for
Python's lock. Small neighbours that lie end to end in memory form one block; steps that can work on
a block at once, others go through its batches in turn.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from easyfirst.contracts import Batch, Block, BlockStep, Ledger, Resident, Spread, Step

# Entries of X per batch below which threads wait longer for Python's lock than they save,
FOR_A_THREAD = 1 << 19
# and entries in a block of such batches: calls of NumPy then take so long that the lock is free.
IN_A_BLOCK = 1 << 23


@dataclass(frozen=True, eq=False)
class ResidentWorkers:
    """Batches in this process, and the `map` that runs steps on them (the built-in by default)."""

    residents: Sequence[Resident]
    apply: Spread = map
    blocks: Sequence[Block] = field(init=False)
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        """Join small neighbours and open an account for every batch."""
        object.__setattr__(self, "blocks", list(blocks_of(self.residents)))
        object.__setattr__(self, "ledger", Ledger([0.0] * len(self.residents)))

    def map(
        self,
        step: Step,
        per_batch: Sequence[Any] | None,
        broadcast: Any,
        only: Sequence[int] | None = None,
    ) -> list[Any]:
        """Run the step on every batch, or on some; replies come back in batch order."""
        numbers = range(len(self.residents)) if only is None else only
        messages = [None] * len(numbers) if per_batch is None else per_batch
        blocks = self.blocks
        if only is not None:
            blocks = [Block.of(self.residents[number]) for number in only]
        replies: list[Any] = []
        for reply, seconds in work_through(step, blocks, messages, broadcast, self.apply):
            self.ledger.seconds[numbers[len(replies)]] += seconds
            replies.append(reply)
        return replies


def work_through(
    step: Step, blocks: Sequence[Block], messages: Sequence[Any], broadcast: Any, apply: Spread
) -> Iterator[tuple[Any, float]]:
    """Run a step on every block; yield each batch's reply and seconds, in batch order."""
    first = np.cumsum([0, *(len(block.residents) for block in blocks)]).tolist()

    def work(block: Block, start: int) -> list[tuple[Any, float]]:
        began = time.perf_counter()
        own = messages[start : start + len(block.residents)]
        if isinstance(step, BlockStep):
            replies = step.on_block(block, own, broadcast)
        else:
            pairs = zip(block.residents, own, strict=True)
            replies = [step(resident, message, broadcast) for resident, message in pairs]
        seconds = (time.perf_counter() - began) / len(replies)
        return [(reply, seconds) for reply in replies]

    entries = sum(block.rows.X.size for block in blocks)
    in_turn = apply if len(blocks) > 1 and entries >= FOR_A_THREAD * len(blocks) else map
    for replies in in_turn(work, blocks, first[:-1]):
        yield from replies


def blocks_of(residents: Sequence[Resident]) -> Iterator[Block]:
    """Yield the batches in blocks: small neighbours that lie end to end together."""
    run: list[Resident] = []
    for resident in residents:
        if run and not _continues(run, resident.batch):
            yield _joined(run)
            run = []
        run.append(resident)
    if run:
        yield _joined(run)


def _continues(run: Sequence[Resident], batch: Batch) -> bool:
    """Return whether a batch begins where a run of small ones ends."""
    first, last = run[0].batch, run[-1].batch
    if not (_is_plain(last) and _is_plain(batch) and batch.n_features == last.n_features):
        return False
    ends, begins = (each.X.__array_interface__["data"][0] for each in (last, batch))
    entries = (begins - first.X.__array_interface__["data"][0]) // 8 + batch.X.size
    alike = all(
        (getattr(batch, name) is None) == (getattr(last, name) is None)
        for name in ("sample_weight", "trusted")
    )
    return bool(begins == ends + last.X.nbytes and entries <= IN_A_BLOCK and alike)


def _is_plain(batch: Batch) -> bool:
    X = batch.X
    dense = isinstance(X, np.ndarray) and X.dtype == np.float64 and X.flags.c_contiguous
    return dense and 0 < X.size < FOR_A_THREAD


def _joined(run: Sequence[Resident]) -> Block:
    """Return the batches of a run as one block: X where it lies."""
    if len(run) == 1:
        return Block.of(run[0])
    batches = [resident.batch for resident in run]
    bounds = np.cumsum([0, *(batch.n_samples for batch in batches)]).tolist()
    first, p = batches[0].X, batches[0].n_features
    X = as_strided(first, (bounds[-1], p), (p * first.itemsize, first.itemsize), writeable=False)

    def end_to_end(name: str) -> Any:
        parts = [getattr(batch, name) for batch in batches]
        return None if parts[0] is None else np.concatenate(parts)

    weight, trusted = end_to_end("sample_weight"), end_to_end("trusted")
    rows = Batch(X, end_to_end("y"), weight, trusted=trusted)
    return Block(tuple(run), rows, tuple(bounds))
