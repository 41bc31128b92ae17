"""How often likely fixes are right, and how often clean tables show patterns.

    python benchmarks/fixes.py [--seeds 3] [--tables 100] [--only Patterns] [--out docs/fixes.md]

Known answers of the classics; injected mistakes of every kind, of which the right one must be named
where the error exceeds eight noise scales; clean rows flagged by chance, and errors without a rule,
which should get no fix; and a hundred clean tables, of which at most five may show a pattern.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd

from easyfirst import SelfPacedRegressor
from easyfirst.report.fixes import likely_fixes
from easyfirst.report.mistakes import FACTORS
from easyfirst.report.patterns import find_patterns
from easyfirst.report.traits import Trait, categories, each_of, ranges
from easyfirst.tables import TableModel

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
CLASSICS = Path(__file__).resolve().parents[1] / "tests" / "data" / "robust_classics"
NOISE = 20.0
LARGE = 8.0  # noise scales
RATIO = 0.05
ROWS = 2000
REAL_SEEDS = range(100, 103)
REAL_RATIOS = (0.06,)
REAL_KINDS = {
    "times 10": (10.0, "divide by 10"),
    "divided by 10": (0.1, "multiply by 10"),
    "times 100": (100.0, "divide by 100"),
    "times 12": (12.0, "divide by 12"),
    "times 2.54": (2.54, "divide by 2.54"),
    "wrong sign": (-1.0, "change the sign"),
    "none": (1.0, ""),
}

Vector = np.ndarray


@dataclass(frozen=True)
class Injected:
    """A kind of mistake: its name, what it makes of true values, and the fix to name."""

    name: str
    apply: Callable[[np.random.Generator, Vector], Vector]
    fix: str


def houses(seed: int, n: int = ROWS) -> tuple[np.random.Generator, Vector, Vector]:
    """Draw rows with a price around 500, written with two decimals, and a noise of 20."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5))
    price = 500.0 + X @ [100.0, 80.0, 50.0, -30.0, 20.0] + NOISE * rng.standard_normal(n)
    return rng, X, price.round(2)


def kinds() -> Iterator[Injected]:
    """Yield every kind of mistake that is injected."""
    for factor in FACTORS:
        name = f"{factor:g}"
        yield Injected(f"times {name}", _times(factor), f"divide by {name}")
        yield Injected(f"divided by {name}", _times(1.0 / factor), f"multiply by {name}")
    yield Injected("wrong sign", lambda rng, y: -y, "change the sign")
    yield Injected("one digit misread", _misread, "correct one digit")
    yield Injected("two digits transposed", _transposed, "transpose two digits")
    yield Injected("-999", lambda rng, y: np.full(y.size, -999.0), "treat as missing")
    yield Injected("times 3.28 (not listed)", _times(3.28), "divide by about 3.3")


def _times(factor: float) -> Callable[[np.random.Generator, Vector], Vector]:
    return lambda rng, y: (factor * y).round(4)


def _misread(rng: np.random.Generator, y: Vector) -> Vector:
    """Replace the first digit by any other, zero aside."""
    texts = [f"{value:.2f}" for value in y]
    digits = [rng.choice([d for d in "123456789" if d != text[0]]) for text in texts]
    pairs = zip(digits, texts, strict=True)
    return np.array(
        [float(digit + text[1:] if text[0].isdigit() else text) for digit, text in pairs]
    )


def _transposed(rng: np.random.Generator, y: Vector) -> Vector:
    """Exchange the first two digits, where no zero comes first and the number changes."""
    texts = [f"{value:.2f}" for value in y]
    moved = [
        text[1] + text[0] + text[2:] if text[:2].isdigit() and text[1] != "0" else text
        for text in texts
    ]
    return np.array([float(text) for text in moved])


@dataclass
class Tally:
    """How many rows of one kind had the right fix, another, none; how many clean ones had any."""

    n: int = 0
    right: int = 0
    other: int = 0
    exact: int = 0
    clean: int = 0
    clean_with_fix: int = 0
    missed: int = 0


