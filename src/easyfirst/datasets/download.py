"""Fetching files over HTTP: resumed where it was broken off, and checked before it counts."""

from __future__ import annotations

import hashlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from easyfirst.atomic import move_into_place

PIECE = 1 << 20
PARTIAL_CONTENT = 206
RANGE_NOT_SATISFIABLE = 416


class ChecksumError(RuntimeError):
    """A file arrived whole, but it is not the file that was meant."""


@dataclass(frozen=True)
class RemoteFile:
    """A file to fetch: where it is, what it is called here, and its SHA-256 in hexadecimal."""

    url: str
    name: str
    sha256: str


def download(
    file: RemoteFile,
    directory: Path | str,
    *,
    attempts: int = 3,
    timeout: float = 30.0,
    on_bytes: Callable[[int], None] = lambda n: None,
) -> Path:
    """Fetch a file unless it is there already, and return its path.

    The bytes go to `<name>.partial`; a later call continues there if the server supports ranges
    and starts over if not. Only a file with the right checksum gets its name.

    Parameters
    ----------
    file
        What to fetch.
    directory
        Where to put it.
    attempts
        How often a broken connection is taken up again before giving up.
    timeout
        Seconds without a byte after which a connection counts as broken.
    on_bytes
        Called with the number of bytes of each piece that arrives.
    """
    if urlsplit(file.url).scheme not in ("http", "https"):
        raise ValueError(f"url must begin with http or https, got {file.url!r}")
    if Path(file.name).name != file.name:
        raise ValueError(f"name must not contain a folder, got {file.name!r}")
    if attempts < 1:
        raise ValueError(f"attempts must be >= 1, got {attempts!r}")
    target = Path(directory) / file.name
    if target.is_file() and sha256_of(target) == file.sha256:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".partial")
    _fetch(file.url, partial, attempts, timeout, on_bytes)
    found = sha256_of(partial)
    if found != file.sha256:
        partial.unlink()
        raise ChecksumError(
            f"{file.url} has the SHA-256 {found}, expected {file.sha256}; the file was removed"
        )
    move_into_place(partial, target)
    return target


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch(
    url: str, partial: Path, attempts: int, timeout: float, on_bytes: Callable[[int], None]
) -> None:
    for attempt in range(1, attempts + 1):
        try:
            if _continue(url, partial, timeout, on_bytes):
                return
        except (urllib.error.HTTPError, ValueError):
            raise
        except (OSError, http.client.HTTPException):
            if attempt == attempts:
                raise
    raise ConnectionError(f"{url} broke off {attempts} times; run again to continue")


def _continue(url: str, partial: Path, timeout: float, on_bytes: Callable[[int], None]) -> bool:
    """Fetch what is missing, and return whether all of it came."""
    have = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == RANGE_NOT_SATISFIABLE and have:
            return True  # nothing is missing, or the checksum will tell
        raise
    with response:
        resumed = response.status == PARTIAL_CONTENT
        promised = response.headers.get("Content-Length")
        received = 0
        with partial.open("ab" if resumed else "wb") as file:
            while piece := response.read(PIECE):
                file.write(piece)
                received += len(piece)
                on_bytes(len(piece))
    return promised is None or received == int(promised)
