"""Which rows look wrong, in whose frame, in which order, and whether they are the wrong ones."""

import importlib.util
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

import easyfirst
from easyfirst import SelfPacedRegressor
from easyfirst.datasets import make_corrupted_regression
from easyfirst.regularizers import Entropic, Hard, Linear, Mixture, Polynomial, Welsch
from easyfirst.schedules import Calibrated, Constant, Geometric

CLEANLAB = ["is_label_issue", "label_quality", "given_label", "predicted_label"]
COLUMNS = ["row_id", *CLEANLAB, "residual", "weight", "entry_pace"]
COLUMNS += ["likely_fix", "fixed_value", "fix_probability", "reason"]


@pytest.fixture(scope="module")
def data():
    return make_corrupted_regression(300, 3, 6, mode="batches", n_bad_batches=2, random_state=3)


@pytest.fixture(scope="module")
def frame(data):
    X = pd.DataFrame(data.X, columns=["a", "b", "c"])
    X.index = [f"row {i}" for i in range(len(X))]
    return X


@pytest.fixture(scope="module")
def model(data, frame):
    return SelfPacedRegressor().fit(frame, data.y, batches=data.batches)


def values(table, name):
    return np.asarray(table[name])


# Frames


@pytest.mark.parametrize("library", [pd, pl, pa])
def test_the_frame_that_came_in_comes_out(model, frame, data, library):
    plain = frame.reset_index(drop=True)
    X = {pd: lambda: plain, pl: lambda: pl.from_pandas(plain), pa: lambda: pa.table(plain)}
    rows = X[library]()
    found = model.suspects(rows, data.y)
    assert type(found) is type(rows)
    assert list(found.column_names if library is pa else found.columns) == COLUMNS
    reference = model.suspects(frame, data.y)
    for name in COLUMNS[1:]:
        left, right = (
            pd.Series(values(each, name), dtype=object).fillna("none")
            for each in (found, reference)
        )
        assert left.tolist() == right.tolist()
    assert values(found, "is_label_issue").dtype == bool


def test_arrays_give_pandas_and_without_any_frame_library_a_dict(model, data, monkeypatch):
    bare = SelfPacedRegressor().fit(data.X, data.y)
    assert isinstance(bare.suspects(data.X, data.y), pd.DataFrame)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = bare.suspects(data.X, data.y, top=3)
    assert list(found) == COLUMNS
    assert all(isinstance(column, np.ndarray) and len(column) == 3 for column in found.values())


def test_sparse_rows_are_judged_like_dense_ones(data):
    bare = SelfPacedRegressor().fit(data.X, data.y)
    dense = bare.suspects(data.X, data.y)
    sparse = bare.suspects(sp.csr_array(data.X), data.y)
    assert dense["row_id"].tolist() == sparse["row_id"].tolist()


def test_rows_keep_their_names(model, frame, data):
    found = model.suspects(frame, data.y, top=5)
    assert found["row_id"].tolist() == found.index.tolist()
    assert frame.loc[found.index].shape == (5, 3)
    named = model.suspects(frame, data.y, top=5, row_ids=[f"id {i}" for i in range(len(frame))])
    assert named["row_id"].tolist() == [
        name.replace("row", "id") for name in found["row_id"].tolist()
    ]
    with pytest.raises(ValueError, match=r"one name per row: got shape \(2,\) for 1,800 rows"):
        model.suspects(frame, data.y, row_ids=["a", "b"])


# What is judged, and how


def test_rows_of_the_fit_keep_the_weights_of_the_fit(model, frame, data):
    judged = model.judge(frame, data.y)
    np.testing.assert_array_equal(judged.weight, model.weights_)
    np.testing.assert_array_equal(judged.is_wrong, ~model.selected_)
    found = model.suspects(frame, data.y)
    assert len(found) == np.count_nonzero(~model.selected_)
    assert found["is_label_issue"].all()


def test_other_rows_are_judged_by_the_model(model, frame, data):
    some = frame[100:400]
    judged = model.judge(some, data.y[100:400])
    np.testing.assert_allclose(
        judged.weight, model.clean_probability(some, data.y[100:400]), atol=1e-12
    )
    # In a bad batch the same residual is less likely to be clean than elsewhere.
    assert np.max(np.abs(judged.weight - model.weights_[100:400])) > 0.1


def test_a_changed_column_or_order_makes_them_other_rows(model, frame, data):
    changed = frame.assign(b=2.0 * frame["b"])
    assert np.any(model.judge(changed, data.y).weight != model.weights_)
    np.testing.assert_allclose(
        model.judge(changed, data.y).weight, model.clean_probability(changed, data.y), atol=1e-12
    )
    backwards = model.judge(frame[::-1], data.y[::-1])
    np.testing.assert_allclose(
        backwards.weight, model.clean_probability(frame[::-1], data.y[::-1]), atol=1e-12
    )


def test_residuals_are_in_noise_scales(model, frame, data):
    judged = model.judge(frame, data.y)
    residual = data.y - model.predict(frame)
    np.testing.assert_allclose(judged.residual, residual / model.noise_scale_)
    np.testing.assert_allclose(judged.entry_pace, residual**2)


