"""What changed between two runs: the share of wrong rows, bad batches, the model, single rows.

A number has changed if it moved by more than its uncertainty explains: shares by a test of two
proportions, coefficients by their standard errors, both at a level that holds for all of them
together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.special import ndtri

from easyfirst.report.batches import BAD
from easyfirst.report.wording import count, number, percent, visible
from easyfirst.tables.errors import TableError
from easyfirst.tables.runs import ROWS_FILE, SUMMARY_FILE
from easyfirst.transforms import TRANSFORMS

LEVEL = 0.01  # chance of calling anything changed that has not
MOST_NAMED = 10
MOVED = (
    "Rows are compared by their number, and most of them have another target now. If they moved, "
    "fit both tables with --row-id."
)
SAME_ROWS = 0.5  # share of equal targets, below which rows of the same number are others


@dataclass(frozen=True)
class Difference:
    """One thing in both runs; `changed` says whether more than chance moved it."""

    what: str
    before: Any
    after: Any
    changed: bool
    words: str


@dataclass(frozen=True)
class Differences:
    """Two runs beside each other, and what changed, in words."""

    before: str
    after: str
    found: tuple[Difference, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def changed(self) -> bool:
        """Whether anything changed."""
        return any(each.changed for each in self.found)

    def to_data(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {
            "before": self.before,
            "after": self.after,
            "changed": self.changed,
            "differences": [vars(each) for each in self.found],
            "notes": list(self.notes),
        }


def compare_runs(before: Path, after: Path) -> Differences:
    """Compare the outputs of two fits."""
    first, second = _summary(before), _summary(after)
    try:
        found = [
            _wrong_share(first["rows"], second["rows"]),
            *_model(first, second),
            *_batches(first["batches"] or [], second["batches"] or []),
            *_columns(first["columns"]["used"], second["columns"]["used"]),
        ]
        notes = _rows(before, after)
    except (KeyError, TypeError, AttributeError) as error:
        raise TableError(
            f"{before} and {after} do not hold the summaries of two fits ({error!r}); fit again"
        ) from error
    return Differences(str(before), str(after), tuple(found), tuple(notes))


def _summary(run: Path) -> dict[str, Any]:
    path = run / SUMMARY_FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TableError(
            f"{path} cannot be read ({error.strerror}); name the output folder of 'easyfirst fit'"
        ) from error
    except ValueError as error:
        raise TableError(f"{path} is not a summary: {error}") from error
    if not isinstance(found, dict):
        raise TableError(f"{path} is not a summary of a fit")
    return found


def _wrong_share(first: Mapping[str, Any], second: Mapping[str, Any]) -> Difference:
    (k1, n1), (k2, n2) = ((each["look_wrong"], each["fitted"]) for each in (first, second))
    p1, p2 = k1 / n1, k2 / n2
    pooled = (k1 + k2) / (n1 + n2)
    error = float(np.sqrt(pooled * (1.0 - pooled) * (1.0 / n1 + 1.0 / n2)))
    changed = bool(abs(p1 - p2) > _limit(1) * error > 0)
    how = f"{percent(p1)} of {count(n1, 'row')}, now {percent(p2)} of {count(n2, 'row')}"
    return Difference("rows that look wrong", p1, p2, changed, f"{how} look wrong")


def _model(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Difference]:
    """Compare noise and coefficients, if they belong to the same target on the same scale."""
    targets = [each["target"] for each in (first, second)]
    if targets[0] != targets[1]:
        words = f"{targets[0]!r}, now {targets[1]!r}: the models cannot be compared"
        return [Difference("target", targets[0], targets[1], True, words)]
    tasks = [each.get("task", "regression") for each in (first, second)]
    if tasks[0] != tasks[1]:
        words = f"a {tasks[0]}, now a {tasks[1]}: the models cannot be compared"
        return [Difference("what was fitted", tasks[0], tasks[1], True, words)]
    if tasks[0] == "classification":
        return [_noise_of_labels(first, second), *_classes(first["classes"], second["classes"])]
    names = [each.get("target_transform") for each in (first, second)]
    if names[0] != names[1]:
        fitted = [TRANSFORMS[name].label("the target") for name in names]
        words = f"{fitted[0]}, now {fitted[1]}: noise and coefficients cannot be compared"
        return [Difference("what was fitted", names[0], names[1], True, words)]
    found = _coefficients(first["coefficients"], second["coefficients"])
    return [_noise(first, second), *found]


def _noise_of_labels(first: Mapping[str, Any], second: Mapping[str, Any]) -> Difference:
    a, b = first["corrupted_share"], second["corrupted_share"]
    # Half of a 95 % interval is 1.96 standard errors; at zero it has one side only.
    reaches = [
        max(each["corrupted_interval"][1] - each["corrupted_share"], 0.0)
        for each in (first, second)
    ]
    error = float(np.hypot(*reaches)) / 1.96
    changed = bool(abs(a - b) > _limit(1) * error > 0)
    words = f"{percent(a)}, now {percent(b)}"
    return Difference("estimated wrong labels", a, b, changed, words)


def _classes(first: Sequence[str], second: Sequence[str]) -> list[Difference]:
    gone, new = set(first) - set(second), set(second) - set(first)
    return [*_vanished("classes gone", gone), *_appeared("new classes", new)]


def _noise(first: Mapping[str, Any], second: Mapping[str, Any]) -> Difference:
    a, b = first["noise_scale"], second["noise_scale"]
    sizes = [
        max(each["rows"]["fitted"] - each["rows"]["look_wrong"], 2) for each in (first, second)
    ]
    # The logarithm of a standard deviation from n rows has the error 1 / sqrt(2 n).
    error = float(np.sqrt(sum(0.5 / size for size in sizes)))
    moved = abs(float(np.log(b / a))) if a > 0 and b > 0 else 0.0
    words = f"{number(a)}, now {number(b)}"
    return Difference("noise scale", a, b, bool(moved > _limit(1) * error), words)


def _batches(first: Sequence[Any], second: Sequence[Any]) -> list[Difference]:
    """Say which batches have become bad or recovered, and which are new or gone."""
    shares = [
        {str(each["batch"]): each["clean_share"] for each in part} for part in (first, second)
    ]
    if not any(shares):
        return []
    bad = [{name for name, share in part.items() if share < BAD} for part in shares]
    found = [
        *_appeared("batches that became bad", (bad[1] - bad[0]) & shares[0].keys()),
        *_appeared("new batches that are bad", bad[1] - shares[0].keys()),
        *_vanished("batches that recovered", (bad[0] - bad[1]) & shares[1].keys()),
        *_vanished("bad batches that are gone", bad[0] - shares[1].keys()),
    ]
    if not found:
        words = f"{count(len(bad[1]), 'batch', 'batches')}, the same as before"
        found.append(Difference("bad batches", len(bad[0]), len(bad[1]), False, words))
    return found


def _columns(first: Mapping[str, str], second: Mapping[str, str]) -> list[Difference]:
    gone, new = first.keys() - second.keys(), second.keys() - first.keys()
    other = {name for name in first.keys() & second.keys() if first[name] != second[name]}
    found = [*_vanished("columns gone", gone), *_appeared("new columns", new)]
    for name in sorted(other):
        words = f"{first[name]}, now {second[name]}"
        what = f"kind of column {visible(name)}"
        found.append(Difference(what, first[name], second[name], True, words))
    return found


def _vanished(what: str, names: set[str]) -> list[Difference]:
    """Return names that only the first run has, if there are any."""
    return [Difference(what, sorted(names), None, True, _named(names))] if names else []


def _appeared(what: str, names: set[str]) -> list[Difference]:
    """Return names that only the second run has, if there are any."""
    return [Difference(what, None, sorted(names), True, _named(names))] if names else []


def _coefficients(first: Sequence[Any], second: Sequence[Any]) -> list[Difference]:
    """Return the coefficients that moved, those that moved most first."""
    before = {each["name"]: each for each in first}
    both = [(before[each["name"]], each) for each in second if each["name"] in before]
    limit = _limit(len(both))
    moved = []
    for old, new in both:
        error = float(np.hypot(old.get("std_err") or 0.0, new.get("std_err") or 0.0))
        size = abs(new["coef"] - old["coef"]) / error if error > 0 else 0.0
        if size > limit:
            moved.append((size, old, new))
    moved.sort(key=lambda each: -each[0])
    if not moved:
        words = f"none of {count(len(both), 'coefficient')} moved beyond chance"
        return [Difference("model", None, None, False, words)]
    return [
        Difference(
            f"coefficient of {visible(new['name'])}",
            old["coef"],
            new["coef"],
            True,
            f"{number(old['coef'])}, now {number(new['coef'])} ({size:.1f} standard errors)",
        )
        for size, old, new in moved
    ]


def _rows(before: Path, after: Path) -> list[str]:
    """Say which rows changed sides, where both runs name the same rows."""
    try:
        tables = [
            pq.read_table(run / ROWS_FILE, columns=["row_id", "is_label_issue", "given_label"])
            for run in (before, after)
        ]
    except (OSError, pa.ArrowException):
        return ["Single rows are not compared: a rows.parquet is missing or damaged."]
    names = [table["row_id"].to_pylist() for table in tables]
    if any(len(set(part)) < len(part) for part in names):
        return ["Single rows are not compared: several have the same name."]
    flags = [
        {
            name
            for name, wrong in zip(part, table["is_label_issue"].to_pylist(), strict=True)
            if wrong
        }
        for part, table in zip(names, tables, strict=True)
    ]
    shared = set(names[0]) & set(names[1])
    if not shared:
        return ["The runs have no row in common."]
    new, settled = (flags[1] - flags[0]) & shared, (flags[0] - flags[1]) & shared
    return [
        f"Of {count(len(shared), 'row')} in both runs, {len(new):,} look wrong now and did not "
        f"before{_listed(new)}; {len(settled):,} did before and do not now{_listed(settled)}.",
        *([MOVED] if _are_other_rows(tables) else []),
    ]


def _are_other_rows(tables: Sequence[pa.Table]) -> bool:
    """Whether rows are merely counted, and most have another target in the other run."""
    counted = all(
        pa.types.is_integer(table["row_id"].type)
        and np.array_equal(np.sort(table["row_id"].to_numpy()), np.arange(table.num_rows))
        for table in tables
    )
    if not counted or tables[0]["given_label"].type != tables[1]["given_label"].type:
        return False
    first, second = (table.sort_by("row_id")["given_label"].to_pylist() for table in tables)
    pairs = list(zip(first, second, strict=False))
    n_same = sum(a == b for a, b in pairs)
    return bool(n_same < SAME_ROWS * len(pairs))


def _limit(n_tests: int) -> float:
    """Return how many standard errors are beyond chance in so many looks, either side."""
    return float(-ndtri(LEVEL / (2 * max(n_tests, 1))))


def _named(names: set[str]) -> str:
    return _listed(names).removeprefix(" (").removesuffix(")")


def _listed(names: set[Any]) -> str:
    if not names:
        return ""
    in_order = sorted(names, key=lambda name: (isinstance(name, str), name))
    shown = [visible(name) for name in in_order[:MOST_NAMED]]
    more = len(names) - len(shown)
    return f" ({', '.join(shown)}{f' and {more:,} more' if more else ''})"
