"""The actors of a fit on Ray: who is there, who is being restarted, and whether Ray itself lives.

All waiting is done here, and none of it is unbounded.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from easyfirst.contracts import Step
from easyfirst.errors import EngineLostError

POLL = 1.0  # seconds between two looks at the head while the workers work
GRACE = 5.0  # seconds that the first workers wait for the others
HEAD_PATIENCE = 30.0  # seconds; Ray ends this process when its head is gone for 60


def load_ray() -> Any:
    """Return Ray's module, or say how to install it."""
    try:
        import ray
    except ImportError:
        raise ImportError("RayEngine needs the 'ray' extra: pip install 'easyfirst[ray]'") from None
    return ray


def size_of(value: Any) -> int:
    """Return how many bytes a value takes on its way through Ray; large arrays are not copied."""
    buffers: list[Any] = []
    pickled: bytes = load_ray().cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(pickled) + sum(int(buffer.raw().nbytes) for buffer in buffers)


def reachable(address: str) -> bool:
    """Return whether anybody listens at "host:port"."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=POLL).close()
    except (OSError, ValueError):
        return False
    return True


class HeadMonitor:
    """Whether the head of the cluster can still be reached."""

    def __init__(self, patience: float) -> None:
        self._address = str(load_ray().get_runtime_context().gcs_address)
        self._patience = min(patience, HEAD_PATIENCE)
        self._silent_since: float | None = None
        self._checked = time.monotonic()

    def check(self) -> None:
        """Raise an error if the head has been silent for too long, and disconnect from it."""
        if time.monotonic() - self._checked < POLL:
            return
        self._checked = time.monotonic()
        if reachable(self._address):
            self._silent_since = None
            return
        self._silent_since = self._silent_since or time.monotonic()
        if time.monotonic() - self._silent_since >= self._patience:
            # Else Ray would end this process, whatever it does by then.
            load_ray().shutdown()
            raise EngineLostError(
                f"The head of the Ray cluster at {self._address} is gone: it has not answered for "
                f"{self._patience:g} seconds"
            )


class ActorPool:
    """Actors that are started again when they die, and are then equipped again."""

    def __init__(self, size: int, kind: type, equipment: Sequence[Any]) -> None:
        self._ray = load_ray()
        self._equipment = equipment
        self.last_step: Step | None = None  # with which those that come back are made ready
        actor = self._ray.remote(num_cpus=1, max_restarts=-1)(kind)
        self.actors = [actor.remote() for _ in range(size)]
        self._nodes: dict[int, str] = {}  # of those that are present
        self._returning: dict[Any, int] = {}  # signs of life that are waited for
        for worker in range(size):
            self.expect(worker)

    @property
    def present(self) -> set[int]:
        """The workers that can be given work."""
        return set(self._nodes)

    def expect(self, worker: int) -> None:
        """Count a worker as away until it gives a sign of life."""
        self._nodes.pop(worker, None)
        if worker not in self._returning.values():
            equip = self.actors[worker].equip.options(max_task_retries=-1)
            sign = equip.remote(self.last_step, *self._equipment)
            self._returning[sign] = worker

    def wait_for_all(self, patience: float, monitor: HeadMonitor) -> None:
        """Wait for all workers, though not for long once some are there."""
        self.wait_for_any(patience, monitor)
        deadline = time.monotonic() + min(GRACE, patience)
        while self._returning and time.monotonic() < deadline:
            self._await((), monitor)

    def wait_for_any(self, patience: float, monitor: HeadMonitor) -> list[int]:
        """Return the workers that are present, waiting for the first if there is none."""
        deadline = time.monotonic() + patience
        while not self._nodes:
            if not self._returning:
                raise EngineLostError("All Ray workers of this fit are gone, and none comes back")
            if time.monotonic() > deadline:
                raise EngineLostError(
                    f"Ray has had no worker for this fit for {patience:g} seconds: none of its "
                    f"CPUs is free, or all of its workers are gone; see 'ray status'"
                )
            self._await((), monitor)
        return sorted(self._nodes)

    def ended(self, calls: Collection[Any], monitor: HeadMonitor, haste: float) -> list[Any]:
        """Return the calls that have ended, in one way or another, within `haste` seconds."""
        deadline = time.monotonic() + haste
        while True:
            moment = max(0.0, min(POLL, deadline - time.monotonic()))
            done = [found for found in self._await(calls, monitor, moment) if found in calls]
            if done or time.monotonic() >= deadline:
                return done

    def assign(self, references: Sequence[Sequence[Any]]) -> list[int]:
        """Return a worker for each batch: on a node that holds its objects, if one has room."""
        room = {
            worker: -(-len(references) // len(self.actors)) for worker in range(len(self.actors))
        }
        homes = []
        for nodes in self._locations(references):
            near = [w for w in room if room[w] > 0 and self._nodes.get(w) in nodes]
            home = max(near or room, key=lambda worker: room[worker])
            room[home] -= 1
            homes.append(home)
        return homes

    def kill_all(self) -> None:
        """End all workers, if there still is a cluster to end them on."""
        if self._ray.is_initialized():
            for actor in self.actors:
                self._ray.kill(actor)
        self._nodes.clear()
        self._returning.clear()

    def _await(self, calls: Iterable[Any], monitor: HeadMonitor, moment: float = POLL) -> list[Any]:
        """Wait a moment for calls and signs of life; return what has ended."""
        waiting = [*calls, *self._returning]
        done, _ = self._ray.wait(waiting, num_returns=1, timeout=moment)
        monitor.check()  # workers may go on for a while without it
        if not done:
            return []
        done, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0)
        for sign in [reference for reference in done if reference in self._returning]:
            self._register(sign)
        return list(done)

    def _register(self, sign: Any) -> None:
        worker = self._returning.pop(sign)
        try:
            self._nodes[worker] = self._ray.get(sign)
        except self._ray.exceptions.ActorDiedError as error:
            # Ray has given it up: it could not be made, or its owner counts as dead.
            if "creation task" in str(error):
                raise RuntimeError(
                    f"Ray's workers cannot run easyfirst; install it where they run. {error}"
                ) from None
        except self._ray.exceptions.RayActorError:
            self.expect(worker)

    def _locations(self, references: Sequence[Sequence[Any]]) -> list[set[str]]:
        """Return the nodes that hold objects of each batch; on one node that is all the same."""
        objects = [reference for batch in references for reference in batch]
        if len(set(self._nodes.values())) < 2 or not objects:
            return [set() for _ in references]
        found = self._ray.experimental.get_object_locations(objects)
        return [
            {node for reference in batch for node in found.get(reference, {}).get("node_ids", ())}
            for batch in references
        ]
