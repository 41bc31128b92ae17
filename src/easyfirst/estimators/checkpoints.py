"""Checkpoints: a fit that was killed goes on where it was, and ends with the same bits.

A fit is a function of its parameters and of what the workers reply to each step. A checkpoint is a
folder with those replies, one file per step, each written whole with a digest. To resume, the fit
runs again with the replies of the files, as far as there are sound ones, and reads rows only from
there on. A damaged file costs the steps from it on, never the fit.
"""

from __future__ import annotations

import logging
import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from easyfirst.atomic import remove
from easyfirst.contracts import Engine, Ledger, Partition, Resident, Source, Step, Workers
from easyfirst.errors import CheckpointError, ModelFileError
from easyfirst.estimators.reply_codec import decode, encode
from easyfirst.estimators.serialization import versions
from easyfirst.files import read, write
from easyfirst.sources.locations import is_address
from easyfirst.sources.pieces import PieceSource

logger = logging.getLogger("easyfirst")

FIRST, ENDING = "fit.checkpoint", ".checkpoint"
ABOUT, REPLIES = "easyfirst-checkpoint", "easyfirst-replies"
# Parameters that decide where and how visibly a fit runs, not what it finds.
OF_SESSION = ("engine", "n_jobs", "callbacks", "verbose")
MOST_LISTED = 1000  # files or batches that are named one by one
ADDRESS_IN_MEMORY = re.compile(r" at 0x[0-9a-f]+")


@dataclass(eq=False)
class Checkpoint:
    """The replies of one fit in a folder; `around` an engine, they are kept and given again."""

    folder: Path
    identity: str
    n_known: int  # replies that are there already
    n_done: int = field(default=0, init=False)

    @classmethod
    def open(
        cls, folder: str | os.PathLike[str], resume: bool, origin: Mapping[str, Any]
    ) -> Checkpoint:
        """Begin a checkpoint, or find what there is of one; refuse one of another fit."""
        where = Path(folder)
        where.mkdir(parents=True, exist_ok=True)
        for left in where.glob(f".*{ENDING}.*.partial"):  # by a kill in the middle of writing
            remove(left)
        identity = blake2b(repr(sorted(origin.items())).encode(), digest_size=16).hexdigest()
        known = _origin_of(where) if resume else None
        if known is not None:
            _require_same(where, known, origin)
            return cls(where, identity, len(list(where.glob(f"[0-9]*{ENDING}"))))
        if not resume and (where / FIRST).exists():
            raise FileExistsError(
                f"{where} holds a checkpoint already: resume=True goes on with it, or name a new "
                f"folder"
            )
        for old in where.glob(f"*{ENDING}"):
            remove(old)
        write(where / FIRST, ABOUT, dict(origin), {}, overwrite=True)
        return cls(where, identity, 0)

    def around(self, engine: Engine) -> RecordedEngine:
        """Return the engine with its workers' replies kept here."""
        return RecordedEngine(engine, self)

    def next_replies(self, step: str) -> list[Any] | None:
        """Return what the workers replied to the next step, if that is known."""
        if self.n_done >= self.n_known:
            return None
        path = self._path(self.n_done)
        try:
            found = read(path)
            if found.kind != REPLIES or found.state != {"fit": self.identity, "step": step}:
                raise ValueError("it belongs to another fit")
            replies: list[Any] = decode(found.arrays)
        except (ModelFileError, OSError, ValueError) as error:
            logger.warning("%s is damaged (%s): the fit goes on from the step before", path, error)
            self.n_known = self.n_done
            return None
        self.n_done += 1
        return replies

    def keep(self, step: str, replies: list[Any]) -> None:
        """Write down what the workers replied to a step."""
        state = {"fit": self.identity, "step": step}
        write(self._path(self.n_done), REPLIES, state, encode(replies), overwrite=True)
        self.n_done += 1
        self.n_known = self.n_done

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}{ENDING}"


@dataclass(frozen=True, eq=False)
class RecordedEngine:
    """An engine whose rows are opened only for steps that no reply is known of."""

    engine: Engine
    checkpoint: Checkpoint

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    @contextmanager
    def open(self, partitions: Sequence[Partition]) -> Iterator[RecordedWorkers]:
        """Make the batches available, from the step on where they are needed."""
        with ExitStack() as stack:
            yield RecordedWorkers(self, partitions, stack)


