"""Records on disk: one small Parquet file per problem, seed and method."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from easyfirst.atomic import atomic_write
from easyfirst.experiments.base import Record

PACKAGES = ("easyfirst", "numpy", "scipy", "scikit-learn")
SCHEMA = pa.schema(
    [
        ("spec", pa.string()),
        ("seed", pa.int64()),
        ("method", pa.string()),
        ("setting", pa.float64()),
        ("metric", pa.string()),
        ("value", pa.float64()),
        ("seconds", pa.float64()),
        ("status", pa.string()),
        ("python", pa.string()),
        *[(name, pa.string()) for name in PACKAGES],
        ("machine", pa.string()),
        ("cores", pa.int64()),
        ("memory_gb", pa.float64()),
    ]
)
RECORD_FIELDS = tuple(each.name for each in fields(Record))


class Store:
    """The records below one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, spec: str, seed: int, method: str, setting: float | None) -> Path:
        """Return where the record of one fit lies."""
        suffix = "" if setting is None else f"@{setting:.6g}"
        return self.directory / spec / f"seed-{seed:03d}" / f"{method}{suffix}.parquet"

    def holds(self, spec: str, seed: int, method: str, setting: float | None) -> bool:
        """Return whether a fit has been recorded."""
        return self.path(spec, seed, method, setting).is_file()

    def write(self, records: Sequence[Record]) -> None:
        """Write the figures of one fit."""
        first = records[0]
        target = self.path(first.spec, first.seed, first.method, first.setting)
        target.parent.mkdir(parents=True, exist_ok=True)
        rows = [asdict(record) | surroundings() for record in records]
        write_table(pa.Table.from_pylist(rows, schema=SCHEMA), target)

    def read(self) -> list[Record]:
        """Return every record, in the order of their files."""
        return [
            record for path in sorted(self.directory.rglob("*.parquet")) for record in _load(path)
        ]

    def table(self) -> Any:
        """Return every record with the versions and the machine, as one Arrow table."""
        paths = sorted(self.directory.rglob("*.parquet"))
        return pa.concat_tables([pq.read_table(path, schema=SCHEMA) for path in paths])


def read_archive(path: Path) -> list[Record]:
    """Return the records of one file that holds many."""
    return list(_load(path))


def archive_machines(path: Path) -> list[dict[str, Any]]:
    """Return the distinct combinations of versions and machine in an archive."""
    names = ["python", *PACKAGES, "machine", "cores", "memory_gb"]
    rows = pq.read_table(path, columns=names).to_pylist()
    return [dict(pairs) for pairs in dict.fromkeys(tuple(row.items()) for row in rows)]


def write_table(table: Any, target: Path) -> None:
    """Write a Parquet file; a reader sees all of it or none of it."""
    with atomic_write(target) as beside:
        pq.write_table(table, beside, compression="zstd")


@cache
def surroundings() -> dict[str, Any]:
    """Return the versions and the size of the machine."""
    return {
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "memory_gb": _memory_gb(),
    }


def _load(path: Path) -> Iterable[Record]:
    for row in pq.read_table(path, schema=SCHEMA, columns=list(RECORD_FIELDS)).to_pylist():
        yield Record(**row)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:  # run from the source tree
        return str(getattr(import_module(name), "__version__", "unknown"))


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):  # not a POSIX system
        return None
