"""What a fit found, for people: summaries, suspicious rows, pictures and one page of HTML."""

from easyfirst.estimators.judging import JudgedRows
from easyfirst.report.fixes import Fixes, likely_fixes
from easyfirst.report.mistakes import SwapPartner
from easyfirst.report.page import Report
from easyfirst.report.path_displays import ConvergenceDisplay, PacePathDisplay
from easyfirst.report.row_displays import ResidualDisplay, WeightDisplay
from easyfirst.report.summary import Summary

__all__ = [
    "ConvergenceDisplay",
    "Fixes",
    "JudgedRows",
    "PacePathDisplay",
    "Report",
    "ResidualDisplay",
    "Summary",
    "SwapPartner",
    "WeightDisplay",
    "likely_fixes",
]
