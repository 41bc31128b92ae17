"""One BLAS thread per step: faster beside other threads, and bit-for-bit reproducible."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    # Looking for the loaded libraries takes milliseconds, so it is done once per process.
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limit BLAS to one thread within the context."""
    limit: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limit
