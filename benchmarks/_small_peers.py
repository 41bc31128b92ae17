"""Coefficients by other robust methods, R's and statsmodels': kept, as they stay what they are."""

from __future__ import annotations

import json
import warnings
from importlib.util import find_spec
from pathlib import Path

import _robustbase
import numpy as np
from _small_cells import Array, Cell

METHODS = (*_robustbase.METHODS, "RLM", "RLMDetSMM")
Coefficients = tuple[Array | None, ...]


def answers(cell: Cell, seeds: range, with_r: bool, keep: Path | None) -> list[Coefficients]:
    """Return what each method finds in every sample, the intercept last; None where it fails.

    Answers are kept in a folder, if one is given, and only missing ones are asked for.
    """
    kept = keep / f"{cell.name.replace(' ', '-').replace('/', '-')}.json" if keep else None
    found = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}
    missing = [seed for seed in seeds if str(seed) not in found]
    by_r = _robustbase.coefficients(cell, missing) if with_r else [[None, None]] * len(missing)
    for seed, theirs in zip(missing, by_r, strict=True):
        found[str(seed)] = [*theirs, *by_statsmodels(cell, seed)]
    if missing and kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(found))
    return [tuple(map(_as_array, found[str(seed)])) for seed in seeds]


def _as_array(coef: list[float] | None) -> Array | None:
    return None if coef is None else np.array(coef, dtype=float)


def by_statsmodels(cell: Cell, seed: int) -> list[list[float] | None]:
    """Return the coefficients of Tukey's M and of the deterministic MM, where there are some."""
    if find_spec("statsmodels") is None:
        return [None, None]
    import statsmodels.api as sm
    from statsmodels.robust import resistant_linear_model

    X, y, _, _ = cell.draw(seed)
    design = np.column_stack([np.ones(len(y)), X])  # RLMDetSMM expects the constant first
    found: list[list[float] | None] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for fit in (
            lambda: sm.RLM(y, design, M=sm.robust.norms.TukeyBiweight()).fit(),
            lambda: resistant_linear_model.RLMDetSMM(y, design).fit(),
        ):
            try:
                found.append(np.roll(np.asarray(fit().params), -1).tolist())
            except Exception:  # singular designs
                found.append(None)
    return found