def measure(kind: Injected, seeds: int) -> Tally:
    """Inject one kind of mistake into a twentieth of the rows, and count."""
    tally = Tally()
    for seed in range(seeds):
        rng, X, truth = houses(seed)
        wrong = rng.random(truth.size) < RATIO
        y = truth.copy()
        y[wrong] = kind.apply(rng, truth[wrong])
        found = SelfPacedRegressor().fit(X, y).suspects(X, y)
        large = np.flatnonzero(wrong & (np.abs(y - truth) > LARGE * NOISE))
        fixes = found["likely_fix"].reindex(large).fillna("")
        right = fixes == kind.fix
        tally.n += large.size
        tally.right += int(right.sum())
        tally.other += int(((fixes != "") & ~right).sum())
        value = found["fixed_value"].reindex(large)
        tally.exact += int(np.sum(np.abs(value - truth[large]) < 0.005 * np.abs(truth[large])))
        clean = found.drop(np.flatnonzero(wrong), errors="ignore")
        tally.clean += len(clean)
        tally.clean_with_fix += int(clean["likely_fix"].notna().sum())
    return tally


def real_tables() -> Iterator[tuple[str, pd.DataFrame, str]]:
    """Yield tables as they are: name, table, target. Their noise is up to a fifth of the target."""
    for name, file, target, exclude in (
        ("Boston", "MASS__Boston", "medv", []),
        ("HousePrices", "AER__HousePrices", "price", []),
        ("Salaries", "carData__Salaries", "salary", []),
        ("Auto", "ISLR__Auto", "mpg", ["name"]),
    ):
        table = pd.read_csv(SHARED / "robust_classics" / f"{file}.csv")
        yield name, table.drop(columns=["rownames", *exclude], errors="ignore"), target
    houses = pd.read_parquet(SHARED / "california_housing" / "california_housing_sklearn.parquet")
    target = next(name for name in houses if "MedHouseVal" in name)
    yield "California", houses.sample(1500, random_state=1).reset_index(drop=True), target
    rent = pd.read_parquet(SHARED / "airbnb_la" / "la_2015-09_summary.parquet")
    unused = ["id", "host_id", "name", "host_name", "last_review"]
    rent = rent.sample(1500, random_state=1).reset_index(drop=True)
    yield "Airbnb, Los Angeles", rent.drop(columns=unused, errors="ignore"), "price"
    bikes = pd.read_parquet(SHARED / "bike_sharing" / "bike_hourly.parquet")
    yield "Bikes", bikes.sample(1500, random_state=1).reset_index(drop=True), "count"
    for name in ("concrete", "protein"):
        table = pd.read_csv(SHARED / "uci_natural" / f"{name}_data.csv.gz", header=None)
        table.columns = [f"x{place}" for place in range(table.shape[1] - 1)] + ["y"]
        table = table.sample(min(len(table), 1500), random_state=1).reset_index(drop=True)
        yield f"UCI {name}", table, "y"


def measure_real(table: pd.DataFrame, target: str, times: float, fix: str, seeds: range) -> Tally:
    """Multiply the target of some rows of a real table, and count."""
    tally, truth = Tally(), table[target].to_numpy(dtype=np.float64)
    for seed in seeds:
        for ratio in REAL_RATIOS:
            wrong = np.random.default_rng(seed).random(truth.size) < ratio
            y = np.where(wrong, (times * truth).round(6), truth)
            model = TableModel(target).fit(table.assign(**{target: y}))
            judged = model.judged(table.assign(**{target: y}))
            found = judged.judged.is_wrong
            fixes = model.suspects(table.assign(**{target: y})).set_index("row_id")["likely_fix"]
            named = fixes.reindex(range(truth.size)).fillna("").to_numpy()
            large = wrong & (np.abs(y - truth) > LARGE * judged.judged.scale)
            tally.n += int(large.sum())
            tally.right += int(np.sum(named[large] == fix))
            tally.missed += int(np.sum(large & ~found))
            tally.other += int(np.sum((named[large] != fix) & (named[large] != "")))
            tally.clean += int(np.sum(found & ~wrong))
            tally.clean_with_fix += int(np.sum(named[found & ~wrong] != ""))
    return tally


