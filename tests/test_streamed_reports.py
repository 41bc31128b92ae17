"""Suspects, weights and reports of rows that stay in their files, as of the same rows in memory."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import easyfirst
from easyfirst.engines import OutOfCore
from easyfirst.estimators import streaming

N, P, IN_BATCH = 24_000, 3, 3000
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def written(folder, X, y):
    columns = {f"x{j}": X[:, j] for j in range(P)} | {"y": y}
    pq.write_table(pa.table(columns), folder / "rows.parquet", row_group_size=IN_BATCH)
    return easyfirst.read_parquet(folder / "rows.parquet", "y", rows_per_batch=IN_BATCH)


@pytest.fixture
def growing(tmp_path):
    """Rows whose noise grows along a column, some of them wrong: a fit of arrays and of files."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P))
    y = X @ np.ones(P) + 0.3 * np.exp(X[:, 0] / 2.0) * rng.normal(size=N)
    y[::40] += rng.choice([-9.0, 9.0], size=N // 40)
    source = written(tmp_path, X, y)
    batches = np.arange(N) // IN_BATCH
    here = easyfirst.SelfPacedRegressor().fit(X, y, batches=batches)
    there = easyfirst.SelfPacedRegressor(engine=OutOfCore("1GB")).fit(source)
    assert not there._calibration.scale_rule.is_even
    np.testing.assert_array_equal(here.coef_, there.coef_)
    return X, y, source, here, there


def test_suspects_of_files_are_those_of_arrays(growing):
    X, y, source, here, there = growing
    expected, found = here.suspects(X, y, top=50), there.suspects(source, top=50)
    assert list(found.columns) == list(expected.columns)
    for name in ("row_id", "is_label_issue", "label_quality", "residual", "entry_pace", "weight"):
        np.testing.assert_allclose(
            found[name].astype(float), expected[name].astype(float), rtol=1e-12, err_msg=name
        )


def test_written_residuals_are_in_units_of_each_rows_noise(growing, tmp_path):
    X, y, source, here, there = growing
    paths = there.write_weights(source, folder=tmp_path / "weights")
    found = np.concatenate([pq.read_table(path)["residual"].to_numpy() for path in paths])
    np.testing.assert_allclose(found, here.judge(X, y).residual, rtol=1e-12)


def test_a_report_of_files_lists_the_same_rows_as_one_of_arrays(growing):
    X, y, source, here, there = growing
    expected, found = here.report(None, X, y).html, there.report(None, source).html
    assert _listed(found) == _listed(expected)
    assert "evenly drawn" not in found


def test_a_report_of_many_rows_says_that_it_shows_some(growing, monkeypatch):
    _, _, source, _, there = growing
    monkeypatch.setattr(streaming.StreamingMixin.shown_rows, "__defaults__", (None, 5000))
    page = there.report(None, source, show_rows=True).html
    assert "This page shows 4,800 of 24,000 rows, evenly drawn" in page
    with pytest.raises(ValueError, match="are for rows in memory"):
        there.report(None, source, row_ids=np.arange(N))


def test_labels_of_files_are_judged_batch_by_batch(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N, P))
    right = (X[:, 0] - X[:, 1] + 0.3 * rng.logistic(size=N) > 0).astype(float)
    y = np.where(rng.random(N) < 0.1, 1.0 - right, right)
    source = written(tmp_path, X, y)
    model = easyfirst.SelfPacedClassifier(engine=OutOfCore("1GB")).fit(source)
    found, expected = model.suspects(source, top=40), model.suspects(X, y, top=40)
    assert list(found.columns) == list(expected.columns)
    assert set(found["row_id"]) == set(expected["row_id"])
    assert np.mean(right[found["row_id"]] != found["given_label"]) > 0.9


def _listed(page):
    """The table of suspicious rows of a page."""
    return re.search(r'class="suspects".*?</table>', page, re.DOTALL).group()
