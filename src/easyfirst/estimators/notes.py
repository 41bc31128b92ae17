"""What a user should know about how a fit was made, and when not to believe its flags, in words."""

from __future__ import annotations

from collections.abc import Sequence

from easyfirst.consensus.checks.diagnosis import (
    DENSEST_LOGARITHM,
    EDGE_LOGARITHM,
    MODEL_LOGARITHM,
    TRY_LOGARITHM,
)
from easyfirst.consensus.checks.second_opinion import Opinion
from easyfirst.consensus.checks.transforming import Advice
from easyfirst.consensus.fitted import FittedModel
from easyfirst.consensus.robust.structure import PREDICTION, Structure

WORTH_SAYING = 0.005  # share of rows, or of an error
UNEVEN_FLAGS = 0.4  # difference of flagged shares between groups of rows that is no accident
MOST_NAMED = 6
# Doubts that blame the model for where the rows lie that look wrong.
DIFFER_IN_X = "of the rows that look wrong differ in X from the others"
GROWING_ERRORS = "Errors grow along"
SHARE_DIFFERS = "The share of rows that look wrong differs along"
FIT_LOGARITHM = "fit log(y), "
REMEDY = (
    f"Add a curve or a missing category, {FIT_LOGARITHM}or take a curved model (SelfPaced, or "
    f"--model auto on the command line)"
)
# Advice to transform y, and what is left of it where that was done.
AFTER_TRANSFORMING = {
    FIT_LOGARITHM: "",
    TRY_LOGARITHM: "Add columns that may be missing.",
    EDGE_LOGARITHM: "Add the columns that tell the other rows apart.",
    DENSEST_LOGARITHM: "Add the columns that tell the other rows apart.",
    MODEL_LOGARITHM: "Check a few of these rows before you trust the flags.",
}


def in_view_of(transform: str | None, texts: Sequence[str]) -> tuple[str, ...]:
    """Return doubts and notes without the advice to transform y, if that was done.

    Examples
    --------
    >>> in_view_of("log", ["Add a curve, fit log(y), or drop rows."])
    ('Add a curve, or drop rows.',)
    """
    if transform is None:
        return tuple(texts)
    for advice, instead in AFTER_TRANSFORMING.items():
        texts = [text.replace(advice, instead) for text in texts]
    return tuple(texts)


def notes_of(fitted: FittedModel, names: Sequence[str]) -> tuple[str, ...]:
    """Return what was done because of how the columns are, or how residuals depend on them."""
    opinion, far, notes = fitted.opinion, fitted.far, []
    start = opinion.start
    if far is not None:
        notes.append(
            f"{far.n_rows} rows far out in column {names[far.column]!r} are predicted beyond any "
            f"target, and so will be new ones like them. Check these rows, or take the logarithm "
            f"of the column."
        )
    if fitted.redundant:
        listed = ", ".join(repr(names[column]) for column in fitted.redundant[:MOST_NAMED])
        more = ", ..." if len(fitted.redundant) > MOST_NAMED else ""
        notes.append(
            f"Columns {listed}{more} are nearly redundant, and rows in which they are not would be "
            f"predicted far beyond any target, so only what they have in common is used. Drop one "
            f"of them; penalty=NoPenalty() gives the exact fit."
        )
    if start is None:
        return tuple(notes)
    if opinion.is_for_coarse_target:
        notes.append(
            "The target has few different values, or one that many rows share, and such rows are "
            "fitted exactly by it alone, which says nothing about the others: a plain robust fit "
            "(Huber) is returned."
        )
    elif opinion.telling.is_clear and not (opinion.gain and opinion.structure.is_noticed):
        notes.append(
            f"The rows that a self-paced fit sets aside are told by "
            f"{_listed(opinion.telling.columns, names)}: mistakes would not be, so a plain robust "
            f"fit (Huber) is returned. {REMEDY} to describe these rows better."
        )
    elif opinion.unconfirmed:
        notes.append(
            f"A self-paced fit would set {100 * opinion.unconfirmed:.2g} % of the rows aside, but "
            f"rows that took no part in it do not confirm it: they are predicted no better than "
            f"by a plain robust fit (Huber), which is returned."
        )
    elif opinion.is_preferred:
        notes.append(
            f"{_reason(opinion.structure, names)}, so a plain robust fit (Huber) is returned: its "
            f"typical error is {100 * opinion.gain:.2g} % smaller than that of the self-paced fit. "
            f"{REMEDY} to describe these rows better."
        )
    if not start.scale_rule.is_even:
        notes.append(
            "The noise differs from row to row. Flags and intervals follow its size, which is "
            "estimated from the prediction and the columns."
        )
    return tuple(notes)


