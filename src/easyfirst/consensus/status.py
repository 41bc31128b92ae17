"""How a fit ended, as a value that carries the sentence a user reads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Status:
    """The end of a fit; `converged` decides whether a warning is due."""

    code: str
    message: str
    converged: bool

    def __str__(self) -> str:
        """Return the sentence."""
        return self.message


def _counted(rounds: int) -> str:
    return "1 round" if rounds == 1 else f"{rounds} rounds"


def converged(rounds: int) -> Status:
    """Every criterion was met."""
    return Status("converged", f"Converged after {_counted(rounds)}.", converged=True)


def out_of_rounds(rounds: int, changed: float, pace_final: bool) -> Status:
    """The outer loop hit its limit."""
    why = (
        f"{100 * changed:.2g} % of the weight still changed"
        if pace_final
        else "the pace was still growing"
    )
    return Status(
        "max_rounds",
        f"Stopped after {_counted(rounds)} while {why}; raise max_rounds.",
        converged=False,
    )


def out_of_steps(rounds: int, max_iter: int) -> Status:
    """The weights settled, but the fit of the last round had not."""
    return Status(
        "max_iter",
        f"The weights stopped changing after {_counted(rounds)}, but the fit of the last one "
        f"had not converged within {max_iter} steps; raise max_iter, or add penalty=Ridge(...) "
        f"if the rows do not determine every coefficient.",
        converged=False,
    )


def out_of_iterations(rounds: int, max_iter: int) -> Status:
    """The weights settled, but the batches had not agreed in the last round."""
    return Status(
        "max_iter",
        f"The weights stopped changing after {_counted(rounds)}, but the batches had not agreed "
        f"within {max_iter} iterations of the last one; raise max_iter, use rho='auto', or "
        f"solver='gram'.",
        converged=False,
    )


def stopped_by_callback(rounds: int) -> Status:
    """A callback asked for the end."""
    return Status("callback", f"Stopped by a callback after {_counted(rounds)}.", converged=True)
