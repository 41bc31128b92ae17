"""Reading a file that may be anything."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from easyfirst.errors import ModelFileError
from easyfirst.files.layout import (
    BEFORE_DIGEST,
    DIGEST,
    DTYPES,
    FORMAT,
    MAX_DIMENSIONS,
    MAX_FILE,
    MAX_HEADER,
    METADATA,
    NAME,
    NO_DIGEST,
    VERSION,
    PathLike,
    bytes_of,
    with_digest,
)

BLOCK = 1 << 20  # bytes read at a time
LARGEST = 1 << 56  # far more than fits into a file, and far less than what overflows
SIGNATURES = {  # of what people have lying around under a wrong name
    b"\x80": "a pickle, which easyfirst never opens",
    b"PK\x03\x04": "a zip archive",
    b"PAR1": "a Parquet file",
    b"\x1f\x8b": "a gzip archive",
    b"\x93NUMPY": "a NumPy array file",
    b"\x89HDF": "an HDF5 file",
}

GIVE_ANOTHER = "give a file written by save()"


@dataclass(frozen=True, eq=False)
class FileData:
    """What a file holds, after every check that needs no knowledge of its meaning."""

    kind: str
    state: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    version: int
    digest: str


@dataclass(frozen=True)
class _Slot:
    """Where one array lies in the data."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


def read(path: PathLike) -> FileData:
    """Return the contents of a file, or raise one `ModelFileError` that says what is wrong.

    Damaged, foreign and newer files are refused before their arrays are loaded. The file is read
    twice: once for the digest, once for the arrays.
    """
    with _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_FILE:
            _refuse(
                path, f"takes {size:,} bytes, and no model more than {MAX_FILE:,}", GIVE_ANOTHER
            )
        head = _read_head(file, size, path)
        header = _parsed(head[8:], path)
        metadata = _metadata(header.pop("__metadata__", None), head, path)
        slots = _slots(header, size - len(head), path)
        blank = with_digest(head, NO_DIGEST)
        _require_digest(file, blank, metadata["digest"], path)
        state = _object(metadata["facts"].encode("utf-8", "surrogatepass"), "facts", path)
        arrays = _arrays(file, slots, blank, metadata["digest"], path)
    version = int(metadata["version"])
    return FileData(metadata["kind"], state, arrays, version, metadata["digest"])


@contextmanager
def _opened(path: PathLike) -> Iterator[BufferedReader]:
    # Not blocking, because a pipe would otherwise wait for somebody to write.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        _refuse(path, "is not a plain file", "give the path of a model file")
    with open(handle, "rb") as file:
        yield file


def _read_head(file: BufferedReader, size: int, path: PathLike) -> bytes:
    """Return the first eight bytes and the header they announce."""
    start = file.read(8)
    for signature, what in SIGNATURES.items():
        if start.startswith(signature) and start[2:] != bytes(6):
            _refuse(path, f"is {what}", GIVE_ANOTHER)
    length = int.from_bytes(start, "little")
    if len(start) < 8 or not 2 <= length <= min(MAX_HEADER, size - 8):
        if file.peek(len(BEFORE_DIGEST)).startswith(BEFORE_DIGEST):
            _refuse_damaged(path, f"it ends after {size:,} bytes, or its first eight are wrong")
        _refuse(
            path,
            f"is not a model file: its {size:,} bytes do not begin with the length of a header "
            f"of at most {MAX_HEADER:,}",
            GIVE_ANOTHER,
        )
    text = file.read(length)
    if len(text) < length:
        _refuse_damaged(path, "it became shorter while it was read")
    return start + text


def _parsed(text: bytes, path: PathLike) -> dict[str, Any]:
    if not text.startswith(b"{"):
        _refuse(path, "is not a model file: its header is not a JSON object", GIVE_ANOTHER)
    return _object(text, "header", path)