def plain(seed: int) -> tuple[np.random.Generator, Vector, Vector]:
    """Draw a table of 1,500 rows and six columns, with a target around zero and a noise of 0.3."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((1500, 6))
    return rng, X, X @ rng.standard_normal(6) + 0.3 * rng.standard_normal(1500)


SHAPES: dict[str, Callable[[np.random.Generator, int], Vector]] = {
    "uniform within 60 noise scales": lambda rng, n: rng.uniform(-60.0, 60.0, n),
    "normal, 30 noise scales": lambda rng, n: rng.normal(0.0, 30.0, n),
    "shifted by 20 noise scales": lambda rng, n: np.full(n, 20.0),
    "Cauchy, 10 noise scales": lambda rng, n: 10.0 * rng.standard_cauchy(n),
    "exponential, 15 noise scales": lambda rng, n: rng.exponential(15.0, n),
}


def errors_without_rule(seeds: int) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield how many rows with errors that follow no rule get a fix all the same.

    First in tables of prices, then in such with a target around zero.
    """
    for name, draw in SHAPES.items():
        counts = []
        for make, noise in ((houses, NOISE), (plain, 0.3)):
            flagged = fixed = 0
            for seed in range(3 * seeds):
                rng, X, y = make(1000 + seed)
                wrong = rng.random(y.size) < RATIO
                y[wrong] = (y[wrong] + noise * draw(rng, int(wrong.sum()))).round(2)
                found = SelfPacedRegressor().fit(X, y).suspects(X, y)
                flagged += len(found)
                fixed += int(found["likely_fix"].notna().sum())
            counts += [flagged, fixed]
        yield (name, *counts)


def seconds(n: int = 100_000) -> float:
    """Return the processor's seconds for so many suspicious rows of several kinds at once."""
    rng = np.random.default_rng(3)
    predicted = rng.uniform(200.0, 900.0, n)
    truth = predicted + 10.0 * rng.standard_normal(n)
    made = [10 * truth, truth / 12, -truth, 2.54 * truth, truth + rng.normal(0.0, 300.0, n)]
    given = np.choose(rng.integers(0, len(made), n), made).round(2)
    others = np.concatenate([given, rng.normal(500.0, 150.0, 9 * n).round(2)])
    above, taken = np.append(np.nan, given[:-1]), []
    for _ in range(2):
        began = time.process_time()
        likely_fixes(given, predicted, 10.0, above=above, others=others)
        taken.append(time.process_time() - began)
    return min(taken)


def clean_rows(seeds: int) -> tuple[int, int]:
    """Return how many rows of clean tables look wrong, and how many of these get a fix."""
    flagged = fixed = 0
    for seed in range(10 * seeds):
        _, X, y = houses(2000 + seed)
        found = SelfPacedRegressor().fit(X, y).suspects(X, y)
        flagged += len(found)
        fixed += int(found["likely_fix"].notna().sum())
    return flagged, fixed


def classics() -> Iterator[tuple[str, str, str, float, float]]:
    """Yield the rows of the classics whose mistake is known, with what was found."""
    for file, target, features, row, name in (
        ("carData__Davis", "weight", ["height"], 11, "Davis, row 12: weight and height swapped"),
        ("carData__Davis", "height", ["weight"], 11, "Davis, row 12, height as the target"),
        ("MASS__hills", "time", ["dist", "climb"], 17, "hills, Knock Hill: 18.65, not 78.65"),
        *(
            ("robustbase__telef", "Calls", ["Year"], 14 + i, f"telef, 19{64 + i}: another unit")
            for i in range(6)
        ),
    ):
        table = pd.read_csv(CLASSICS / f"{file}.csv").dropna(subset=[target, *features])
        table = table.reset_index(drop=True)
        found = SelfPacedRegressor().fit(table[features], table[target])
        line = found.suspects(table[features], table[target]).loc[row]
        yield (
            name,
            line["likely_fix"] or "none",
            f"{line['given_label']:g}",
            float(line["fixed_value"]),
            float(line["fix_probability"]),
        )


def clean_patterns(tables: int) -> tuple[int, int]:
    """Return how many clean tables show a pattern, and how many groups each was searched for."""
    shown = groups = 0
    for seed in range(tables):
        rng = np.random.default_rng(seed)
        n = (300, 1000, 3000)[seed % 3]
        X = rng.standard_normal((n, 5))
        city, branch = rng.integers(0, 20, n), rng.integers(0, 7, n)
        y = X.sum(axis=1) + 0.3 * city + rng.standard_normal(n)
        design = np.column_stack([X, np.eye(20)[city][:, 1:]])
        wrong = ~SelfPacedRegressor().fit(design, y).selected_
        traits = _traits(X, city, branch)
        groups = sum(len(trait.bounds()) for trait in traits)
        shown += bool(find_patterns(wrong, np.full(n, "", dtype=object), traits))
    return shown, groups


