"""Where things lie in a file, and what both the writer and the reader take for granted."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT = "easyfirst-model"
VERSION = 1  # raised when an older reader could misunderstand a file
MAX_HEADER = 1 << 20  # bytes; parsed, JSON can take 25 times as much memory
MAX_FILE = 1 << 34  # bytes; a row's weight takes eight, and a hostile length takes nothing
MAX_DIMENSIONS = 4
METADATA = ("digest", "format", "version", "kind", "facts")
BEFORE_DIGEST = b'{"__metadata__":{"digest":"'  # every header begins so: the digest has its place
NO_DIGEST = b"0" * 64
DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,127}")
DIGEST = re.compile(r"[0-9a-f]{64}")

PathLike = str | os.PathLike[str]


def with_digest(head: bytes, digest: bytes) -> bytes:
    """Return the head with other digits in the digest's place."""
    begin = 8 + len(BEFORE_DIGEST)
    return head[:begin] + digest + head[begin + len(digest) :]


def bytes_of(array: NDArray[Any]) -> memoryview:
    """Return a view of the array's own bytes."""
    return array.reshape(-1).view(np.uint8).data