def _object(text: bytes, what: str, path: PathLike) -> dict[str, Any]:
    """Return a JSON object; refuse repeated keys, NaN, infinity and endless nesting."""
    try:
        found = json.loads(
            text.decode("utf-8", "surrogatepass"),
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
        )
    except (ValueError, RecursionError) as error:
        _refuse_damaged(path, f"its {what} cannot be read as JSON: {error}")
    if not isinstance(found, dict):
        _refuse_damaged(path, f"its {what} is not a JSON object")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key appears twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _metadata(found: object, head: bytes, path: PathLike) -> dict[str, str]:
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        _refuse(
            path,
            "is not a model file of easyfirst (a safetensors file of something else, perhaps)",
            GIVE_ANOTHER,
        )
    version = found.get("version")
    if not isinstance(version, str) or not re.fullmatch(r"[1-9][0-9]{0,5}", version):
        _refuse_damaged(path, "its format version is not a number")
    if int(version) > VERSION:
        _refuse(
            path,
            f"was written by a newer easyfirst (file format {version}; this one reads up to "
            f"{VERSION})",
            "upgrade easyfirst, or save the model again with this version",
        )
    if set(found) != set(METADATA) or not all(isinstance(text, str) for text in found.values()):
        _refuse_damaged(path, f"its metadata are not the texts {', '.join(METADATA)}")
    if not (DIGEST.fullmatch(found["digest"]) and head.startswith(BEFORE_DIGEST, 8)):
        _refuse_damaged(path, "its header does not begin with a BLAKE2b-256 digest")
    return found


def _slots(header: dict[str, Any], n_bytes: int, path: PathLike) -> list[_Slot]:
    """Return where the arrays lie: one after the other, from the first byte to the last."""
    slots, begin = [], 0
    for name, place in header.items():
        slot = _slot(name, place)
        if slot is None or slot.begin != begin:
            _refuse_damaged(path, f"the entry of array {name[:40]!r} in its header makes no sense")
        slots.append(slot)
        begin = slot.end
    if begin != n_bytes:
        what = "cut off" if begin > n_bytes else "followed by bytes that belong to nothing"
        _refuse_damaged(path, f"it holds {n_bytes:,} bytes of arrays instead of {begin:,}: {what}")
    return slots


def _slot(name: str, place: object) -> _Slot | None:
    if not NAME.fullmatch(name) or not isinstance(place, dict):
        return None
    if set(place) != {"dtype", "shape", "data_offsets"} or place["dtype"] not in list(DTYPES):
        return None
    shape, offsets = place["shape"], place["data_offsets"]
    if not (_are_counts(shape) and len(shape) <= MAX_DIMENSIONS):
        return None
    if not (_are_counts(offsets) and len(offsets) == 2):
        return None
    dtype = DTYPES[place["dtype"]]
    if offsets[1] - offsets[0] != math.prod(shape) * dtype.itemsize:
        return None
    if math.prod(length or 1 for length in shape) >= LARGEST:  # an empty array can claim that
        return None
    return _Slot(name, dtype, tuple(shape), *offsets)


def _are_counts(values: object) -> bool:
    """Whether this is a list of whole numbers that an array can have as a length."""
    return isinstance(values, list) and all(
        type(value) is int and 0 <= value < LARGEST for value in values
    )


def _require_digest(file: BufferedReader, blank: bytes, digest: str, path: PathLike) -> None:
    found = hashlib.blake2b(blank, digest_size=32)
    while block := file.read(BLOCK):
        found.update(block)
    if found.hexdigest() != digest:
        _refuse_damaged(path, "its digest does not fit its bytes")


def _arrays(
    file: BufferedReader, slots: list[_Slot], blank: bytes, digest: str, path: PathLike
) -> dict[str, NDArray[Any]]:
    """Load the arrays, and once more the digest: the file may have changed since."""
    file.seek(len(blank))
    found = hashlib.blake2b(blank, digest_size=32)
    arrays = {}
    for slot in slots:
        array = np.empty(slot.shape, slot.dtype)
        file.readinto(bytes_of(array))
        found.update(bytes_of(array))
        if slot.dtype == np.bool_ and np.any(array.view(np.uint8) > 1):
            _refuse_damaged(path, f"array {slot.name!r} holds truth values other than 0 and 1")
        arrays[slot.name] = array
    if found.hexdigest() != digest:
        _refuse_damaged(path, "it changed while it was read")
    return arrays


def _refuse(path: PathLike, what: str, to_do: str) -> NoReturn:
    raise ModelFileError(f"{os.fspath(path)} {what}; {to_do}")


def _refuse_damaged(path: PathLike, what: str) -> NoReturn:
    _refuse(path, f"is damaged: {what}", "take another copy, or fit and save the model again")
