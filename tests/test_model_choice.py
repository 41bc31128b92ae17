"""The model of a table: linear, gradient boosting, or the better of the two."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from easyfirst import SelfPaced, SelfPacedRegressor
from easyfirst.cli.group import easyfirst as main
from easyfirst.tables import TableModel
from easyfirst.tables.errors import TableError


def table(curved, n=500, n_wrong=15):
    rng = np.random.default_rng(0)
    wave, city = rng.uniform(0.0, 6.0, n), rng.choice(["Ulm", "Bonn"], n)
    truth = 8.0 * np.sin(2.0 * wave) if curved else 3.0 * wave
    price = 50.0 + truth + 5.0 * (city == "Bonn") + 0.5 * rng.standard_normal(n)
    price[:n_wrong] *= 10.0
    return pd.DataFrame({"wave": wave, "city": city, "price": price})


def test_a_curve_is_taken_where_it_is_clearly_better_and_says_so():
    frame = table(curved=True)
    model = TableModel("price", model="auto").fit(frame)
    assert isinstance(model.regressor_, SelfPaced)
    assert any("A curved model (gradient boosting) was taken" in note for note in model.notes_)
    suspects = model.suspects(frame)
    assert set(range(15)) <= set(suspects["row_id"])
    assert len(suspects) < 30
    assert model.predict(frame).shape == (500,)
    assert np.all(np.diff(model.predict_interval(frame), axis=1) > 0)
    with pytest.raises(AttributeError, match="no coefficients"):
        model.confidence_intervals()


def test_a_line_is_kept_where_it_will_do():
    model = TableModel("price", model="auto").fit(table(curved=False))
    assert isinstance(model.regressor_, SelfPacedRegressor)
    assert any("The linear model was kept" in note for note in model.notes_)


def test_what_is_no_kind_of_model_is_refused():
    with pytest.raises(TableError, match="model must be one of 'linear', 'boosting', 'auto'"):
        TableModel("price", model="deep").fit(table(curved=False, n=50))


def test_the_command_fits_boosting(tmp_path):
    frame = table(curved=True)
    frame.loc[40:60, "wave"] = np.nan
    frame.to_csv(tmp_path / "data.csv", index=False)
    command = ["fit", str(tmp_path / "data.csv"), "-t", "price", "-o", str(tmp_path / "run")]
    done = CliRunner().invoke(main, [*command, "--model", "boosting", "--json"])
    assert done.exit_code == 0, done.output
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["coefficients"] == []
    assert 12 <= summary["rows"]["look_wrong"] <= 40
    assert not (tmp_path / "run" / "model.safetensors").exists()
    assert any("was not written" in note for note in summary["notes"])
    assert (tmp_path / "run" / "suspects.csv").exists()
    refused = CliRunner().invoke(main, [*command, "--model", "boosting", "--ridge", "1"])
    assert refused.exit_code == 2
    assert "are for linear models" in refused.output


def test_the_command_prints_what_a_curved_model_found(tmp_path):
    table(curved=True, n=300).to_csv(tmp_path / "data.csv", index=False)
    command = ["fit", str(tmp_path / "data.csv"), "-t", "price", "-o", str(tmp_path / "run")]
    done = CliRunner().invoke(main, [*command, "--model", "auto"])
    assert done.exit_code == 0, done.output
    assert "A curved model (gradient boosting) was taken" in " ".join(done.output.split())
    assert "rows that look wrong" in done.output
    assert "Coefficients" not in done.output
