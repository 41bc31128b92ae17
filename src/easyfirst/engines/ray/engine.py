"""The engine: batches in Ray's store, orders to actors, answers in batch order."""

from __future__ import annotations

import logging
import math
import os
import time
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from easyfirst.contracts import Batch, HeldPartition, Ledger, Partition, Step
from easyfirst.engines import residency
from easyfirst.engines.ray.actors import ActorPool, HeadMonitor, load_ray, reachable, size_of
from easyfirst.engines.residency import Answer, Work
from easyfirst.errors import EngineLostError

MOST_LOSSES = 40  # of one batch's worker in one step: then something in the batch kills them
SLOW = 3.0  # a worker that takes so many times longer than the last to answer may be dead
LEAST_HASTE = 0.25  # seconds before a worker is thought slow

logger = logging.getLogger("easyfirst")


@dataclass(frozen=True)
class RayEngine:
    """Run steps on the workers of a running Ray; never starts one.

    Parameters
    ----------
    address
        Where Ray runs, as `ray.init` takes it, if this process is not connected yet. "auto" is
        the Ray on this machine, or the one that the variable RAY_ADDRESS names.
    n_workers
        How many CPUs to use at most. None: all of the cluster's.
    patience
        Seconds to wait for a worker, or for an answer of Ray's head, before giving up. For the
        head at most 30, because Ray itself ends a process that has lost it for a minute.
    """

    address: str = "auto"
    n_workers: int | None = None
    patience: float = 60.0

    def __post_init__(self) -> None:
        """Refuse settings that mean nothing."""
        if self.n_workers is not None and not self.n_workers >= 1:
            raise ValueError(f"n_workers must be a number >= 1 or None, got {self.n_workers!r}")
        if not self.patience > 0:
            raise ValueError(f"patience must be a number of seconds > 0, got {self.patience!r}")

    @contextmanager
    def open(self, partitions: Sequence[Partition]) -> Iterator[RayWorkers]:
        """Put the batches into Ray's store and start workers for the duration of a fit."""
        ray = connected(self.address)
        cpus = int(ray.cluster_resources().get("CPU", 1))
        n_workers = max(1, min(len(partitions), cpus, self.n_workers or cpus))
        workers = RayWorkers(partitions, n_workers, self.patience)
        try:
            workers.begin()
            yield workers
        finally:
            workers.close()


@dataclass(frozen=True, eq=False)
class _Order:
    """A step with everything that it needs."""

    step: Step
    messages: Mapping[int, Any]
    broadcast: Any


@dataclass(frozen=True, eq=False)
class _Call:
    """Batches that a worker was given, and when."""

    worker: int
    numbers: list[int]
    began: float


Calls = dict[Any, _Call]  # by the reference to what will be the reply


class RayWorkers:
    """Batches opened on a Ray cluster."""

    def __init__(self, partitions: Sequence[Partition], n_workers: int, patience: float) -> None:
        self.ledger = Ledger([0.0] * len(partitions))
        self._ray = load_ray()
        self._partitions = partitions
        self._patience = patience
        self._monitor = HeadMonitor(patience)
        self._stored = [self._put(part) for part in partitions]
        self._renewed: dict[int, Any] = {}  # batches that were lost and stored again
        self._pool = ActorPool(n_workers, _Worker, (uuid.uuid4().hex, self._stored))
        self._homes: list[int] = []
        self._haste = math.inf  # seconds; until somebody has shown how long a call takes

    def begin(self) -> None:
        """Wait for the workers and share the batches out among them."""
        self._pool.wait_for_all(self._patience, self._monitor)
        self._homes = self._pool.assign([_references(part) for part in self._partitions])

    def map(
        self,
        step: Step,
        per_batch: Sequence[Any] | None,
        broadcast: Any,
        only: Sequence[int] | None = None,
    ) -> list[Any]:
        """Run the step on every batch, or on some; replies come back in batch order."""
        messages = residency.addressed(per_batch, only, len(self._partitions))
        order = _Order(step, messages, broadcast)
        self._pool.last_step = step
        calls = self._dispatch(list(messages), order)
        answers: dict[int, Answer] = {}
        losses: Counter[int] = Counter()
        while len(answers) < len(messages):
            ended = self._pool.ended(calls, self._monitor, self._haste)
            for reference in ended:
                call = calls.pop(reference)
                for answer in self._collect(reference, call):
                    answers.setdefault(answer.number, answer)
                    self._haste = max(LEAST_HASTE, SLOW * (time.monotonic() - call.began))
            if not ended:
                self._doubt(calls)
            missing = _unattended(messages, answers, calls, self._pool.present)
            self._require_hope(losses, missing)
            calls |= self._dispatch(missing, order)
        return residency.in_batch_order(answers.values(), self.ledger)

    def close(self) -> None:
        """End the workers, and let go of the batches."""
        self._stored.clear()
        self._renewed.clear()
        self._pool.kill_all()

    def _dispatch(self, numbers: Sequence[int], order: _Order) -> Calls:
        """Send batches to their homes, and those whose home is away to whoever has least."""
        if not numbers:
            return {}
        present = self._pool.wait_for_any(self._patience, self._monitor)
        groups: dict[int, list[int]] = {worker: [] for worker in present}
        homeless: list[int] = []
        for number in numbers:
            groups.get(self._homes[number], homeless).append(number)
        for number in homeless:
            min(groups.values(), key=len).append(number)
        return {
            self._send(worker, group, order): _Call(worker, group, time.monotonic())
            for worker, group in groups.items()
            if group
        }

    def _doubt(self, calls: Calls) -> None:
        """Count workers as away that take much longer than others, if those could take over.

        Ray tells of a death only after a second or more. Steps are pure: a batch may be worked on
        twice, and the first answer counts.
        """
        busy = {call.worker for call in calls.values()}
        if self._pool.present - busy:
            for worker in busy & self._pool.present:
                self._pool.expect(worker)

    def _send(self, worker: int, numbers: list[int], order: _Order) -> Any:
        messages = [order.messages[number] for number in numbers]
        renewed = {number: self._renewed[number] for number in numbers if number in self._renewed}
        parts = (numbers, messages, order.step, order.broadcast, renewed)
        self._book(sent=size_of(parts))
        return self._pool.actors[worker].work.remote(*parts)

    def _collect(self, reference: Any, call: _Call) -> list[Answer]:
        """Return the answers of one call, without those that got lost."""
        errors = self._ray.exceptions
        try:
            answers, size = self._ray.get(reference)
        except (errors.RayActorError, _NotEquippedError):
            logger.warning("a Ray worker was lost over batches %s", call.numbers)
            self._pool.expect(call.worker)
            return []
        except errors.ObjectLostError:
            logger.warning("the answers of batches %s were lost with their node", call.numbers)
            return []
        self._book(received=size)
        lost = [a.number for a in answers if isinstance(a.error, errors.ObjectLostError)]
        self._store_again(lost)
        return [answer for answer in answers if answer.number not in lost]

    def _store_again(self, numbers: Iterable[int]) -> None:
        """Store batches again whose rows were lost with a node of the cluster."""
        for number in numbers:
            if isinstance(self._partitions[number], HeldPartition):
                raise EngineLostError(
                    f"The rows of batch {number} were lost with the node that held them, and Ray "
                    f"cannot compute them again: read the dataset again and repeat the fit"
                )
            logger.warning("batch %d was lost with its node and is stored again", number)
            self._renewed[number] = self._put(self._partitions[number])

    def _put(self, partition: Partition) -> Any:
        self._book(sent=size_of(partition))
        return self._ray.put(partition)

    def _book(self, sent: int = 0, received: int = 0) -> None:
        self.ledger.messages += 1
        self.ledger.bytes_sent += sent
        self.ledger.bytes_received += received

    @staticmethod
    def _require_hope(losses: Counter[int], missing: Sequence[int]) -> None:
        losses.update(missing)
        if max(losses.values(), default=0) > MOST_LOSSES:
            raise EngineLostError(
                f"Ray workers died {MOST_LOSSES} times over batches {list(missing)} in one step; "
                f"if they run out of memory, use smaller batches or larger workers"
            )


