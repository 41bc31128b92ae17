"""What a fit found, for people: summaries, suspicious rows, pictures and one page of HTML."""

from easyfirst.report.path_displays import ConvergenceDisplay, PacePathDisplay
from easyfirst.report.row_displays import ResidualDisplay, WeightDisplay
from easyfirst.report.summary import Summary
from easyfirst.report.suspects import JudgedRows

__all__ = [
    "ConvergenceDisplay",
    "JudgedRows",
    "PacePathDisplay",
    "ResidualDisplay",
    "Summary",
    "WeightDisplay",
]