def found_patterns(tables: int) -> tuple[int, int]:
    """Return in how many tables a bad branch is named, and how many other groups are."""
    named = others = 0
    for seed in range(tables):
        rng = np.random.default_rng(seed)
        n = 2000
        X = rng.standard_normal((n, 5))
        city, branch = rng.integers(0, 20, n), rng.integers(0, 7, n)
        wrong = rng.random(n) < np.where(branch == 3, 0.20, 0.05)
        y = X.sum(axis=1) + 0.3 * city + rng.standard_normal(n)
        y[wrong] += rng.uniform(10.0, 60.0, int(wrong.sum()))
        design = np.column_stack([X, np.eye(20)[city][:, 1:]])
        flagged = ~SelfPacedRegressor().fit(design, y).selected_
        patterns = find_patterns(flagged, np.full(n, "", dtype=object), _traits(X, city, branch))
        groups = [each.group.group for each in patterns if each.group is not None]
        named += "branch = 3" in groups
        others += len([each for each in groups if each != "branch = 3"])
    return named, others


def _traits(X: Vector, city: Vector, branch: Vector) -> list[Trait]:
    lines = np.arange(len(X), dtype=np.float64)
    return list(
        each_of(
            [
                categories("city", city, list(range(20))),
                categories("branch", branch, list(range(7))),
                *(ranges(f"x{j}", X[:, j]) for j in range(X.shape[1])),
                ranges("line", lines, n_ranges=20),
            ]
        )
    )


def known_answers() -> Iterator[str]:
    """Yield the lines of the classics."""
    yield "| row | fix | given | fixed value | probability |"
    yield "|---|---|---|---|---|"
    for name, fix, given, value, probability in classics():
        yield f"| {name} | {fix} | {given} | {value:.4g} | {probability:.2f} |"


def injected(seeds: int) -> Iterator[str]:
    """Yield the lines of mistakes in made tables."""
    yield INJECTED
    yield (
        "| mistake | rows | right kind | another kind | value within 0.5 % | clean rows flagged "
        "| with a fix |"
    )
    yield "|---|---|---|---|---|---|---|"
    for kind in kinds():
        t = measure(kind, seeds)
        share = f"{100 * t.right / max(t.n, 1):.1f} %"
        exact = f"{100 * t.exact / max(t.n, 1):.1f} %"
        if kind.fix.startswith("treat"):
            exact = "lost"
        yield (
            f"| {kind.name} | {t.n} | {share} | {t.other} | {exact} | {t.clean} "
            f"| {t.clean_with_fix} |"
        )