def connected(address: str) -> Any:
    """Return Ray's module, connected to a running cluster."""
    ray = load_ray()
    if ray.is_initialized():
        here = ray.get_runtime_context().gcs_address
        if address not in ("auto", here):
            raise ValueError(
                f"address is {address!r}, but this process is connected to the Ray at {here}: "
                f"call ray.shutdown() first, or leave the address out"
            )
        return ray
    try:
        _require_an_answer(address)
        ray.init(address=address)
    except ConnectionError:
        raise ConnectionError(
            f"RayEngine found no running Ray at {address!r}, and does not start one itself: run "
            f"'ray start --head' on this machine, or give the address of a cluster, or call "
            f"ray.init(...) before fit"
        ) from None
    return ray


def _require_an_answer(address: str) -> None:
    """Knock where Ray should be: it would itself try for minutes to reach nobody."""
    given = os.environ.get("RAY_ADDRESS", "auto") if address == "auto" else address
    if ":" in given and "://" not in given and not reachable(given):
        raise ConnectionError(given)


def _unattended(
    asked: Iterable[int], answers: Collection[int], calls: Calls, present: Collection[int]
) -> list[int]:
    """Return the batches that have no answer and that no present worker works on."""
    attended = {n for call in calls.values() if call.worker in present for n in call.numbers}
    return [n for n in asked if n not in answers and n not in attended]


def _references(partition: Partition) -> list[Any]:
    """Return the objects in Ray's store that a partition is made of."""
    block = partition.block if isinstance(partition, HeldPartition) else None
    parts = block if isinstance(block, list | tuple) else [block]
    return [part for part in parts if isinstance(part, load_ray().ObjectRef)]


class _NotEquippedError(Exception):
    """The worker was restarted since it was told about the batches."""


class _Worker:
    """What runs as an actor; recreated, and then told about the batches, when its process died."""

    def __init__(self) -> None:
        self._fit = ""
        self._stored: Sequence[Any] = ()

    def equip(self, last_step: Step | None, fit: str, stored: Sequence[Any]) -> str:
        """Learn where the batches are, once: sent with every step, references cost the most.

        A step brings its modules along, and importing them is what takes a new worker longest.
        """
        del last_step
        self._fit, self._stored = fit, stored
        return str(load_ray().get_runtime_context().get_node_id())

    def work(
        self,
        numbers: Sequence[int],
        messages: Sequence[Any],
        step: Step,
        broadcast: Any,
        renewed: Mapping[int, Any],
    ) -> tuple[list[Answer], int]:
        """Carry out a step on some batches; the answers of all are one reply, with its size."""
        if not self._stored:
            raise _NotEquippedError
        works = [
            Work(number, _Fetch(renewed.get(number, self._stored[number])), message)
            for number, message in zip(numbers, messages, strict=True)
        ]
        answers = residency.carry_out(self._fit, works, step, broadcast)
        return answers, size_of(answers)


@dataclass(frozen=True, eq=False)
class _Fetch:
    """Load a batch from Ray's store; rows given on the driver are then used in place."""

    reference: Any

    def __call__(self) -> Batch:
        partition: Partition = load_ray().get(self.reference)
        return partition.load()