def test_the_worst_row_comes_first(model, frame, data):
    found = model.suspects(frame, data.y)
    quality = found["label_quality"].to_numpy()
    hopeless = quality < 1e-9
    assert np.all(np.diff(np.abs(found["residual"].to_numpy()[hopeless])) <= 0)
    assert np.all(np.diff(quality[~hopeless]) >= 0)
    assert not np.any(hopeless[np.argmin(hopeless) :])


def test_equal_rows_keep_their_order():
    X = np.tile(np.arange(20.0), 5)[:, None]
    y = X[:, 0] + 0.1 * np.random.default_rng(0).standard_normal(100)
    y[[70, 30, 50]] = 1000.0  # where x is 10
    fitted = SelfPacedRegressor().fit(X, y)
    assert fitted.suspects(X, y)["row_id"].tolist() == [30, 50, 70]


def test_top_takes_the_worst_rows_whether_or_not_they_look_wrong(model, frame, data):
    n_wrong = np.count_nonzero(~model.selected_)
    more = model.suspects(frame, data.y, top=n_wrong + 10)
    assert more["is_label_issue"].tolist() == [True] * n_wrong + [False] * 10
    assert "noise can explain that" in more["reason"].iloc[-1]
    assert len(model.suspects(frame, data.y, top=10**9)) == len(frame)
    assert len(model.suspects(frame, data.y, top=0)) == 0


def test_the_reason_names_the_numbers(model, frame, data):
    worst = model.suspects(frame, data.y, top=1).iloc[0]
    given, predicted = f"{worst['given_label']:.4g}", f"{worst['predicted_label']:.4g}"
    assert worst["reason"].startswith(f"given {given}, predicted {predicted}: ")
    assert f"{abs(worst['residual']):.3g} standard deviations" in worst["reason"]
    assert "under 0.001 % likely to be clean" in worst["reason"]


@pytest.mark.parametrize("top", [2.5, "ten", True])
def test_top_must_be_a_whole_number(model, frame, data, top):
    with pytest.raises(TypeError, match=f"top must be None or a whole number, got {top!r}"):
        model.suspects(frame, data.y, top=top)


def test_a_negative_top_is_refused(model, frame, data):
    with pytest.raises(ValueError, match="top must be >= 0, got -1"):
        model.suspects(frame, data.y, top=-1)


