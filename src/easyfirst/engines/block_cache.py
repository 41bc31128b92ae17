"""Decoded batches on the local disk, mapped into memory where they are wanted.

One file without a name holds them: it ends with the process, however that ends. A batch comes
back with the bits it had; what cannot be stored is read again from its source instead.
"""

from __future__ import annotations

import logging
import mmap
import os
import shutil
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from easyfirst.contracts import Batch
from easyfirst.engines.memory import shown_bytes

logger = logging.getLogger("easyfirst")

SHARE_OF_DISK = 0.5  # of what is free in the folder, that a cache without a limit may take
ALIGNED = 64  # bytes to which arrays are aligned, within blocks that begin with a page


@dataclass(frozen=True)
class _Place:
    """Where an array lies in its block."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class _Block:
    """Where the arrays of one batch lie in the file."""

    offset: int
    length: int
    arrays: Mapping[str, _Place]
    n_features: int
    ids_are_objects: bool


class BlockCache:
    """Batches by number, in one temporary file of limited size; `close` gives the disk back."""

    def __init__(self, folder: str | os.PathLike[str] | None, limit: int | None) -> None:
        """Open the file in a folder (None: the system's for temporary files)."""
        where = tempfile.gettempdir() if folder is None else os.fspath(folder)
        free = int(SHARE_OF_DISK * shutil.disk_usage(where).free)
        self.limit = free if limit is None else limit
        self.size = 0
        self._file: Any = tempfile.TemporaryFile(prefix="easyfirst-", dir=where)  # noqa: SIM115
        self._blocks: dict[int, _Block] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Give the disk back."""
        self._file.close()
        self._blocks.clear()

    def store(self, number: int, batch: Batch) -> bool:
        """Keep a batch, if there is room for it; return whether it is kept."""
        arrays = _arrays_of(batch)
        if arrays is None:
            return False
        places, length = _places(arrays)
        with self._lock:
            offset = _rounded(self.size, mmap.ALLOCATIONGRANULARITY)
            if number in self._blocks:
                return True
            if offset + length > self.limit:
                return False
            try:
                self._write(offset, length, arrays, places)
            except OSError as error:
                self._give_up(error)
                return False
            self.size = offset + length
            objects = batch.row_ids is not None and batch.row_ids.dtype == object
            self._blocks[number] = _Block(offset, length, places, batch.n_features, objects)
        return True

    def _write(
        self,
        offset: int,
        length: int,
        arrays: Mapping[str, NDArray[Any]],
        places: Mapping[str, _Place],
    ) -> None:
        for name, array in arrays.items():
            self._file.seek(offset + places[name].offset)
            self._file.write(array.reshape(-1).view(np.uint8).data)
        self._file.flush()
        self._file.truncate(offset + length)

    def _give_up(self, error: OSError) -> None:
        """Store nothing more: the disk is full, or gone."""
        logger.warning(
            "the cache of decoded rows stops at %s (%s); other rows are read again instead",
            shown_bytes(self.size),
            error,
        )
        self.limit = 0

    def load(self, number: int) -> Batch | None:
        """Return a batch that was stored; its pages are read when they are touched."""
        block = self._blocks.get(number)
        if block is None:
            return None
        mapped = mmap.mmap(
            self._file.fileno(), block.length, access=mmap.ACCESS_READ, offset=block.offset
        )
        if hasattr(mmap, "MADV_SEQUENTIAL"):
            mapped.madvise(mmap.MADV_SEQUENTIAL)
        return _batch_of(
            {name: _array(mapped, place) for name, place in block.arrays.items()}, block
        )


def _arrays_of(batch: Batch) -> dict[str, NDArray[Any]] | None:
    """Return what makes up a batch as plain arrays; None if it holds anything else."""
    arrays: dict[str, Any] = {"y": batch.y}
    if sp.issparse(batch.X):
        arrays |= {name: getattr(batch.X, name) for name in ("data", "indices", "indptr")}
    else:
        arrays["X"] = batch.X
    if batch.row_ids is not None:
        ids = batch.row_ids
        if ids.dtype == object:
            if not all(type(name) is str and not name.endswith("\0") for name in ids):
                return None
            ids = ids.astype(str)
        arrays["row_ids"] = ids
    more = {"sample_weight": batch.sample_weight, "trusted": batch.trusted}
    arrays |= {name: values for name, values in more.items() if values is not None}
    plain = all(
        array.size and array.dtype.kind in "biufUM" and array.flags.c_contiguous
        for array in arrays.values()
    )
    return arrays if plain else None


def _places(arrays: Mapping[str, NDArray[Any]]) -> tuple[dict[str, _Place], int]:
    places, offset = {}, 0
    for name, array in arrays.items():
        places[name] = _Place(array.dtype, array.shape, offset)
        offset = _rounded(offset + array.nbytes, ALIGNED)
    return places, offset


def _array(mapped: mmap.mmap, place: _Place) -> NDArray[Any]:
    count = int(np.prod(place.shape))
    return np.frombuffer(mapped, place.dtype, count, place.offset).reshape(place.shape)


def _batch_of(arrays: dict[str, NDArray[Any]], block: _Block) -> Batch:
    X: Any = arrays.get("X")
    if X is None:
        parts = (arrays["data"], arrays["indices"], arrays["indptr"])
        X = sp.csr_array(parts, shape=(len(arrays["y"]), block.n_features))
    ids = arrays.get("row_ids")
    if ids is not None and block.ids_are_objects:
        ids = ids.astype(object)
    weight, trusted = arrays.get("sample_weight"), arrays.get("trusted")
    return Batch(X, arrays["y"], weight, ids, trusted)


def _rounded(size: int, unit: int) -> int:
    return -(-size // unit) * unit
