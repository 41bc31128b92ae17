"""Batches as memory-mapped files on one host, for workers that come and go.

Where a batch may meet another process with every step, keeping it in a process would copy it
into all of them. As files its rows are on a host once, any process maps the same pages, and the
death of a process loses nothing. A spool is only a cache: what is missing is written again.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from easyfirst.atomic import atomic_write
from easyfirst.contracts import Batch

_SPARSE_PARTS = ("data", "indices", "indptr")
_OPTIONAL_PARTS = ("sample_weight", "trusted")


@dataclass(frozen=True)
class Spool:
    """The batches of one fit below `directory`, one folder of array files each."""

    directory: Path

    def has(self, number: int) -> bool:
        """Return whether the batch is here."""
        return self._folder(number).is_dir()

    def write(self, number: int, batch: Batch) -> None:
        """Store a batch; it appears whole or not at all, and once however many write it."""
        self.directory.mkdir(parents=True, exist_ok=True)
        target = self._folder(number)
        try:
            with atomic_write(target, durable=False) as draft:
                draft.mkdir()
                _save_batch(draft, batch)
        except OSError:
            if not target.is_dir():  # else another process was faster, with the same rows
                raise

    def read(self, number: int) -> Batch:
        """Map a batch that is here."""
        return _map_batch(self._folder(number))

    def remove(self) -> None:
        """Delete every batch; processes that still map one keep their pages."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def _folder(self, number: int) -> Path:
        return self.directory / f"batch-{number}"


def _save_batch(folder: Path, batch: Batch) -> None:
    if sp.issparse(batch.X):
        for part in _SPARSE_PARTS:
            np.save(folder / f"X-{part}.npy", getattr(batch.X, part), allow_pickle=False)
        np.save(folder / "X-shape.npy", np.array(batch.X.shape), allow_pickle=False)
    else:
        np.save(folder / "X.npy", batch.X, allow_pickle=False)
    np.save(folder / "y.npy", batch.y, allow_pickle=False)
    for name in _OPTIONAL_PARTS:
        if getattr(batch, name) is not None:
            np.save(folder / f"{name}.npy", getattr(batch, name), allow_pickle=False)
    if batch.row_ids is not None:
        _save_names(folder / "row_ids", np.asarray(batch.row_ids))


def _map_batch(folder: Path) -> Batch:
    if (folder / "X.npy").exists():
        X: Any = _map(folder / "X.npy")
    else:
        parts = tuple(_map(folder / f"X-{part}.npy") for part in _SPARSE_PARTS)
        X = sp.csr_array(parts, shape=tuple(np.load(folder / "X-shape.npy").tolist()))
    present = [name for name in _OPTIONAL_PARTS if (folder / f"{name}.npy").exists()]
    return Batch(
        X=X,
        y=_map(folder / "y.npy"),
        row_ids=_map_names(folder / "row_ids"),
        **{name: _map(folder / f"{name}.npy") for name in present},
    )


def _map(path: Path) -> Any:
    # A plain array: NumPy's memmap type would follow the rows into every result.
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def _save_names(stem: Path, names: Any) -> None:
    """Store row ids; those that are Python objects, as text is, by Arrow as plain data."""
    if not names.dtype.hasobject:
        np.save(stem.with_suffix(".npy"), names, allow_pickle=False)
        return
    import pyarrow as pa

    column = pa.record_batch({"row_ids": pa.array(names)})
    path = str(stem.with_suffix(".arrow"))
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, column.schema) as writer:
        writer.write_batch(column)


def _map_names(stem: Path) -> Any:
    if stem.with_suffix(".npy").exists():
        return _map(stem.with_suffix(".npy"))
    path = stem.with_suffix(".arrow")
    if not path.exists():
        return None
    import pyarrow as pa

    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).read_all()["row_ids"].to_numpy()
