"""Models of clean residuals beside corrupted ones, and how they are read off the data."""

from easyfirst.noise.fitting import BESIDE_A_BUMP, FittedNoise, Kind, fit_noise
from easyfirst.noise.model import NoiseModel, influence_slope, of_mixture
from easyfirst.noise.reading import (
    clean_mass,
    likely_shares,
    normal_fits,
    share_interval,
)
from easyfirst.noise.row_scale import ScaleRule

__all__ = [
    "BESIDE_A_BUMP",
    "FittedNoise",
    "Kind",
    "NoiseModel",
    "ScaleRule",
    "clean_mass",
    "fit_noise",
    "influence_slope",
    "likely_shares",
    "normal_fits",
    "of_mixture",
    "share_interval",
]