def in_real_tables() -> Iterator[str]:
    """Yield the lines of mistakes in real tables."""
    tallies = [
        (name, mistake, fix, measure_real(table, target, times, fix, REAL_SEEDS))
        for name, table, target in real_tables()
        for mistake, (times, fix) in REAL_KINDS.items()
    ]
    named = [tally for *_, fix, tally in tallies if fix]
    n, right, missed = (sum(getattr(t, each) for t in named) for each in ("n", "right", "missed"))
    yield REAL.format(
        first=REAL_SEEDS.start,
        last=REAL_SEEDS[-1],
        share=100.0 * right / n,
        flagged_share=100.0 * right / (n - missed),
    )
    yield (
        "| table | mistake | rows | right kind | another kind | not flagged | clean rows flagged "
        "| with a fix |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for name, mistake, fix, t in tallies:
        share = f"{100 * t.right / t.n:.1f} %" if t.n and fix else ""
        yield (
            f"| {name} | {mistake} | {t.n if fix else 0} | {share} | {t.other} | {t.missed} "
            f"| {t.clean} | {t.clean_with_fix} |"
        )


def without_rule(seeds: int) -> Iterator[str]:
    """Yield the lines of errors that follow no rule."""
    yield WITHOUT
    yield "| errors | prices: rows flagged | with a fix | around zero: rows flagged | with a fix |"
    yield "|---|---|---|---|---|"
    flagged, fixed = clean_rows(seeds)
    yield f"| none: clean rows flagged by chance | {flagged} | {fixed} | | |"
    for name, flagged, fixed, flagged_zero, fixed_zero in errors_without_rule(seeds):
        share, share_zero = fixed / max(flagged, 1), fixed_zero / max(flagged_zero, 1)
        yield (
            f"| {name} | {flagged} | {fixed} ({100 * share:.1f} %) "
            f"| {flagged_zero} | {fixed_zero} ({100 * share_zero:.1f} %) |"
        )
    yield SPEED.format(seconds=seconds())


def patterns(tables: int) -> Iterator[str]:
    """Yield what is said of patterns."""
    shown, groups = clean_patterns(tables)
    named, others = found_patterns(tables)
    yield PATTERNS.format(tables=tables, shown=shown, groups=groups, named=named, others=others)


def page(seeds: int, tables: int, only: str, before: str) -> str:
    """Return the page; where `only` names a section, the others are those of the page before."""
    sections: dict[str, Callable[[], Iterator[str]]] = {
        "Known answers": known_answers,
        "Injected mistakes": lambda: injected(seeds),
        "Real tables": in_real_tables,
        "Where there is no rule": lambda: without_rule(seeds),
        "Patterns": lambda: patterns(tables),
    }
    kept = dict(part.split("\n", 1) for part in before.split("\n## ")[1:])
    text = HEAD.format(seeds=seeds, rows=ROWS, noise=NOISE)
    for title, lines in sections.items():
        body = kept[title] if only and only != title else "\n".join(lines())
        text += f"\n## {title}\n\n{body.strip()}\n"
    return text


HEAD = """# Likely fixes and patterns

Every suspicious row gets a posterior over simple mistakes, given the model: a factor (10, 100,
1000, 60, 12, 2.54, 1.609, 4.184, either way), the sign, a swap with another column of the row, a
digit misread, two digits transposed, a missing code, a copy of the row above, or a factor that
wrong rows share and that is learned from them. Against these stand errors without a rule. Their
density is learned from the same rows, each judged by the others: any that falls off with the size
of the error or of its ratio to the prediction, on either side, besides values drawn from the
column, evenly or as they occur, and a shift that rows share. A kind of mistake is common only if
its rows earn it, by evidence beyond what chance gives; else only a coincidence that is improbable
by itself is taken for it. How values are written is evidence too: 381 is 150 times 2.54, and few
other values of a column of whole numbers are. A fix is named from a probability of
0.5 on (0.8 for a learned factor, and where the error is below eight noise scales), and
only for errors of at least five noise scales. Hardly any error without a rule puts a minus before
a number where right values have none, unless the rows show it.
`likely_fix`, `fixed_value` and `fix_probability` are its columns in
`model.suspects`, `suspects.csv`, `rows.parquet` and the report; `easyfirst.report.likely_fixes` is
the function behind them, for any model.

`python benchmarks/fixes.py --out docs/fixes.md` makes this page: {seeds} seeds, tables of
{rows:,} rows with a price around 500 and a noise of {noise:g}. `tests/test_fixes.py` and
`tests/test_patterns.py` repeat it in small.
"""
INJECTED = """\
In a twentieth of the rows, one kind per table. Counted are rows with an error above eight noise
scales; a row that was not flagged counts as not named. Some digits misread look like another
mistake or like an error without a rule, so not all can be told.
"""
REAL = """\
In 6 % of the rows (seeds {first} to {last}), in tables from `../shared/data`. Counted are rows with
an error above eight noise scales, as above. In all tables together, the right kind is named in
**{share:.1f} %** of them, and in {flagged_share:.1f} % of those that were flagged: rows that were
not flagged had no chance of a fix. Expensive Airbnb listings look like tenfold prices where there
are such.
"""
WITHOUT = """\
No fix is right here. A coincidence can still look like one: an error of arbitrary size is now and
then a tenth, or one digit. Errors in 5 % of the rows: in the tables of prices, and in tables of
1,500 rows and six columns with a target around zero.
"""
SPEED = """
100,000 suspicious rows of five kinds in a table of a million take {seconds:.1f} seconds of one
processor.
"""
PATTERNS = """\
Groups by category, batch, range of values and line in the file are reported if they have more
wrong rows than chance gives, at a level of 1 % for all groups of a table together. In {tables}
clean tables (300, 1,000 and 3,000 rows, {groups} groups each) a pattern was shown **{shown}
times**. In {tables} tables of 2,000 rows where 20 % of one branch and 5 % of the others are
wrong, the branch was named {named} times, and {others} other groups.

Where a model is wrong rather than the rows, patterns say where (`rows with area from 98 to 120
look wrong`), and a factor such as 1.609 may be named for rows whose spread grows with the
prediction: read such a pattern together with the doubts of the fit.
"""


def main() -> None:
    """Measure, and print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--only", default="", help="title of the one section to measure again")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    before = options.out.read_text(encoding="utf-8") if options.only else ""
    text = page(options.seeds, options.tables, options.only, before)
    if options.out is None:
        print(text)
    else:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