def advice_notes(advice: Advice | None, target: str = "y") -> tuple[str, ...]:
    """Return the advice to fit a transformed target, with what it would change."""
    if advice is None:
        return ()
    name = advice.transform.name
    return (
        f"{advice.transform.label(target)} is described much better by this model than {target}: "
        f"{_changes(advice)}. Fit it with target_transform={name!r}.",
    )


def choice_note(advice: Advice, target: str = "y") -> str:
    """Say that a transformed target was taken, and why."""
    label = advice.transform.label(target)
    return f"{label} was fitted instead of {target}: {_changes(advice)}."


def _changes(advice: Advice) -> str:
    wrong, before = (f"{100 * each:.2g}" for each in (advice.wrong, advice.wrong_before))
    changes = []
    if advice.wrong < advice.wrong_before - WORTH_SAYING:
        changes.append(f"{wrong} % instead of {before} % of the rows look wrong")
    if advice.error < 1.0 - WORTH_SAYING:
        changes.append(f"the mean error of clean rows is {100 * (1 - advice.error):.2g} % smaller")
    if not changes:
        changes.append("the noise is more even and closer to normal")
    return ", and ".join(changes)


def doubts_of(fitted: FittedModel, names: Sequence[str]) -> tuple[str, ...]:
    """Return doubts where X tells the rows that look wrong, or much of the residuals."""
    return (*_doubts_about_growing_errors(fitted, names), *_doubts_about_misfit(fitted, names))


def _doubts_about_growing_errors(fitted: FittedModel, names: Sequence[str]) -> tuple[str, ...]:
    if not fitted.growing:
        return ()
    return (
        f"{GROWING_ERRORS} {_listed(fitted.growing, names)}, as if two models were mixed. Check "
        f"for a missing column or a second population before you trust the flags.",
    )


def _doubts_about_misfit(fitted: FittedModel, names: Sequence[str]) -> tuple[str, ...]:
    misfit, columns = fitted.misfit, _listed(fitted.misfit.columns, names)
    if not misfit.is_doubtful:
        return _doubts_about_flags(fitted.opinion, names)
    if misfit.tells_rows:
        return (
            f"The {100 * misfit.aside:.2g} % {DIFFER_IN_X} ({columns}), so the model is probably "
            f"wrong, not the rows. {REMEDY} before you trust the flags.",
        )
    return (
        f"A line is not enough: {100 * misfit.explained:.0f} % of the variance of the residuals "
        f"follows {columns}. Predictions are off although the rows are right, and wrong rows pass "
        f"for noise. {REMEDY}.",
    )


def _listed(columns: Sequence[int], names: Sequence[str]) -> str:
    listed = ", ".join(repr(names[column]) for column in columns)
    return f"column{'' if len(columns) == 1 else 's'} {listed}"


def _doubts_about_flags(opinion: Opinion, names: Sequence[str]) -> tuple[str, ...]:
    """Return a doubt where the share of flags differs much along one column."""
    left = opinion.left
    is_uneven = left.is_noticed and left.flagged_high - left.flagged_low > UNEVEN_FLAGS
    if opinion.start is None or not is_uneven:
        return ()
    return (
        f"{SHARE_DIFFERS} {_where(left, names)}, from "
        f"{100 * left.flagged_low:.0f} % to {100 * left.flagged_high:.0f} %: probably the model is "
        f"wrong there, not the rows. {REMEDY} before you trust the flags.",
    )


def _reason(structure: Structure, names: Sequence[str]) -> str:
    if structure.is_noticed:
        return f"Residuals depend on {_where(structure, names)}"
    return "The self-paced fit describes only a part of the rows"


def _where(structure: Structure, names: Sequence[str]) -> str:
    if structure.column == PREDICTION:
        return "the prediction"
    return f"column {names[structure.column]!r}"
