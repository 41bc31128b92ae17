"""A transformed target: fitted on its own scale, seen by users on theirs."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor

import easyfirst
from easyfirst import SelfPacedRegressor, load, read_frame
from easyfirst.engines import Inline, Threads
from easyfirst.losses import PoissonDeviance
from easyfirst.penalties import Ridge
from easyfirst.schedules import Quantile
from easyfirst.transforms import IDENTITY, LOG, SQRT, TRANSFORMS


def prices(seed: int, n: int = 600, noise: float = 0.2):
    """Return rows whose effects and noise multiply."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 3)), rng.integers(0, 2, n)])
    return X, np.exp(5.0 + X @ [0.4, -0.2, 0.1, 0.3] + noise * rng.normal(size=n))


def heights(seed: int, n: int = 500):
    """Return rows whose effects add up, around values that are all positive."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, 6.0 + X @ [0.5, -0.3, 0.2, 0.4] + 0.5 * rng.normal(size=n)


@pytest.mark.parametrize("transform", [IDENTITY, SQRT, LOG])
def test_a_transformation_goes_there_and_back(transform):
    y = np.array([1e-8, 0.3, 1.0, 77.0, 1e9])
    assert_allclose(transform.back(transform.of(y)), y, rtol=1e-13)
    step = 1e-6 * y
    slope = (transform.of(y + step) - transform.of(y - step)) / (2 * step)
    assert_allclose(np.exp(transform.log_slope(y)), slope, rtol=1e-5)
    assert np.all(np.diff(transform.of(np.array([-5.0, 0.0, 1.0, 2.0]))) >= 0)


def test_a_strided_target_is_transformed_to_the_same_bits():
    y = np.random.default_rng(0).lognormal(size=2001)
    assert_array_equal(LOG.of(y[::2]), LOG.of(y)[::2])


@pytest.mark.parametrize("name", ["log", "sqrt"])
def test_a_fit_of_a_transformed_target_is_that_of_the_numbers_it_stands_for(name):
    X, y = prices(0)
    y[::20] *= 10.0
    transform = TRANSFORMS[name]
    inner = SelfPacedRegressor().fit(X, transform.of(y))
    model = SelfPacedRegressor(target_transform=name).fit(X, y)
    assert model.target_transform_ == name
    assert_array_equal(model.coef_, inner.coef_)
    assert_array_equal(model.weights_, inner.weights_)
    assert_array_equal(model.predict(X), transform.back(inner.predict(X)))
    assert_array_equal(model.predict_interval(X), transform.back(inner.predict_interval(X)))
    judged = inner.clean_probability(X, transform.of(y))
    assert_array_equal(model.clean_probability(X, y), judged)
    assert model.score(X, y) == pytest.approx(
        1 - np.sum((y - model.predict(X)) ** 2) / np.sum((y - y.mean()) ** 2)
    )


def test_intervals_hold_on_the_scale_of_y():
    X, y = prices(1, n=2000)
    X_new, y_new = prices(2, n=2000)
    low, high = SelfPacedRegressor(target_transform="log").fit(X, y).predict_interval(X_new).T
    assert 0.87 < np.mean((low <= y_new) & (y_new <= high)) < 0.93
    assert np.all(low > 0)


def test_suspects_have_the_units_of_y_and_fixes_on_both_sides():
    X, y = prices(3)
    y[10], y[20] = 10.0 * y[10], y[20] / 10.0
    found = SelfPacedRegressor(target_transform="log").fit(X, y).suspects(X, y)
    assert set(found["row_id"]) >= {10, 20}
    by_row = found.set_index("row_id")
    assert by_row.loc[10, "given_label"] == y[10]
    assert by_row.loc[10, "likely_fix"] == "divide by 10"
    assert by_row.loc[20, "likely_fix"] == "multiply by 10"
    assert by_row.loc[20, "fixed_value"] == pytest.approx(10 * y[20])
    assert by_row.loc[20, "residual"] < -5


def test_impossible_values_of_new_rows_look_wrong():
    X, y = prices(4)
    model = SelfPacedRegressor(target_transform="log").fit(X, y)
    new = y[:4].copy()
    new[:2] = 0.0, -new[1]
    assert_array_equal(model.clean_probability(X[:4], new) < 0.5, [True, True, False, False])
    found = model.suspects(X[:4], new)
    assert set(found["row_id"]) == {0, 1}
    assert np.all(np.isfinite(found["residual"]))
    assert found.set_index("row_id").loc[1, "likely_fix"] == "change the sign"


def test_a_target_without_a_logarithm_is_refused_with_its_rows():
    X, y = prices(5)
    y[[7, 9]] = 0.0, -3.0
    with pytest.raises(ValueError, match=r"needs y > 0, but 2 of 600 rows .*row 7, 9; .*is -3"):
        SelfPacedRegressor(target_transform="log").fit(X, y)
    y[9] = 1.0
    SelfPacedRegressor(target_transform="sqrt").fit(X, y)  # zero has a root
    assert SelfPacedRegressor(target_transform="auto").fit(X, y).target_transform_ is None


def test_rows_that_take_no_part_may_hold_anything():
    X, y = prices(6)
    absent = np.zeros(len(y), dtype=bool)
    absent[::50] = True
    broken = np.where(absent, -999.0, y)
    model = SelfPacedRegressor(target_transform="log").fit(X, broken, rejected=absent)
    other = SelfPacedRegressor(target_transform="log").fit(X, y, rejected=absent)
    assert_array_equal(model.coef_, other.coef_)
    weighted = SelfPacedRegressor(target_transform="log").fit(X, broken, sample_weight=~absent)
    assert_array_equal(weighted.coef_, other.coef_)


def test_trusted_rows_are_kept():
    X, y = prices(7)
    y[5] *= 10.0
    trusted = np.arange(len(y)) == 5
    model = SelfPacedRegressor(target_transform="log").fit(X, y, trusted=trusted)
    assert model.weights_[5] == 1.0


@pytest.mark.parametrize("engine", [Inline(), Threads(2)])
def test_batches_and_sources_give_the_same_bits(engine, tmp_path):
    pytest.importorskip("pyarrow", reason="needs the parquet extra")
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    X, y = prices(8, n=900)
    y[::30] *= 10.0
    frame = pd.DataFrame(X, columns=list("abcd")).assign(price=y)
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "rows.parquet", row_group_size=300)
    source = easyfirst.read_parquet(tmp_path / "rows.parquet", target="price", rows_per_batch=300)
    for name in ("log", "auto"):
        far = SelfPacedRegressor(target_transform=name, engine=engine).fit(source)
        near = SelfPacedRegressor(target_transform=name, n_batches=3).fit(X, y)
        assert far.target_transform_ == near.target_transform_ == "log"
        assert_array_equal(far.coef_, near.coef_)
    parts = list(far.weights_by_batch(source))
    assert_allclose(np.concatenate([each.prediction for each in parts]), near.predict(X))
    found = far.suspects(source).set_index("row_id")
    expected = near.suspects(X, y).set_index("row_id")
    assert set(found.index) == set(expected.index)
    assert_allclose(found["given_label"], expected.loc[found.index, "given_label"])
    paths = far.write_weights(source, folder=tmp_path / "weights")
    written = pd.concat([pd.read_parquet(path) for path in paths])
    assert_allclose(written["given_label"], y)
    residual = (np.log(y) - np.log(near.predict(X))) / near.noise_scale_
    assert_allclose(written["residual"], residual, atol=1e-9)


def test_a_bad_row_of_a_source_is_named(tmp_path):
    pd = pytest.importorskip("pandas", reason="needs pandas")
    X, y = prices(9, n=50)
    y[3] = -1.0
    frame = pd.DataFrame(X, columns=list("abcd")).assign(price=y, flat=[f"F{i}" for i in range(50)])
    source = read_frame(frame, target="price", row_id="flat")
    with pytest.raises(ValueError, match="row F3"):
        SelfPacedRegressor(target_transform="log").fit(source)


def test_other_schedules_fit_the_transformed_target_too():
    X, y = prices(10)
    model = SelfPacedRegressor.paper(target_transform="log", fit_intercept=True).fit(X, y)
    inner = SelfPacedRegressor.paper(fit_intercept=True).fit(X, np.log(y))
    assert_array_equal(model.coef_, inner.coef_)
    assert_array_equal(model.predict(X), np.exp(inner.predict(X)))
    with pytest.raises(ValueError, match="only the calibrated pace"):
        SelfPacedRegressor(target_transform="auto", pace=Quantile()).fit(X, y)
    with pytest.raises(ValueError, match="target_transform must be one of"):
        SelfPacedRegressor(target_transform="cube").fit(X, y)


def test_losses_with_a_link_need_no_transformation():
    X, y = prices(11)
    with pytest.raises(ValueError, match="log link"):
        SelfPacedRegressor(target_transform="log", loss=PoissonDeviance(), pace=Quantile()).fit(
            X, np.round(y)
        )


def test_model_files_keep_the_transformation(tmp_path):
    X, y = prices(12)
    model = SelfPacedRegressor(target_transform="auto").fit(X, y)
    model.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    assert again.target_transform_ == "log"
    assert again.get_params()["target_transform"] == "auto"
    assert_array_equal(again.predict(X), model.predict(X))
    assert again.notes_ == model.notes_
    assert clone(again).target_transform == "auto"


def test_scikit_learn_takes_it_over():
    X, y = prices(13)
    model = SelfPacedRegressor(target_transform="log").fit(X, y)
    plain = model.to_sklearn()
    assert isinstance(plain, TransformedTargetRegressor)
    assert_allclose(plain.predict(X), model.predict(X))
    with pytest.raises(TypeError, match="sqrt"):
        SelfPacedRegressor(target_transform="sqrt").fit(X, y).to_sklearn()


@pytest.mark.parametrize("seed", range(2))
def test_auto_takes_the_logarithm_of_prices(seed):
    X, y = prices(20 + seed)
    rng = np.random.default_rng(seed)
    wrong = rng.permutation(len(y))[:60]
    y[wrong] *= np.where(rng.random(60) < 0.5, 10.0, 0.1)
    model = SelfPacedRegressor(target_transform="auto").fit(X, y)
    assert model.target_transform_ == "log"
    assert "log(y) was fitted instead of y" in model.notes_[0]
    assert not model.selected_[wrong].any()
    assert np.sum(~model.selected_) <= wrong.size + 3


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["none", "times 10", "divided by 10", "uniform", "doubled"])
def test_auto_stays_with_a_target_that_is_right_as_it_is(kind, seed):
    X, y = heights(seed)
    rng = np.random.default_rng(seed)
    wrong = rng.permutation(len(y))[: 0 if kind == "none" else len(y) // 5]
    change = {
        "times 10": 10.0 * y[wrong],
        "divided by 10": 0.1 * y[wrong],
        "uniform": rng.uniform(0.1, 30.0, wrong.size),
        "doubled": 2.0 * y[wrong],
    }
    y[wrong] = change.get(kind, y[wrong])
    model = SelfPacedRegressor(target_transform="auto").fit(X, y)
    assert model.target_transform_ is None


def test_auto_judges_with_a_penalty_as_well():
    X, y = prices(30)
    model = SelfPacedRegressor(target_transform="auto", penalty=Ridge(0.1)).fit(X, y)
    assert model.target_transform_ == "log"


def test_a_fit_of_y_advises_the_logarithm_where_that_is_much_better(tmp_path):
    X, y = prices(31, noise=0.15)
    model = SelfPacedRegressor().fit(X, y)
    advice = [note for note in model.notes_ if "log(y)" in note]
    assert len(advice) == 1
    model.save(tmp_path / "model")
    assert load(tmp_path / "model")._advice == model._advice is not None
    assert "target_transform='log'" in advice[0]
    assert "% smaller" in advice[0]


def test_no_advice_where_there_is_nothing_to_gain():
    X, y = heights(31)
    assert SelfPacedRegressor().fit(X, y).notes_ == ()
    X, y = prices(32)
    assert not any("target_transform" in note for note in SelfPacedRegressor().fit(X, -y).notes_)
    log = SelfPacedRegressor().fit(X, np.log(y))  # the logarithm of a logarithm is no advice
    assert not any("target_transform" in note for note in log.notes_)


def test_report_and_summary_say_what_was_fitted():
    pytest.importorskip("matplotlib", reason="needs the plot extra")
    X, y = prices(33)
    y[::60] *= 10.0
    model = SelfPacedRegressor(target_transform="log").fit(X, y)
    text = str(model.summary())
    assert "Fitted:" in text
    assert "of log(y)" in text
    assert "log(y)" in model.report(X=X, y=y).html


@pytest.mark.parametrize("transform", [None, "log"])
def test_a_log_is_advised_only_where_none_was_fitted(transform):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (800, 2))
    y = np.exp(1.0 + X[:, 1] + 2.0 * np.abs(X[:, 0]) + 0.05 * rng.standard_normal(800))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SelfPacedRegressor(target_transform=transform).fit(X, y)
    said = " ".join([*model.doubts_, *model.notes_])
    assert "curved model" in said or "logarithm" in said
    assert ("fit log(y)" in said or "logarithm" in said) == (transform is None)
