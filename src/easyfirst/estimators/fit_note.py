"""When a model was fitted, and to how much."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self


@dataclass(frozen=True)
class FitNote:
    """When a model was fitted, and to how much."""

    at: str
    rows: int
    batches: int

    @classmethod
    def now(cls, batch_sizes: Any) -> Self:
        """Return a note of a fit that ends at this moment."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(at, int(sum(batch_sizes)), len(batch_sizes))
