"""The one way in which easyfirst writes a file or a folder: whole, or not at all.

What is written goes to a name beside the target, to the disk, and only then takes the target's
name. An error, a full disk or a kill on the way leaves the target as it was.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

NAME_LENGTH = 100  # of the target's name that is kept beside it: names have a limit


@contextmanager
def atomic_write(target: Path, *, overwrite: bool = True, durable: bool = True) -> Iterator[Path]:
    """Give a path beside `target` whose file or folder takes that name when the block ends well.

    Without `overwrite`, a target that exists by then is kept and a `FileExistsError` is raised.
    A folder never replaces another. What is not `durable`, such as a cache, survives the process
    but perhaps not a power failure.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder) / "a.txt") as path:
    ...         _ = path.write_text("all of it")
    ...     (Path(folder) / "a.txt").read_text()
    'all of it'
    """
    beside = unfinished(target)
    try:
        yield beside
        move_into_place(beside, target, overwrite=overwrite, durable=durable)
    finally:
        remove(beside)


def unfinished(target: Path) -> Path:
    """Return a new name beside the target, hidden, for what is still being written."""
    return target.with_name(f".{target.name[:NAME_LENGTH]}.{secrets.token_hex(6)}.partial")


def move_into_place(
    beside: Path, target: Path, *, overwrite: bool = True, durable: bool = True
) -> None:
    """Give a finished file or folder its name, after its bytes are on the disk."""
    if durable:
        for path in [beside, *beside.rglob("*")] if beside.is_dir() else [beside]:
            _sync(path)
    if beside.is_dir():
        beside.rename(target)  # fails where a folder with files is
    elif overwrite:
        beside.replace(target)
    else:
        _take_name(beside, target)
    if durable:
        sync_directory(target.parent)


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def sync_directory(folder: Path) -> None:
    """Bring new names in a folder to the disk, where the system lets a folder be opened."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _sync(path: Path) -> None:
    if path.is_dir():
        sync_directory(path)
        return
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def _take_name(beside: Path, target: Path) -> None:
    try:
        os.link(beside, target)  # unlike a rename, fails if somebody was faster
    except FileExistsError:
        raise FileExistsError(f"{target} was written by somebody else meanwhile") from None
    except OSError:  # a file system without links
        if os.path.lexists(target):
            raise FileExistsError(f"{target} was written by somebody else meanwhile") from None
        beside.rename(target)
