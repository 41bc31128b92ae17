"""Self-paced regularizers f(v; pace): the rules that turn a row's loss into its weight.

The weights of a round minimise, row by row, v * loss + f(v; pace) over v in [0, 1]. Each class
gives that minimiser in closed form (`weights`), the value of f itself (`value`), and says how
it derives its own constants from the one pace. All of them are homogeneous: multiplying the
losses and the pace by the same factor leaves the weights alone.

`pace` may be one number or one per row.
"""

from easyfirst.regularizers.base import SelfPacedRegularizer
from easyfirst.regularizers.cutoff import (
    Diverse,
    Hard,
    Linear,
    Logarithmic,
    Mixture,
    Polynomial,
    SoftMixture,
    TruncatedSquares,
)
from easyfirst.regularizers.decaying import (
    CauchyWeight,
    Entropic,
    GemanMcClure,
    HuberWeight,
    LogisticWeight,
    Welsch,
)

__all__ = [
    "CauchyWeight",
    "Diverse",
    "Entropic",
    "GemanMcClure",
    "Hard",
    "HuberWeight",
    "Linear",
    "Logarithmic",
    "LogisticWeight",
    "Mixture",
    "Polynomial",
    "SelfPacedRegularizer",
    "SoftMixture",
    "TruncatedSquares",
    "Welsch",
]
