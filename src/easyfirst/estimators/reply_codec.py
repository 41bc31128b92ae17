"""Replies of workers as text and bytes, and back with the same bits; nothing is ever unpickled."""

from __future__ import annotations

import importlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

# Where the values come from that steps return.
HOMES = ("easyfirst.contracts", "easyfirst.local.", "easyfirst.noise", "easyfirst.summaries")
KINDS = "biufc"  # of arrays


def encode(value: Any) -> dict[str, NDArray[Any]]:
    """Return a value as two arrays of bytes: its structure, and its numbers."""
    arrays: list[NDArray[Any]] = []
    text = json.dumps(_encoded(value, arrays), separators=(",", ":"))
    data = zlib.compress(b"".join(array.tobytes(order="A") for array in arrays), 1)
    return {
        "text": np.frombuffer(zlib.compress(text.encode(), 1), np.uint8),
        "data": np.frombuffer(data, np.uint8),
    }


def decode(stored: Mapping[str, NDArray[Any]]) -> Any:
    """Return the value that `encode` was given; a ValueError says that it is none."""
    try:
        text = zlib.decompress(stored["text"].tobytes())
        data = memoryview(zlib.decompress(stored["data"].tobytes()))
        return _Decoder(data).value(json.loads(text))
    except (KeyError, TypeError, AttributeError, ImportError, IndexError, zlib.error) as error:
        raise ValueError(f"not what a worker replied ({error})") from None


def _encoded(value: Any, arrays: list[NDArray[Any]]) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):  # NumPy's too, which is one
        return {"float": float(value).hex(), "numpy": isinstance(value, np.generic)}
    if isinstance(value, np.generic):
        return {"scalar": _encoded(np.asarray(value), arrays)}
    if isinstance(value, np.ndarray):
        return _encoded_array(value, arrays)
    if sp.issparse(value):
        parts = [_encoded(part, arrays) for part in (value.data, value.indices, value.indptr)]
        return {"csr": parts, "shape": list(value.shape)}
    if isinstance(value, tuple | list):
        items = [_encoded(item, arrays) for item in value]
        if isinstance(value, list):
            return items
        return {"tuple": items, "class": _name(value) if hasattr(value, "_fields") else None}
    if is_dataclass(value):
        known = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
        return {
            "class": _name(value),
            "fields": {name: _encoded(part, arrays) for name, part in known.items()},
        }
    raise TypeError(f"a checkpoint cannot hold {type(value)!r}")


def _encoded_array(array: NDArray[Any], arrays: list[NDArray[Any]]) -> dict[str, Any]:
    if array.dtype.kind not in KINDS:
        raise TypeError(f"a checkpoint cannot hold arrays of {array.dtype}")
    in_columns = array.flags.f_contiguous and not array.flags.c_contiguous
    if not in_columns:
        array = np.ascontiguousarray(array).reshape(array.shape)
    arrays.append(array)
    return {
        "array": array.dtype.str,
        "shape": list(array.shape),
        "order": "F" if in_columns else "C",
    }


def _name(value: Any) -> str:
    return f"{type(value).__module__}:{type(value).__qualname__}"


class _Decoder:
    """Goes through the structure and takes the numbers in the order they were put down."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.place = data, 0

    def value(self, found: Any) -> Any:
        if isinstance(found, list):
            return [self.value(item) for item in found]
        if not isinstance(found, dict):
            return found
        if "float" in found:
            number = float.fromhex(found["float"])
            return np.float64(number) if found["numpy"] else number
        if "array" in found:
            return self._array(found)
        if "scalar" in found:
            return self._array(found["scalar"])[()]
        if "csr" in found:
            parts = tuple(self.value(part) for part in found["csr"])
            return sp.csr_array(parts, shape=tuple(found["shape"]))
        if "tuple" in found:
            items = [self.value(item) for item in found["tuple"]]
            return tuple(items) if found["class"] is None else _class(found["class"])(*items)
        own = {name: self.value(part) for name, part in found["fields"].items()}
        return _class(found["class"])(**own)

    def _array(self, found: dict[str, Any]) -> NDArray[Any]:
        dtype, shape = np.dtype(found["array"]), tuple(found["shape"])
        if dtype.kind not in KINDS:
            raise ValueError(f"arrays of {dtype} are not permitted")
        size = int(np.prod(shape)) * dtype.itemsize
        raw = self.data[self.place : self.place + size]
        if len(raw) != size:
            raise ValueError("numbers are missing")
        self.place += size
        if size == 0:
            return np.empty(shape, dtype, order=found["order"])
        return np.frombuffer(raw, dtype).reshape(shape, order=found["order"]).copy(order="K")


def _class(name: str) -> Any:
    """Return one of the classes that steps reply with; no other code is ever reached."""
    module, _, qualname = name.partition(":")
    if not module.startswith(HOMES) or not qualname.isidentifier():
        raise ValueError(f"{name} is not what a worker replies with")
    found = getattr(importlib.import_module(module), qualname)
    if not (isinstance(found, type) and (is_dataclass(found) or issubclass(found, tuple))):
        raise ValueError(f"{name} is not what a worker replies with")
    return found
