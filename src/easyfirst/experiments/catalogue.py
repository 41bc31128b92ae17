"""All experiments by name."""

from __future__ import annotations

from pathlib import Path

from easyfirst.experiments.adversary import adversary
from easyfirst.experiments.base import Experiment
from easyfirst.experiments.batches import batches
from easyfirst.experiments.fig1 import fig1
from easyfirst.experiments.pace import pace
from easyfirst.experiments.rental import rental

NAMES = ("fig1a", "fig1b", "fig1c", "batches", "pace", "rental", "adversary")


def define(name: str, *, quick: bool = False, data: Path | None = None) -> tuple[Experiment, ...]:
    """Return the experiments behind a name.

    Parameters
    ----------
    name
        One of `NAMES`.
    quick
        Reduced sizes.
    data
        The directory with the listings; only "rental" needs it.
    """
    if name == "rental":
        if data is None:
            raise ValueError("rental needs the directory with the listings files")
        return rental(quick=quick, directory=data)
    if name == "batches":
        return (batches(quick=quick),)
    if name == "pace":
        return (pace(quick=quick),)
    if name == "adversary":
        return (adversary(quick=quick),)
    if name == "fig1a":
        return (fig1("a", quick=quick),)
    if name == "fig1b":
        return (fig1("b", quick=quick),)
    if name == "fig1c":
        return (fig1("c", quick=quick),)
    raise ValueError(f"name must be one of {', '.join(NAMES)}, got {name!r}")
