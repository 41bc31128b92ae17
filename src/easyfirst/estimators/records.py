"""Dataclasses of numbers as columns of arrays, and back, following their annotations.

One array per field, one entry per record. Tuples and vectors are stored end to end beside their
lengths, records inside records under a longer name. The annotations say what a field may hold, so
what comes back is of the right type or is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from easyfirst.files import texts_from_array, texts_to_array

Record = TypeVar("Record")
Arrays = Mapping[str, NDArray[Any]]

SCALARS: dict[type, type[np.generic]] = {float: np.float64, int: np.int64, bool: np.bool_}
LENGTHS = ".lengths"


def records_to_arrays(
    records: Sequence[Any], kind: type[Any], prefix: str
) -> dict[str, NDArray[Any]]:
    """Return one array per field of `kind`, named `prefix.field`."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, hint in _fields(kind):
        values = [getattr(record, name) for record in records]
        arrays |= _column_to_arrays(values, hint, f"{prefix}.{name}")
    return arrays


def records_from_arrays(
    kind: type[Record], count: int, arrays: Arrays, prefix: str
) -> tuple[Record, ...]:
    """Return `count` records, or raise a `ValueError` that names the array that is wrong.

    Examples
    --------
    >>> from easyfirst.consensus.status import Status
    >>> arrays = records_to_arrays([Status("done", "It is done.", True)], Status, "status")
    >>> records_from_arrays(Status, 1, arrays, "status")
    (Status(code='done', message='It is done.', converged=True),)
    """
    columns = {
        name: _column_from_arrays(hint, count, arrays, f"{prefix}.{name}")
        for name, hint in _fields(kind)
        if name not in _optional(kind) or _has(arrays, f"{prefix}.{name}")
    }
    return tuple(
        kind(**{name: column[i] for name, column in columns.items()}) for i in range(count)
    )


def take(arrays: Arrays, name: str, dtype: Any, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """Return an array after checking its type and shape; None stands for any length."""
    array = arrays.get(name)
    if array is None:
        raise ValueError(f"array {name!r} is missing")
    fits = len(array.shape) == len(shape) and all(
        wanted is None or wanted == found for wanted, found in zip(shape, array.shape, strict=True)
    )
    if array.dtype != np.dtype(dtype) or not fits:
        wanted_shape = str(shape).replace("None", "any")
        raise ValueError(
            f"array {name!r} is {array.dtype} of shape {array.shape} instead of "
            f"{np.dtype(dtype)} of shape {wanted_shape}"
        )
    return array


def _fields(kind: type[Any]) -> list[tuple[str, Any]]:
    hints = get_type_hints(kind)
    return [(part.name, hints[part.name]) for part in fields(kind)]


def _optional(kind: type[Any]) -> set[str]:
    """Fields with a default: a file from before there was such a field lacks it."""
    return {part.name for part in fields(kind) if part.default is not MISSING}


def _has(arrays: Arrays, name: str) -> bool:
    """Return whether a field, or one inside it, was stored."""
    return name in arrays or any(key.startswith(name + ".") for key in arrays)


def _is_vector(hint: Any) -> bool:
    return get_origin(hint) is np.ndarray


def _column_to_arrays(values: list[Any], hint: Any, name: str) -> dict[str, NDArray[Any]]:
    if hint in SCALARS:
        return {name: np.array(values, dtype=SCALARS[hint])}
    if hint is str:
        return {name: texts_to_array(values)}
    if is_dataclass(hint) and isinstance(hint, type):
        return records_to_arrays(values, hint, name)
    if get_origin(hint) is tuple or _is_vector(hint):
        flat = [np.asarray(value, dtype=np.float64).reshape(-1) for value in values]
        lengths = np.array([part.size for part in flat], dtype=np.int64)
        return {name: np.concatenate([np.empty(0), *flat]), name + LENGTHS: lengths}
    raise TypeError(f"{name} is annotated as {hint}, for which there is no column")


def _column_from_arrays(hint: Any, count: int, arrays: Arrays, name: str) -> Sequence[Any]:
    if hint in SCALARS:
        column: Sequence[Any] = take(arrays, name, SCALARS[hint], (count,)).tolist()
        return column
    if hint is str:
        return texts_from_array(take(arrays, name, np.uint8, (None,)), count)
    if is_dataclass(hint) and isinstance(hint, type):
        return records_from_arrays(hint, count, arrays, name)
    parts = _parts(arrays, name, count)
    if _is_vector(hint):
        return parts
    widths = {part.size for part in parts}
    if Ellipsis not in get_args(hint) and widths - {len(get_args(hint))}:
        raise ValueError(f"array {name!r} has tuples of {sorted(widths)} numbers")
    return [tuple(part.tolist()) for part in parts]


def _parts(arrays: Arrays, name: str, count: int) -> list[NDArray[np.float64]]:
    """Return the vectors that were stored end to end."""
    flat = take(arrays, name, np.float64, (None,))
    lengths = take(arrays, name + LENGTHS, np.int64, (count,))
    if np.any(lengths < 0) or np.any(lengths > flat.size) or int(lengths.sum()) != flat.size:
        raise ValueError(f"the lengths of array {name!r} do not add up to its {flat.size} entries")
    ends = np.cumsum(lengths)
    return [flat[end - length : end] for end, length in zip(ends, lengths, strict=True)]
