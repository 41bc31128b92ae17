"""Texts as arrays of bytes: for long lists, which the header has no room for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def texts_to_array(texts: list[str]) -> NDArray[np.uint8]:
    """Return texts as one array: UTF-8, each ended by the byte 255, which UTF-8 never uses."""
    joined = b"".join(text.encode("utf-8", "surrogatepass") + b"\xff" for text in texts)
    return np.frombuffer(joined, np.uint8)


def texts_from_array(array: NDArray[Any], count: int) -> list[str]:
    """Return the `count` texts of an array, or raise a `ValueError` before making many others.

    Examples
    --------
    >>> texts_from_array(texts_to_array(["a", "", "b c"]), 3)
    ['a', '', 'b c']
    """
    if array.dtype != np.uint8 or array.ndim != 1:
        raise ValueError(f"texts are a vector of bytes, not {array.dtype} of shape {array.shape}")
    ended = array.size == 0 or array[-1] == 0xFF
    found = int(np.count_nonzero(array == 0xFF))
    if found != count or not ended:
        raise ValueError(f"an array of texts should hold {count} of them and holds {found}")
    parts = array.tobytes().split(b"\xff")[:-1]
    return [part.decode("utf-8", "surrogatepass") for part in parts]
