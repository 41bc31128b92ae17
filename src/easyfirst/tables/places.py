"""Where a table is: a file, standard input, a pattern, a directory, or an address on a network."""

from __future__ import annotations

import glob
import io
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from easyfirst.tables.errors import TableError, listed, reason

STDIN = "-"
HEAD_BYTES = 65_536
ADDRESS = re.compile(r"^[A-Za-z][A-Za-z0-9+.\-]+://")
HIVE = re.compile(r"^([^=]+)=(.*)$")
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
IGNORED = ("_", ".")  # how the names of files that hold no rows begin, such as _SUCCESS


@dataclass(frozen=True, eq=False)
class Place:
    """One file of a table: its name for messages, and its bytes.

    `path` is a file on this machine, or None where `content` is in memory. `partition` holds the
    columns that the names of its directories give, as in year=2024/part.parquet.
    """

    name: str
    path: Path | None = None
    content: bytes | None = None
    partition: dict[str, str | None] = field(default_factory=dict)

    @property
    def suffixes(self) -> list[str]:
        """The endings of the name, in lower case."""
        return [suffix.lower() for suffix in PurePosixPath(self.name).suffixes]

    def head(self) -> bytes:
        """Return how the file begins."""
        if self.content is not None:
            return self.content[:HEAD_BYTES]
        assert self.path is not None
        with self.path.open("rb") as file:
            return file.read(HEAD_BYTES)

    def stream(self, compression: str | None = None) -> Any:
        """Open the bytes for Arrow, unpacked if a compression is named."""
        source = pa.BufferReader(self.content) if self.path is None else str(self.path)
        return pa.input_stream(source, compression=compression)

    def file(self) -> Any:
        """Return what libraries that jump about in a file take: its path, or its bytes."""
        return io.BytesIO(self.content) if self.content is not None else str(self.path)


def find_places(where: str | Path, endings: Sequence[str]) -> list[Place]:
    """Return the files that a user's words for a table mean; there is at least one.

    In a directory those with one of the `endings` count.
    """
    text = str(where)
    if text == STDIN:
        return [_standard_input()]
    if isinstance(where, str) and ADDRESS.match(text):
        return _remote(text)
    path = Path(where)
    if path.is_dir():
        return _in_directory(path, endings)
    if path.exists():
        return [Place(text, path)]
    if glob.has_magic(text):
        return _matching(text)
    raise TableError(f"{path} does not exist{_neighbours(path)}")


def _standard_input() -> Place:
    if sys.stdin is None or sys.stdin.isatty():
        raise TableError("- means standard input, and nothing is piped into it")
    content = sys.stdin.buffer.read()
    if not content:
        raise TableError("standard input is empty")
    return Place("standard input", content=content)


def _remote(address: str) -> list[Place]:
    if address.startswith("file://"):
        return find_places(Path(unquote(address.removeprefix("file://"))), ())
    try:
        import fsspec
    except ImportError:
        raise TableError(
            f"{address} is not a file on this machine; to read it, install easyfirst[remote], or "
            f"download it first"
        ) from None
    try:
        system, inner = fsspec.core.url_to_fs(address)
        names = sorted(system.glob(inner)) if glob.has_magic(inner) else [inner]
        if not names:
            raise TableError(f"no file matches {address}")
        return [
            Place(address if len(names) == 1 else name, content=system.cat_file(name))
            for name in names
        ]
    except TableError:
        raise
    except ImportError as error:
        raise TableError(f"{address} cannot be read: {error}") from error
    except Exception as error:  # every kind of store has errors of its own
        raise TableError(f"{address} cannot be read: {reason(error)}") from error


def _matching(pattern: str) -> list[Place]:
    found = [Path(name) for name in sorted(glob.glob(pattern, recursive=True))]
    files = [path for path in found if path.is_file()]
    if not files:
        raise TableError(f"no file matches the pattern {pattern}")
    return [Place(str(path), path, partition=_partition(path.parts[:-1])) for path in files]


def _in_directory(folder: Path, endings: Sequence[str]) -> list[Place]:
    """Return the files in a directory, and below it where its folders are named as by Hive."""
    below = sorted(path for path in folder.rglob("*") if path.is_file())
    found = []
    for path in below:
        *folders, name = path.relative_to(folder).parts
        if name.startswith(IGNORED) or not all(HIVE.match(each) for each in folders):
            continue
        if any(name.lower().endswith(ending) for ending in endings):
            found.append(Place(str(path), path, partition=_partition(folders)))
    if not found:
        raise TableError(
            f"{folder} is a directory without tables (files that end in "
            f"{', '.join(endings)}); name a file"
        )
    _require_one_kind(folder, found)
    return found


def _require_one_kind(folder: Path, places: Sequence[Place]) -> None:
    kinds = {place.suffixes[0] if place.suffixes else "" for place in places}
    columns = {tuple(place.partition) for place in places}
    if len(kinds) > 1:
        raise TableError(
            f"{folder} holds files of several kinds ({', '.join(sorted(kinds))}); name those to "
            f"read with a pattern such as '{folder / ('*' + min(kinds))}'"
        )
    if len(columns) > 1:
        raise TableError(f"The folders in {folder} do not all name the same columns")


def _partition(folders: Sequence[str]) -> dict[str, str | None]:
    pairs = [match.groups() for folder in folders if (match := HIVE.match(folder))]
    return {unquote(key): None if value == HIVE_NULL else unquote(value) for key, value in pairs}


def _neighbours(path: Path) -> str:
    """Hint at files of a similar name."""
    try:
        names = [each.name for each in path.parent.iterdir()]
    except OSError:
        return ""
    near = get_close_matches(path.name, names, n=1)
    return f"; did you mean {path.with_name(near[0])}?" if near else ""


def shown(places: Sequence[Place]) -> str:
    """Return the names of files for a message."""
    return places[0].name if len(places) == 1 else listed(place.name for place in places)