class RecordedWorkers:
    """Workers whose replies are kept in a checkpoint, and given again from there."""

    def __init__(
        self, place: RecordedEngine, partitions: Sequence[Partition], stack: ExitStack
    ) -> None:
        self._place, self._partitions, self._stack = place, partitions, stack
        self._workers: Workers | None = None
        self._ledger = Ledger([0.0] * len(partitions))

    @property
    def ledger(self) -> Ledger:
        """The costs so far: replies that were known cost nothing."""
        return self._ledger if self._workers is None else self._workers.ledger

    @property
    def reading(self) -> Any:
        """What an engine that reads rows again and again says of it."""
        return getattr(self._workers, "reading", None)

    @property
    def reads_again(self) -> bool:
        """Whether such an engine does not hold all rows in memory."""
        return bool(getattr(self._workers, "reads_again", False))

    def map(
        self,
        step: Step,
        per_batch: Sequence[Any] | None,
        broadcast: Any,
        only: Sequence[int] | None = None,
    ) -> list[Any]:
        """Return what is known, or run the step and write down the replies."""
        name = f"{step.__module__}.{getattr(step, '__name__', type(step).__name__)}"
        known = self._place.checkpoint.next_replies(name)
        if known is not None:
            return known
        if self._workers is None:
            self._workers = self._stack.enter_context(self._place.engine.open(self._partitions))
        replies = self._workers.map(step, per_batch, broadcast, only)
        self._place.checkpoint.keep(name, replies)
        return replies


def origin_of_fit(model: Any, source: Source, engine: Engine) -> dict[str, Any]:
    """Return all that decides what a fit finds: versions, parameters, data."""
    parameters = {
        name: ADDRESS_IN_MEMORY.sub("", repr(value))
        for name, value in model.get_params(deep=False).items()
        if name not in OF_SESSION
    }
    if isinstance(model.random_state, np.random.RandomState):
        raise ValueError("a checkpoint needs a random_state that is a whole number or None")
    made_with = {**versions(), "machine": platform.machine()}
    return {"version": made_with, "parameter": parameters, "data": _origin_of_data(source, engine)}


def _origin_of_data(source: Source, engine: Engine) -> dict[str, str]:
    """Return what names the rows: files by size and time, other rows by a digest of each batch."""
    if isinstance(source, PieceSource) and not source.is_temporary:
        paths = sorted({group.path for group in source.groups})
        counts = [(group.path, group.n_rows) for group in source.groups]
        how = repr((source.columns, source.rows_per_batch, counts)).encode()
        files = _few({path: _stamp(path) for path in paths})
        return {**files, "columns and batches": blake2b(how, digest_size=16).hexdigest()}
    with engine.open(source.partitions()) as workers:
        digests = workers.map(digest_of_rows, None, None)
    return _few({f"batch {number}": digest for number, digest in enumerate(digests)})


def _few(origin: dict[str, str]) -> dict[str, str]:
    """Return what is known of the batches, or one digest where they are too many to be listed."""
    if len(origin) <= MOST_LISTED:
        return origin
    return {"all rows": blake2b(repr(origin).encode(), digest_size=16).hexdigest()}


def _stamp(path: str) -> str:
    if is_address(path):
        return "at an address"
    found = os.stat(path)
    return f"{found.st_size} bytes, time {found.st_mtime_ns}"


def digest_of_rows(resident: Resident, message: None, broadcast: None) -> str:
    """Return a digest of everything in a batch that a fit depends on."""
    del message, broadcast
    batch, code = resident.batch, blake2b(digest_size=16)
    X = (batch.X.data, batch.X.indices, batch.X.indptr) if sp.issparse(batch.X) else (batch.X,)
    for part in (*X, batch.y, batch.sample_weight, batch.trusted):
        if part is not None:
            code.update(f"{part.dtype.str}{part.shape}".encode())
            code.update(np.ascontiguousarray(part).tobytes())
    return code.hexdigest()


def _origin_of(folder: Path) -> dict[str, Any] | None:
    """Return what a checkpoint says of its fit; None where there is none, or it is damaged."""
    path = folder / FIRST
    if not path.exists():
        return None
    try:
        found = read(path)
    except (ModelFileError, OSError) as error:
        logger.warning("%s is damaged (%s): the fit begins anew", path, error)
        return None
    return found.state if found.kind == ABOUT else None


def _require_same(folder: Path, known: Mapping[str, Any], origin: Mapping[str, Any]) -> None:
    for what, now in origin.items():
        then = known.get(what, {})
        for name in (*then, *now):
            before, after = then.get(name, "nothing"), now.get(name, "nothing")
            if before != after:
                raise CheckpointError(
                    f"{folder} holds the checkpoint of another fit: {what} {name!r} was "
                    f"{before}, and is {after}. Give what was given then, or name a new folder."
                )
