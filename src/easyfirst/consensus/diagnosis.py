"""Saying when the data may not hold one recoverable model, instead of a confident wrong answer."""

from __future__ import annotations

from easyfirst.calibration import information
from easyfirst.consensus.rounds import RoundsResult
from easyfirst.consensus.starts import Found, is_hollow, mixture_of
from easyfirst.schedules import CalibratedPace

LEAST_ROWS = 4.0  # clean rows' worth of information per coefficient below which none is believed


def doubts_about(result: RoundsResult, found: Found) -> tuple[str, ...]:
    """Return a sentence for each reason not to believe the fit."""
    if not isinstance(result.pace, CalibratedPace) or result.losses is None:
        return ()
    mixture = mixture_of(result)
    q = result.solution.z.size
    doubts = []
    worth = information(result.losses, mixture)[1]
    if worth < LEAST_ROWS * q and mixture.share < 0.5:
        doubts.append(
            f"The rows that look clean are worth only {max(worth, 0.0):.0f} rows to {q} "
            f"coefficients: too few to tell a model from chance. Add rows or drop columns."
        )
    if is_hollow(result):
        doubts.append(
            "The residuals that look clean are spread too evenly for one noise scale: the fit "
            "may lie across corrupted rows, or between several models of near-equal support."
        )
    return tuple(doubts)
