"""Writing a file in one step."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easyfirst.atomic import atomic_write
from easyfirst.errors import ModelFileError
from easyfirst.files.layout import (
    DTYPES,
    FORMAT,
    MAX_DIMENSIONS,
    MAX_FILE,
    MAX_HEADER,
    NAME,
    NO_DIGEST,
    VERSION,
    PathLike,
    bytes_of,
    with_digest,
)


def write(
    path: PathLike,
    kind: str,
    state: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    overwrite: bool = False,
) -> None:
    """Write a file that is either complete or not there.

    The bytes depend on the arguments alone. They go to a temporary file beside `path`, which
    takes its name only once they are on the disk.

    Parameters
    ----------
    path
        Where to write.
    kind
        What the contents mean; `read` returns it.
    state
        Anything JSON can say, at most a megabyte of it; no NaN and no infinity.
    arrays
        Float64, float32, int64, int32, uint8 or bool; at most 16 GiB of them.
    overwrite
        Whether a file that is already there may be replaced.

    Examples
    --------
    >>> import tempfile
    >>> from easyfirst.files import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(f"{folder}/a.safetensors", "example", {"unit": "m"}, {"x": np.arange(3.0)})
    ...     contents = read(f"{folder}/a.safetensors")
    >>> contents.kind, contents.state, contents.arrays["x"].tolist()
    ('example', {'unit': 'm'}, [0.0, 1.0, 2.0])
    """
    target = Path(path)
    stored = {name: _storable(name, array) for name, array in arrays.items()}
    # Wide numbers first: then each lies at a multiple of its own width.
    stored = dict(sorted(stored.items(), key=lambda item: -item[1].itemsize))
    head = _head(kind, state, stored)
    digest = hashlib.blake2b(head, digest_size=32)
    for array in stored.values():
        digest.update(bytes_of(array))
    _require_free(target, overwrite)
    with atomic_write(target, overwrite=overwrite) as beside, open(beside, "xb") as file:
        file.write(with_digest(head, digest.hexdigest().encode()))
        for array in stored.values():
            file.write(bytes_of(array))


def _storable(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return the array as little-endian rows of a type the format has."""
    if not NAME.fullmatch(name):
        raise ValueError(f"an array's name must match {NAME.pattern}, got {name!r}")
    little = np.asarray(array, order="C")
    little = little.astype(little.dtype.newbyteorder("<"), copy=False)
    if little.dtype not in DTYPES.values() or little.ndim > MAX_DIMENSIONS:
        allowed = ", ".join(dtype.name for dtype in DTYPES.values())
        raise TypeError(
            f"array {name!r} has dtype {little.dtype} and {little.ndim} dimensions; a file holds "
            f"{allowed} with at most {MAX_DIMENSIONS}: convert it first"
        )
    return little


def _head(kind: str, state: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the length and the header, with zeros for the digest."""
    codes = {dtype: code for code, dtype in DTYPES.items()}
    metadata = {
        "digest": NO_DIGEST.decode(),
        "format": FORMAT,
        "version": str(VERSION),
        "kind": kind,
        "facts": json.dumps(state, allow_nan=False, separators=(",", ":")),
    }
    header: dict[str, Any] = {"__metadata__": metadata}
    begin = 0
    for name, array in arrays.items():
        end = begin + array.nbytes
        place = {"dtype": codes[array.dtype], "shape": array.shape, "data_offsets": [begin, end]}
        header[name] = place
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that the data begin at a multiple of eight
    if len(text) > MAX_HEADER:
        raise ValueError(
            f"the JSON object and the list of arrays take {len(text):,} bytes, of {MAX_HEADER:,} "
            f"allowed: put long lists into arrays (see texts_to_array)"
        )
    if 8 + len(text) + begin > MAX_FILE:
        raise ValueError(f"the arrays take {begin:,} bytes, and a file has at most {MAX_FILE:,}")
    return len(text).to_bytes(8, "little") + text


def _require_free(target: Path, overwrite: bool) -> None:
    if target.is_symlink() or (target.exists() and not target.is_file()):
        raise ModelFileError(
            f"{target} is a link, a directory or a device, which easyfirst does not replace: "
            f"give the path of a plain file"
        )
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists already: choose another path or overwrite=True")