def test_rows_without_y_cannot_be_judged(model, frame, data):
    y = data.y.copy()
    y[:3] = np.nan
    with pytest.raises(ValueError, match="missing or infinite in 3 of 1,800 rows"):
        model.suspects(frame, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.suspects(frame, data.y[:5])
    with pytest.raises(ValueError, match="one number per row"):
        model.suspects(frame, np.stack([data.y, data.y], axis=1))
    column = model.suspects(frame, data.y[:, None], top=4)
    assert column["row_id"].tolist() == model.suspects(frame, data.y, top=4)["row_id"].tolist()


def test_a_saved_model_finds_the_same_rows(model, frame, data, tmp_path):
    model.save(tmp_path / "model.safetensors")
    loaded = easyfirst.load(tmp_path / "model.safetensors")
    pd.testing.assert_frame_equal(loaded.suspects(frame, data.y), model.suspects(frame, data.y))
    assert str(loaded.summary()) == str(model.summary())


# Other schedules and rules


def test_without_a_calibrated_pace_the_pace_itself_decides(data):
    fitted = SelfPacedRegressor.paper().fit(data.X, data.y)
    judged = fitted.judge(data.X, data.y)
    np.testing.assert_array_equal(judged.is_wrong, ~fitted.selected_)
    residual = data.y - fitted.predict(data.X)
    np.testing.assert_allclose(judged.residual, residual / np.sqrt(fitted.pace_))
    fresh = fitted.judge(data.X[:50], data.y[:50])
    np.testing.assert_array_equal(fresh.weight, fitted.weights_[:50])
    reason = fitted.suspects(data.X, data.y, top=1)["reason"].iloc[0]
    assert "times the largest selected residual; not selected at a pace of 1" in reason


def test_an_infinite_pace_suspects_nothing(data):
    fitted = SelfPacedRegressor(pace=Constant()).fit(data.X, data.y)
    assert len(fitted.suspects(data.X, data.y)) == 0
    assert fitted.judge(data.X[:5], data.y[:5]).weight.tolist() == [1.0] * 5


RULES = [Hard(), Linear(), Polynomial(4.0), Mixture(), Welsch(), Entropic()]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_a_row_enters_where_its_weight_passes_one_half(data, rule):
    fitted = SelfPacedRegressor(pace=Geometric(start=0.5, ceiling=2.0), regularizer=rule)
    fitted.fit(data.X, data.y)
    judged = fitted.judge(data.X, data.y)
    loss = np.square(data.y - fitted.predict(data.X))
    for factor, inside in ((1.001, True), (0.999, False)):
        weights = [
            rule.weights(np.array([each]), factor * pace)[0]
            for each, pace in zip(loss[:20], judged.entry_pace[:20], strict=True)
        ]
        assert [weight >= 0.5 for weight in weights] == [inside] * 20
    np.testing.assert_array_equal(judged.is_wrong, judged.entry_pace > fitted.pace_)


@pytest.mark.parametrize("rule", [Hard(), Linear()], ids=["Hard", "Linear"])
def test_a_calibrated_pace_gives_probabilities_whatever_the_rule(data, rule):
    fitted = SelfPacedRegressor(pace=Calibrated(), regularizer=rule).fit(data.X, data.y)
    judged = fitted.judge(data.X, data.y)
    np.testing.assert_array_equal(judged.weight, fitted.weights_)
    np.testing.assert_allclose(judged.quality, fitted.clean_probability(data.X, data.y))


# Are they the corrupted rows?


def benchmark():
    path = Path(__file__).parents[1] / "benchmarks" / "suspects.py"
    spec = importlib.util.spec_from_file_location("suspects_benchmark", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclass looks itself up there
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("ratio", [0.1, 0.4])
@pytest.mark.parametrize("kind", ["gross", "one-sided", "uniform"])
def test_precision_and_recall_reach_095_or_the_bayes_rule(kind, ratio):
    measured = benchmark()
    for seed in (11, 12):
        rows = measured.draw(kind, ratio, 5000, seed)
        ours = measured.precision_and_recall(measured.ours(rows), rows.corrupted)
        best = measured.precision_and_recall(measured.bayes(rows), rows.corrupted)
        for mine, limit in zip(ours, best, strict=True):
            assert mine >= min(0.95, limit - 0.01)


def test_the_bayes_rule_of_the_benchmark_makes_the_fewest_mistakes():
    measured = benchmark()
    rows = measured.draw("uniform", 0.4, 20_000, 0)
    residual = np.abs(rows.y - rows.X @ rows.coef)
    mistakes = np.sum(measured.bayes(rows) != rows.corrupted)
    for cut in np.linspace(1.5, 5.0, 15) * measured.NOISE:
        assert mistakes <= np.sum((residual > cut) != rows.corrupted) + 10


# Rows that stay where they are


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Rows in Parquet files, some with a slipped decimal point, and the model fitted to them."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((1200, 3)), columns=["a", "b", "c"])
    table["name"] = [f"row {i}" for i in range(len(table))]
    price = 300.0 + 40.0 * table["a"] - 20.0 * table["b"] + 3.0 * rng.standard_normal(len(table))
    wrong = rng.random(len(table)) < 0.05
    table["price"] = np.where(wrong, 10.0 * price, price).round(2)
    folder = tmp_path_factory.mktemp("stored")
    for part in range(3):
        table[400 * part : 400 * (part + 1)].to_parquet(folder / f"part-{part}.parquet")
    source = easyfirst.read_parquet(folder, target="price", row_id="name", features=["a", "b", "c"])
    return table, wrong, source, SelfPacedRegressor(engine="inline").fit(source)


def test_a_source_has_the_suspects_of_its_rows(stored):
    table, wrong, source, fitted = stored
    found = fitted.suspects(source)
    assert list(found.columns) == COLUMNS
    assert set(found["row_id"]) >= set(table["name"][wrong])
    names = table.set_index("name")["price"]
    np.testing.assert_allclose(found["given_label"], names[found["row_id"]])
    slips = found[found["row_id"].isin(table["name"][wrong])]
    assert (slips["likely_fix"] == "divide by 10").all()
    assert found["residual"].abs().iloc[0] == found["residual"].abs().max()


def test_the_worst_rows_of_a_source_come_from_all_batches(stored):
    _, _, source, fitted = stored
    everything = fitted.suspects(source)
    assert fitted.suspects(source, top=5)["row_id"].tolist() == everything["row_id"][:5].tolist()
    assert len(fitted.suspects(source, top=1000)) == 1000


def test_what_a_source_cannot_take_is_refused(stored):
    table, _, source, fitted = stored
    with pytest.raises(ValueError, match="name the column where the source is made"):
        fitted.suspects(source, row_ids=table["name"])
    with pytest.raises(TypeError, match="suspects needs y beside X"):
        fitted.suspects(table[["a", "b", "c"]])


def test_a_source_in_memory_answers_like_its_table():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((200, 2)), columns=["a", "b"])
    table["y"] = table["a"] + 2.0 * table["b"] + 0.1 * rng.standard_normal(200)
    table.loc[::20, "y"] += 9.0
    table["key"] = [f"k{i}" for i in range(200)]
    source = easyfirst.read_frame(table, "y", row_id="key")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = SelfPacedRegressor().fit(source).suspects(source)
    assert set(found["row_id"]) >= set(table["key"][::20])
    model = SelfPacedRegressor().fit(table[["a", "b"]], table["y"])
    expected = model.suspects(table[["a", "b"]], table["y"])
    assert found["reason"].tolist() == expected["reason"].tolist()
