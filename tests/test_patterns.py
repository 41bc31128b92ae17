"""Patterns among wrong rows: found where they are, in words, and none on clean data."""

import numpy as np
import pytest
from scipy.stats import beta

from easyfirst import SelfPacedRegressor
from easyfirst.report.patterns import LEVEL, find_patterns
from easyfirst.report.traits import categories, each_of, ranges

NO_FIX = ""


def no_fixes(n):
    return np.full(n, NO_FIX, dtype=object)


def branches(n, rng, n_branches=12):
    codes = rng.integers(0, n_branches, n)
    return codes, categories("branch", codes, [f"{i:02d}" for i in range(n_branches)])


def test_a_branch_with_a_mistake_of_its_own_is_named_with_counts():
    rng = np.random.default_rng(0)
    n = 4000
    codes, branch = branches(n, rng)
    wrong = ((codes == 3) & (rng.random(n) < 0.4)) | (rng.random(n) < 0.02)
    fixes = np.where(wrong, "divide by 10", NO_FIX).astype(object)
    (pattern,) = find_patterns(wrong, fixes, [branch])
    of_them = np.mean(codes[wrong] == 3)
    assert pattern.words == (
        f"{wrong.sum()} rows are about 10 times the prediction; {100 * of_them:.1f} % of them have "
        f"branch = 03 ({100 * np.mean(codes == 3):.1f} % of all rows)"
    )
    assert pattern.fix == "divide by 10"
    assert np.array_equal(pattern.rows, np.flatnonzero(wrong))
    assert pattern.to_data()["group_wrong"] == np.sum(wrong & (codes == 3))


def test_a_range_of_values_is_named_with_a_shrunk_share_and_its_interval():
    rng = np.random.default_rng(1)
    n = 2000
    area = rng.uniform(20.0, 120.0, n)
    wrong = rng.random(n) < np.where(area > 110.0, 0.5, 0.01)
    (pattern,) = find_patterns(wrong, no_fixes(n), [ranges("area", area)])
    group = pattern.group
    inside = area >= np.quantile(area, 0.9)
    assert (group.n_rows, group.n_wrong) == (inside.sum(), np.sum(wrong & inside))
    raw = group.n_wrong / group.n_rows
    assert np.mean(wrong) < group.share < raw
    a = group.n_wrong + 20 * np.mean(wrong)
    b = group.n_rows - group.n_wrong + 20 * np.mean(~wrong)
    np.testing.assert_allclose(group.interval, beta.ppf([0.025, 0.975], a, b))
    assert group.elsewhere == pytest.approx(np.mean(wrong[~inside]))
    assert pattern.words.startswith(f"{group.n_wrong} of {group.n_rows} rows with area from 11")


def test_one_cause_is_told_once():
    """A column that goes with the branch is not a second pattern."""
    rng = np.random.default_rng(2)
    n = 3000
    codes, branch = branches(n, rng)
    city = categories("city", codes // 4, ["Bonn", "Kiel", "Ulm"])
    wrong = (codes == 5) & (rng.random(n) < 0.5)
    patterns = find_patterns(wrong, no_fixes(n), [branch, city])
    assert [each.group.group for each in patterns] == ["branch = 05"]


def test_two_causes_are_both_told():
    rng = np.random.default_rng(3)
    n = 3000
    codes, branch = branches(n, rng)
    lines = np.arange(n, dtype=float)
    late = (lines > 1500) & (lines < 1700)
    wrong = ((codes == 5) & (rng.random(n) < 0.5)) | (late & (rng.random(n) < 0.6))
    patterns = find_patterns(wrong, no_fixes(n), [branch, ranges("line", lines, n_ranges=20)])
    assert {each.group.column for each in patterns} == {"branch", "line"}


def test_clean_tables_have_no_pattern():
    """Twenty of the hundred tables of benchmarks/patterns.py."""
    found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n = (300, 1000)[seed % 2]
        X = rng.standard_normal((n, 4))
        codes, branch = branches(n, rng)
        y = X @ np.ones(4) + 0.2 * codes + rng.standard_normal(n)
        design = np.column_stack([X, np.eye(12)[codes][:, 1:]])
        wrong = ~SelfPacedRegressor().fit(design, y).selected_
        columns = [ranges(f"x{j}", X[:, j]) for j in range(4)]
        traits = list(each_of([branch, *columns, ranges("line", np.arange(n) * 1.0)]))
        found += bool(find_patterns(wrong, no_fixes(n), traits))
    assert found <= 1


def test_rows_wrong_at_random_make_a_pattern_no_more_often_than_stated():
    """Drawn, not fitted, so that a thousand tables take a second or two."""
    found = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        n = 400
        wrong = rng.random(n) < 0.1
        columns = [ranges(f"x{j}", rng.standard_normal(n)) for j in range(3)]
        traits = list(each_of([branches(n, rng)[1], *columns]))
        found += bool(find_patterns(wrong, no_fixes(n), traits))
    assert found <= 300 * LEVEL + 3 * np.sqrt(300 * LEVEL)


def test_a_column_without_groups_is_no_trait():
    n = 500
    assert categories("id", np.arange(n), list(range(n))) is None
    assert categories("same", np.zeros(n, dtype=np.intp), ["a"]) is None
    assert ranges("same", np.ones(n)) is None
    assert ranges("empty", np.full(n, np.nan)) is None


def test_missing_values_belong_to_no_group():
    codes = np.array([0, 1, -1] * 100)
    trait = categories("city", codes, ["Bonn", "Ulm"])
    assert trait.counts(np.ones(300, dtype=bool)).tolist() == [100.0, 100.0]
    values = np.where(codes == -1, np.nan, np.arange(300.0))
    assert ranges("x", values).counts(codes == -1).sum() == 0


def test_few_wrong_rows_make_no_pattern():
    rng = np.random.default_rng(0)
    wrong = np.zeros(1000, dtype=bool)
    wrong[:2] = True
    assert find_patterns(wrong, no_fixes(1000), [branches(1000, rng)[1]]) == []
