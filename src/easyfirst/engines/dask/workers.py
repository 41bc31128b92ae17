"""The driver's side: which worker has which batch, what is sent, what to do when workers die."""

from __future__ import annotations

import logging
import math
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from easyfirst.contracts import HeldPartition, Ledger, Partition, Step
from easyfirst.engines import residency
from easyfirst.engines.dask.tasks import distributed, forget, from_bytes, load, read, run, to_bytes
from easyfirst.engines.residency import Answer
from easyfirst.errors import EngineLostError

POLL = 1.0  # seconds between two looks at the cluster while it works
RECENT = 1.0  # seconds for which the list of workers is believed
GATHERINGS = 6  # times that replies are asked for, each time with more patience
MOST_DEATHS = 40  # of workers over one step without a single reply: something kills them

logger = logging.getLogger("easyfirst")


@dataclass(frozen=True, eq=False)
class _Pack:
    """The part of one worker in a step: its batches, and everything they need, serialized."""

    worker: str
    numbers: list[int]
    blob: bytes


class DaskWorkers:
    """Batches opened on a Dask cluster."""

    def __init__(self, client: Any, partitions: Sequence[Partition], patience: float) -> None:
        self.ledger = Ledger([0.0] * len(partitions))
        self._client = client
        self._patience = patience
        self._fit = uuid.uuid4().hex
        self._threads: dict[str, int] = {}  # of every worker, by address
        self._looked = -math.inf
        self._packs = 0
        with _translated(client):
            self._batches = self._load(partitions)
        # Where each batch was last worked on; nowhere at first.
        self._homes: list[str | None] = [None] * len(partitions)

    def map(
        self,
        step: Step,
        per_batch: Sequence[Any] | None,
        broadcast: Any,
        only: Sequence[int] | None = None,
    ) -> list[Any]:
        """Run the step on every batch, or on some; replies come back in batch order."""
        messages = residency.addressed(per_batch, only, len(self._batches))
        with _translated(self._client):
            answers = self._carry_out(self._packed(step, messages, broadcast))
        return residency.in_batch_order(answers, self.ledger)

    def close(self) -> None:
        """Let go of the batches and of what the workers remember of them."""
        self._batches.clear()
        if self._client.status == "running":
            with suppress(Exception):  # the fit is over; whoever is gone has forgotten already
                self._client.run(forget, self._fit, wait=False, on_error="ignore")

    def _load(self, partitions: Sequence[Partition]) -> list[Any]:
        """Ask for every batch; nothing is waited for."""
        import dask

        # A partition of arrays carries its rows: as a task it can run again, on any worker.
        quietly = {"distributed.admin.large-graph-warning-threshold": "1TB"}
        with dask.config.set(quietly):
            if partitions and all(_is_delayed(part) for part in partitions):
                loads = [
                    dask.delayed(read, pure=False)(part.read, part.block)  # type: ignore[attr-defined]
                    for part in partitions
                ]
                return list(self._client.compute(loads))
            return [self._submit_load(number, part) for number, part in enumerate(partitions)]

    def _submit_load(self, number: int, partition: Partition) -> Any:
        blob = to_bytes(partition)
        self._book(sent=blob)
        key = f"easyfirst-load-{self._fit}-{number}"
        return self._client.submit(load, blob, key=key, pure=False)

    def _packed(self, step: Step, messages: Mapping[int, Any], broadcast: Any) -> list[_Pack]:
        """Give every batch to a worker, and pack what each worker needs into one message."""
        shared = to_bytes((step, broadcast))
        return [
            _Pack(worker, asked, to_bytes((shared, [messages[n] for n in asked])))
            for worker, numbers in self._assigned().items()
            if (asked := [number for number in numbers if number in messages])
        ]

    def _assigned(self) -> dict[str, list[int]]:
        """Share out the batches by threads; those at home stay there while there is room."""
        self._check_cluster()
        share = math.ceil(len(self._batches) / sum(self._threads.values()))
        room = {worker: share * threads for worker, threads in self._threads.items()}
        chosen: dict[str, list[int]] = {worker: [] for worker in room}
        homeless = []
        for number, home in enumerate(self._homes):
            if home is not None and room.get(home, 0) > 0:
                chosen[home].append(number)
                room[home] -= 1
            else:
                homeless.append(number)
        for number in homeless:
            worker = max(room, key=lambda name: room[name])
            chosen[worker].append(number)
            room[worker] -= 1
        return {worker: sorted(numbers) for worker, numbers in chosen.items() if numbers}

    def _check_cluster(self) -> None:
        """Refresh the list of workers, waiting for the first one if there is none."""
        deadline = time.monotonic() + self._patience
        if self._threads and time.monotonic() - self._looked < RECENT:
            return
        self._threads = self._ask_for_threads()
        while not self._threads:
            if time.monotonic() > deadline:
                raise EngineLostError(
                    f"The Dask cluster at {_address(self._client)} has had no worker for "
                    f"{self._patience:g} seconds"
                )
            time.sleep(min(0.1, self._patience))
            self._threads = self._ask_for_threads()
        self._looked = time.monotonic()
        if self._homes == [None] * len(self._homes):
            self._homes = self._first_homes()

    def _ask_for_threads(self) -> dict[str, int]:
        answer = self._client.sync(self._client.scheduler.ncores, callback_timeout=self._patience)
        return dict(sorted(answer.items()))

    def _first_homes(self) -> list[str | None]:
        """Wait for the loads and return where they ended; failed ones are met again later."""
        self._wait(self._batches)
        holders = self._client.sync(
            self._client.scheduler.who_has,
            keys=[future.key for future in self._batches],
            callback_timeout=self._patience,
        )
        return [min(holders.get(future.key) or [None], key=str) for future in self._batches]

    def _carry_out(self, packs: Sequence[_Pack]) -> list[Answer]:
        """Run all packs, resubmitting those whose workers died more often than Dask tolerates."""
        waiting = [(self._submit(pack), pack) for pack in packs]
        answers: list[Answer] = []
        deaths = 0
        while waiting:
            self._wait([future for future, _ in waiting])
            done = [pair for pair in waiting if pair[0].status == "finished"]
            replies = self._collect([future for future, _ in done])
            for blob in replies or ():
                answers += self._booked(blob)
            left = waiting if replies is None else [pair for pair in waiting if pair not in done]
            deaths = 0 if replies else deaths + 1
            if deaths > MOST_DEATHS:
                raise EngineLostError(
                    f"Dask workers died {deaths} times in a row over batches {left[0][1].numbers}; "
                    f"if they run out of memory, use smaller batches or larger workers"
                )
            waiting = [(self._still_wanted(*pair), pair[1]) for pair in left]
        return answers

    def _still_wanted(self, future: Any, pack: _Pack) -> Any:
        """Return a task for a pack without reply: the same, or a new one if its workers died."""
        if future.status != "error":
            return future
        error = future.exception()
        if not isinstance(error, distributed().scheduler.KilledWorker):
            raise error.with_traceback(None) from None
        logger.warning("a Dask task for batches %s lost its workers", pack.numbers)
        return self._submit_again(pack)

    def _submit(self, pack: _Pack) -> Any:
        self._packs += 1
        self._book(sent=pack.blob)
        return self._client.submit(
            run,
            self._fit,
            pack.blob,
            pack.numbers,
            *(self._batches[number] for number in pack.numbers),
            key=f"easyfirst-step-{self._fit}-{self._packs}",
            workers=[pack.worker],
            allow_other_workers=True,
            pure=False,
        )

    def _submit_again(self, pack: _Pack) -> Any:
        broken = [future for future in self._batches if future.status == "error"]
        if broken:
            self._client.retry(broken)
        self._check_cluster()
        return self._submit(pack)

    def _wait(self, futures: Sequence[Any]) -> None:
        """Wait until all have ended in some way, and make sure that somebody works on them."""
        lonely_since: float | None = None
        while True:
            try:
                distributed().wait(futures, timeout=POLL)
                return
            except TimeoutError:
                now = time.monotonic()
                if self._ask_for_threads():
                    lonely_since = None
                    continue
                lonely_since = lonely_since or now
                if now - lonely_since > self._patience:
                    raise EngineLostError(
                        f"All workers of the Dask cluster at {_address(self._client)} are gone, "
                        f"and none has come back within {self._patience:g} seconds"
                    ) from None

    def _collect(self, futures: Sequence[Any]) -> list[bytes] | None:
        """Fetch replies; None if one was lost and cannot be had again."""

        async def gather() -> list[bytes]:
            replies: list[bytes] = await self._client.gather(list(futures), asynchronous=True)
            return replies

        # Bounded, because a reply may have to be computed again, and workers be lacking; ever
        # longer, because it may be large.
        for attempt in range(GATHERINGS):
            try:
                limit = self._patience * 2**attempt
                replies: list[bytes] = self._client.sync(gather, callback_timeout=limit)
                return replies
            except TimeoutError:
                self._wait(futures)
            except distributed().scheduler.KilledWorker:
                return None
        raise EngineLostError(
            f"The Dask cluster at {_address(self._client)} does not deliver its results"
        )

    def _booked(self, blob: bytes) -> list[Answer]:
        self._book(received=blob)
        worker, answers = from_bytes(blob)
        for answer in answers:
            if self._homes[answer.number] != worker:
                self._homes[answer.number] = worker
        return list(answers)

    def _book(self, sent: bytes = b"", received: bytes = b"") -> None:
        self.ledger.messages += 1
        self.ledger.bytes_sent += len(sent)
        self.ledger.bytes_received += len(received)


@contextmanager
def _translated(client: Any) -> Iterator[None]:
    """Turn every way in which a lost scheduler shows into one error."""
    try:
        yield
    except (CancelledError, TimeoutError, OSError) as error:
        raise EngineLostError(
            f"The Dask scheduler at {_address(client)} is gone or does not answer "
            f"({type(error).__name__})"
        ) from error


def _address(client: Any) -> str:
    return str(client.scheduler.address if client.scheduler is not None else "unknown")


def _is_delayed(partition: Partition) -> bool:
    return isinstance(partition, HeldPartition) and _holds_delayed(partition.block)


def _holds_delayed(block: Any) -> bool:
    from dask.base import is_dask_collection

    if isinstance(block, list | tuple):
        return any(_holds_delayed(part) for part in block)
    return bool(is_dask_collection(block))
