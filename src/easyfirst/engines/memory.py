"""How much memory there is, how much this process holds, and how much rows take."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from easyfirst.contracts import Batch

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
BINARY_UNITS = {"KI": 1 << 10, "MI": 1 << 20, "GI": 1 << 30, "TI": 1 << 40}
SIZE = re.compile(r"\s*(\d+(?:\.\d*)?)\s*([KMGT]?I?)B?\s*", re.IGNORECASE)
UNKNOWN_RESIDENT = 250_000_000  # what a process with its libraries takes, where it cannot be asked


def as_bytes(name: str, given: object) -> int:
    """Return a size such as "1GB", "512 MiB" or 10**9 in bytes.

    Examples
    --------
    >>> as_bytes("memory_limit", "1.5GB"), as_bytes("memory_limit", "1 MiB")
    (1500000000, 1048576)
    """
    if isinstance(given, int | float | np.number) and not isinstance(given, bool) and given >= 0:
        return int(given)
    found = SIZE.fullmatch(given) if isinstance(given, str) else None
    units = UNITS | BINARY_UNITS
    if found is None or found[2].upper() not in units:
        raise ValueError(f"{name} must be a size such as '1GB', '512MiB' or 10**9, got {given!r}")
    return int(float(found[1]) * units[found[2].upper()])


def shown_bytes(size: float) -> str:
    """Return a size for messages.

    Examples
    --------
    >>> shown_bytes(1_234_567_890), shown_bytes(65_000_000)
    ('1.2 GB', '65 MB')
    """
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def resident_bytes() -> int:
    """Return how much memory this process holds now."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return UNKNOWN_RESIDENT
    return pages * os.sysconf("SC_PAGE_SIZE")


def give_back_freed_memory() -> None:
    """Ask the allocator to return to the system what it keeps of freed memory, where it can.

    Threads that read files leave pools behind that are several times as large as what they read.
    """
    pyarrow: Any = sys.modules.get("pyarrow")  # has a pool of its own, if somebody uses it
    if pyarrow is not None:
        pyarrow.default_memory_pool().release_unused()
    trim = getattr(_c_library(), "malloc_trim", None)  # of glibc; others have none
    if trim is not None:
        trim(0)


@lru_cache(maxsize=1)
def _c_library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None)
    except (OSError, TypeError):  # Windows has no library of that name
        return None


def available_bytes() -> int | None:
    """Return how much memory this process could still get; None where the system does not say."""
    limits = [_free_of_machine(), _free_of_group()]
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None


def _free_of_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvail"))
    except (OSError, ValueError, StopIteration):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, OSError, ValueError):
        return None


def _free_of_group() -> int | None:
    """Return what a container's limit leaves, its pages of files not counted as taken."""
    group = Path("/sys/fs/cgroup")
    try:
        limit = int((group / "memory.max").read_text())
        taken = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return max(limit - int(taken["anon"]), 0)
    except (OSError, ValueError, KeyError):
        return None


def size_of(value: Any) -> int:
    """Return the bytes of the arrays in a batch, a matrix, or a tuple or list of these."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if sp.issparse(value):
        return size_of((value.data, value.indices, value.indptr))
    if isinstance(value, Batch):
        parts = (value.X, value.y, value.sample_weight, value.row_ids, value.trusted)
        return size_of(parts)
    if isinstance(value, tuple | list):
        return sum(map(size_of, value))
    return 0
