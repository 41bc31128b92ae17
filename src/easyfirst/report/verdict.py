"""What a fit found, in sentences: how many rows look wrong, how sure, what it would have done."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from easyfirst.contracts import Vector
from easyfirst.estimators.findings import Findings
from easyfirst.report.least_squares import Comparison
from easyfirst.report.wording import count, number, percent, visible


@dataclass(frozen=True)
class Verdict:
    """The headline, the sentences below it, and what speaks against believing them."""

    headline: str
    sentences: tuple[str, ...]
    doubts: tuple[str, ...]


def corrupted_share(findings: Findings, excused: float = 0.0) -> tuple[float, float, float]:
    """Return the estimated share of corrupted rows and its interval.

    `excused` is the share that the fit takes for corrupted because something was filled in.
    """
    assert findings.calibration is not None
    low, high = findings.calibration.corrupted_interval
    share = findings.calibration.corrupted_fraction
    # What the fit never took for corrupted does not make the share any surer.
    excused = min(excused, share)
    return share - excused, max(low - excused, 0.0), high - excused


def verdict_on(
    findings: Findings,
    weights: Vector | None,
    comparison: Comparison | None = None,
    excused: float = 0.0,
) -> Verdict:
    """Judge a fit by the weights of its rows, as far as they are known."""
    doubts = (
        findings.doubts
        if findings.status.converged
        else (findings.status.message, *findings.doubts)
    )
    sentences = (
        *_how_sure(findings, weights, excused),
        *([] if comparison is None else _beside_least_squares(findings, comparison)),
    )
    return Verdict(_headline(findings, weights), sentences, doubts)


def _headline(findings: Findings, weights: Vector | None) -> str:
    if weights is not None:
        wrong = int(np.count_nonzero(weights < 0.5))
        if wrong == 0:
            return f"None of the {weights.size:,} rows looks wrong"
        share = percent(wrong / weights.size)
        looks = "looks" if wrong == 1 else "look"
        return f"{wrong:,} of {count(weights.size, 'row')} {looks} wrong ({share})"
    if findings.calibration is not None:
        return f"About {percent(findings.calibration.corrupted_fraction)} of the rows look wrong"
    return "The weights of the rows were not kept"


def _how_sure(findings: Findings, weights: Vector | None, excused: float) -> list[str]:
    if findings.calibration is None:
        return [
            "The pace was not calibrated, so there is no probability that a row is clean: rows "
            f"with a loss above the pace of {number(findings.pace)} were left out."
        ]
    share, low, high = corrupted_share(findings, excused)
    sentences = [
        f"The estimated share of corrupted rows is {percent(share)}, between {percent(low)} and "
        f"{percent(high)} with 95 % confidence."
    ]
    if excused > 0.001:
        sentences.append(
            f"Another {percent(excused)} of the rows are far from the prediction too, but no "
            f"further than the values that were filled in there explain."
        )
    if weights is not None and np.any(weights < 0.5):
        out = weights < 0.5
        innocent, hidden = float(weights[out].sum()), float((1.0 - weights[~out]).sum())
        sentences.append(
            f"Expect {_about(innocent)} of the flagged rows to be clean after all, and "
            f"{_about(hidden)} of the others to be corrupted but too close to the model to tell."
        )
    return sentences


def _about(rows: float) -> str:
    return "fewer than one" if rows < 1.0 else f"about {count(rows, 'row').partition(' ')[0]}"


def _beside_least_squares(findings: Findings, comparison: Comparison) -> list[str]:
    sentences = [
        f"On the rows that look clean, this model is off by {number(comparison.own_error)} (root "
        f"mean square); least squares on all rows would be off by {number(comparison.error)}."
    ]
    moved = np.abs(comparison.values - findings.values)
    errors = findings.standard_errors
    if errors is None or not moved.size:
        return sentences
    in_errors = moved / np.where(errors > 0, errors, np.inf)
    changed = int(np.count_nonzero(in_errors > 2.0))
    if changed == 0:
        return [*sentences, "No coefficient of least squares is more than two standard errors off."]
    worst = int(np.argmax(in_errors))
    return [
        *sentences,
        f"Least squares would move {changed:,} of {count(moved.size, 'coefficient')} by more than "
        f"two standard errors, most of all {visible(findings.labels[worst])}: "
        f"{number(float(comparison.values[worst]))} instead of "
        f"{number(float(findings.values[worst]))}.",
    ]
