"""What a fit found, in sentences: how many rows look wrong, how sure, what it would have done."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from easyfirst.contracts import Vector
from easyfirst.report.facts import FitFacts
from easyfirst.report.least_squares import Comparison
from easyfirst.report.wording import count, number, percent, visible


@dataclass(frozen=True)
class Verdict:
    """The headline, the sentences below it, and what speaks against believing them."""

    headline: str
    sentences: tuple[str, ...]
    doubts: tuple[str, ...]


def verdict_on(
    facts: FitFacts, weights: Vector | None, comparison: Comparison | None = None
) -> Verdict:
    """Judge a fit by the weights of its rows, as far as they are known."""
    doubts = facts.doubts if facts.status.converged else (facts.status.message, *facts.doubts)
    sentences = (
        *_how_sure(facts, weights),
        *([] if comparison is None else _beside_least_squares(facts, comparison)),
    )
    return Verdict(_headline(facts, weights), sentences, doubts)


def _headline(facts: FitFacts, weights: Vector | None) -> str:
    if weights is not None:
        wrong = int(np.count_nonzero(weights < 0.5))
        if wrong == 0:
            return f"None of the {weights.size:,} rows looks wrong"
        share = percent(wrong / weights.size)
        looks = "looks" if wrong == 1 else "look"
        return f"{wrong:,} of {count(weights.size, 'row')} {looks} wrong ({share})"
    if facts.calibration is not None:
        return f"About {percent(facts.calibration.corrupted_fraction)} of the rows look wrong"
    return "The weights of the rows were not kept"


def _how_sure(facts: FitFacts, weights: Vector | None) -> list[str]:
    if facts.calibration is None:
        return [
            "The pace was not calibrated, so there is no probability that a row is clean: rows "
            f"with a loss above the pace of {number(facts.pace)} were left out."
        ]
    low, high = facts.calibration.corrupted_interval
    sentences = [
        f"The estimated share of corrupted rows is "
        f"{percent(facts.calibration.corrupted_fraction)}, between {percent(low)} and "
        f"{percent(high)} with 95 % confidence."
    ]
    if weights is not None and np.any(weights < 0.5):
        out = weights < 0.5
        innocent, hidden = float(weights[out].sum()), float((1.0 - weights[~out]).sum())
        sentences.append(
            f"Of the rows that look wrong, {_about(innocent)} may be clean after all; "
            f"{_about(hidden)} among the others may be corrupted, so close to the model that "
            f"noise explains them."
        )
    return sentences


def _about(rows: float) -> str:
    return "fewer than one" if rows < 1.0 else f"about {count(rows, 'row').partition(' ')[0]}"


def _beside_least_squares(facts: FitFacts, comparison: Comparison) -> list[str]:
    sentences = [
        f"On the rows that look clean, this model is off by {number(comparison.own_error)} (root "
        f"mean square); least squares on all rows would be off by {number(comparison.error)}."
    ]
    moved = np.abs(comparison.values - facts.values)
    errors = facts.standard_errors
    if errors is None or not moved.size:
        return sentences
    in_errors = moved / np.where(errors > 0, errors, np.inf)
    changed = int(np.count_nonzero(in_errors > 2.0))
    if changed == 0:
        return [*sentences, "No coefficient of least squares is more than two standard errors off."]
    worst = int(np.argmax(in_errors))
    return [
        *sentences,
        f"Least squares moves {changed:,} of {count(moved.size, 'coefficient')} by more than two "
        f"standard errors; the most is {visible(facts.labels[worst])}, "
        f"{number(float(comparison.values[worst]))} instead of "
        f"{number(float(facts.values[worst]))}.",
    ]
