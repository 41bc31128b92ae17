"""Files by path, directory, pattern or address, on this machine or anywhere fsspec reaches."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
ADDRESS = re.compile(r"^[A-Za-z][A-Za-z0-9+.\-]+://")


def find_files(paths: Paths, kind: str, ending: str) -> Iterator[str]:
    """Yield the files that were meant; those below a directory have the ending, by name."""
    if paths is None:
        raise TypeError(f"paths must name at least one {kind} file, got None")
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise ValueError(f"paths is empty: give at least one {kind} file")
    for path in [os.fspath(one) for one in given]:
        if is_address(path):
            yield from _at_address(path, ending)
            continue
        found = [path] if os.path.isfile(path) else _below(path, ending)
        if not found:
            raise FileNotFoundError(
                f"{path}: no such file, no directory with {kind} files, and no pattern that "
                f"matches one"
            )
        yield from (os.path.abspath(file) for file in found)


def is_address(path: str) -> bool:
    """Return whether this is a URL such as s3://bucket/rows.parquet."""
    return ADDRESS.match(path) is not None


def open_file(path: str) -> Any:
    """Open a file, wherever it is, for reading."""
    return _fsspec(path).open(path, "rb").open() if is_address(path) else open(path, "rb")


def _at_address(address: str, ending: str) -> list[str]:
    system, inner = _fsspec(address).core.url_to_fs(address)
    if glob.has_magic(inner):
        found = [system.unstrip_protocol(name) for name in sorted(system.glob(inner))]
    elif system.isfile(inner):
        return [address]
    else:
        names = sorted(system.find(inner)) if system.isdir(inner) else []
        found = [system.unstrip_protocol(name) for name in names if name.endswith(ending)]
    if not found:
        raise FileNotFoundError(f"{address}: nothing is there, or nothing that matches")
    return found


def _below(path: str, ending: str) -> list[str]:
    pattern = os.path.join(glob.escape(path), "**", f"*{ending}") if os.path.isdir(path) else path
    return sorted(file for file in glob.glob(pattern, recursive=True) if os.path.isfile(file))


def _fsspec(address: str) -> Any:
    try:
        import fsspec
    except ImportError:
        raise ImportError(
            f"{address} is not a file on this machine; to read it, install fsspec: pip install "
            f"'easyfirst[remote]', or download it first"
        ) from None
    return fsspec


def shown(files: Sequence[str]) -> str:
    """Return the names of files for a message."""
    return files[0] if len(files) == 1 else f"the {len(files)} files from {files[0]} on"
