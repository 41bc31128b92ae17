"""What a fit records: one entry per round and one per consensus iteration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import narwhals as nw


@dataclass(frozen=True)
class IterationRecord:
    """One ADMM iteration. Residuals are norms as the paper defines them, not squares."""

    round: int
    iteration: int
    primal_residual: float
    dual_residual: float
    rho: float
    lagrangian: float
    seconds: float


@dataclass(frozen=True)
class RoundRecord:
    """One self-paced round: the pace it used and where its fit ended.

    `rows` says whether it ran on "all" rows or on the "sample" that finds the start.

    `selected` counts rows with a weight of at least one half, `changed` is the share of weight
    that moved since the round before, `kkt_residual` the largest cosine between a column and
    the weighted residual (0 at an exact fit of the weighted rows). `messages`, `bytes_sent` and
    `bytes_received` count what went between the driver and the workers; `batch_seconds` and
    `batch_selected_share` show a batch that is slow, or bad.
    """

    round: int
    rows: str
    pace: float
    selected: float
    changed: float
    objective: float
    lagrangian: float
    primal_residual: float
    dual_residual: float
    rho: float
    kkt_residual: float
    iterations: int
    seconds: float
    messages: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    batch_seconds: tuple[float, ...] = field(repr=False, default=())
    batch_selected_share: tuple[float, ...] = field(repr=False, default=())


@dataclass(frozen=True)
class History:
    """The path of a fit, oldest first."""

    rounds: tuple[RoundRecord, ...] = ()
    iterations: tuple[IterationRecord, ...] = ()

    def __repr__(self) -> str:
        return f"<History of {len(self.rounds)} rounds and {len(self.iterations)} iterations>"

    def followed_by(self, other: History) -> History:
        """Return both paths as one, the rounds of the second numbered on."""
        offset = self.rounds[-1].round if self.rounds else 0
        return History(
            self.rounds + tuple(replace(r, round=r.round + offset) for r in other.rounds),
            self.iterations + tuple(replace(i, round=i.round + offset) for i in other.iterations),
        )

    def to_frame(
        self, what: Literal["rounds", "iterations"] = "rounds", backend: Any = "pandas"
    ) -> Any:
        """Return the records as a data frame of the given library (pandas, polars, pyarrow)."""
        if what not in ("rounds", "iterations"):
            raise ValueError(f"what must be 'rounds' or 'iterations', got {what!r}")
        kind: type[RoundRecord] | type[IterationRecord]
        records: Sequence[RoundRecord] | Sequence[IterationRecord]
        kind, records = (
            (RoundRecord, self.rounds) if what == "rounds" else (IterationRecord, self.iterations)
        )
        rows = [asdict(record) for record in records]
        names = [name for name in kind.__dataclass_fields__ if not name.startswith("batch_")]
        columns = {name: [row[name] for row in rows] for name in names}
        return nw.from_dict(columns, backend=backend).to_native()
