"""Robust regression by other methods, to compare with: the paper's opponents and newer ones.

Each is a scikit-learn estimator in a file of its own whose docstring says what it assumes and
where it breaks. `fit(X, y, batches=ids)` fits each batch by itself and combines the results.
"""

from easyfirst.baselines.drlr import DRLR
from easyfirst.baselines.least_squares import LeastSquares
from easyfirst.baselines.orlr import ORLR
from easyfirst.baselines.rlhh import RLHH
from easyfirst.baselines.spl import SPL
from easyfirst.baselines.stir import STIR
from easyfirst.baselines.svam import SVAM
from easyfirst.baselines.torrent import Torrent, Torrent25
from easyfirst.baselines.zeros import Zeros

__all__ = [
    "DRLR",
    "ORLR",
    "RLHH",
    "SPL",
    "STIR",
    "SVAM",
    "LeastSquares",
    "Torrent",
    "Torrent25",
    "Zeros",
]
