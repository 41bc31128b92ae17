"""Which batches are bad."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from easyfirst.estimators.findings import Findings
from easyfirst.report.wording import visible

BAD = 0.5  # clean share below which a batch is bad
WORSE = 0.05  # clean share below the overall one by which a batch stands out ...
ERRORS = 4.0  # ... if that is also so many standard errors


@dataclass(frozen=True)
class BatchLine:
    """One batch: its name, rows if known, clean share, and a word on it."""

    name: str
    n_rows: int | None
    clean_share: float
    word: str


def batch_lines(findings: Findings, batches: NDArray[Any] | None = None) -> list[BatchLine]:
    """Return the batches, the worst first; `batches` are the ids that fit was given."""
    if findings.calibration is None:
        return []
    shares = np.array(findings.calibration.batch_shares)
    names: list[str] = [f"{i + 1}" for i in range(shares.size)]
    sizes: list[int | None] = [None] * shares.size
    if batches is not None:
        ids, counts = np.unique(batches, return_counts=True)
        if ids.size != shares.size:
            raise ValueError(
                f"batches names {ids.size} batches, but the fit had {shares.size}: give the ids "
                f"that fit was given"
            )
        names, sizes = [visible(each) for each in ids], counts.tolist()
    mean_size = (findings.n_rows or 0.0) / max(shares.size, 1)
    overall = findings.calibration.noise.share
    lines = [
        BatchLine(name, size, float(share), _word(float(share), overall, size or mean_size))
        for name, size, share in zip(names, sizes, shares, strict=True)
    ]
    return sorted(lines, key=lambda line: line.clean_share)


def _word(share: float, overall: float, n_rows: float) -> str:
    if share < BAD:
        return "bad"
    error = np.sqrt(overall * (1.0 - overall) / max(n_rows, 1.0))
    stands_out = overall - share > max(WORSE, ERRORS * error)
    return "worse than the others" if stands_out else "ordinary"
