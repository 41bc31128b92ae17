"""Tables whose target holds classes: recognised, fitted, judged, reviewed, fixed."""

import json
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner
from sklearn.base import is_classifier

import easyfirst
from easyfirst.cli.group import easyfirst as command
from easyfirst.review.groups import find_groups
from easyfirst.review.neighbours import Neighbours
from easyfirst.review.rows import SuspectRows
from easyfirst.review.session import ReviewSession
from easyfirst.tables import TableClassifier, TableError, TableModel
from easyfirst.tables.decisions import DecisionLog, read_decisions
from easyfirst.tables.kinds import table_hints
from easyfirst.tables.labels import is_classes, misspellings
from easyfirst.tables.targets import TargetWarning

N = 400
FLIPPED = np.arange(0, N, 10)


def trees(n=N):
    """Trees of two kinds, told apart by their height, every tenth with the wrong label."""
    rng = np.random.default_rng(0)
    pine = rng.random(n) < 0.5
    height = np.where(pine, 30.0, 10.0) + rng.normal(0, 2, n)
    wrong = np.isin(np.arange(n), FLIPPED)
    kind = np.where(pine != wrong, "pine", "birch")
    return pd.DataFrame(
        {"tree": [f"T{i:03d}" for i in range(n)], "height": height.round(2), "kind": kind}
    )


@pytest.fixture(scope="module")
def model():
    return TableClassifier("kind", row_id="tree").fit(trees())


def run(*arguments, code=0):
    done = CliRunner().invoke(command, [str(each) for each in arguments])
    assert done.exit_code == code, done.output
    return done


@pytest.mark.parametrize(
    ("target", "classes"),
    [
        (["pine", "birch", "oak"] * 20, True),
        (["yes", "no"] * 30, True),
        ([True, False] * 30, True),
        ([0, 1] * 30, True),
        ([0.0, 1.0, None] * 20, True),
        (["0", "1"] * 30, True),
        ([0, 1, -999] * 20, True),
        ([0, 1, 2] * 20, False),
        ([1.0, 2.0, 2.0], False),
        ([f"person {i}" for i in range(60)], False),
        (["1.5", "2.5", "3.5", "x1"] * 15, False),
        (["1 kg", "2 lb"] * 30, False),
        (["2024-01-31", "2024-02-01"] * 30, False),
        ([None] * 60, False),
    ],
)
def test_words_and_two_values_are_classes_and_numbers_names_and_dates_are_not(target, classes):
    table = pa.table({"y": target})
    assert is_classes(table, "y", table_hints(table)) is classes


def test_wrong_labels_are_found_and_named_by_the_column_of_ids(model):
    found = model.suspects(trees())
    names = trees()["tree"]
    assert len(set(found["row_id"]) & set(names[FLIPPED])) >= 0.9 * FLIPPED.size
    assert len(found) <= 1.1 * FLIPPED.size
    assert set(found["likely_fix"]) == {"relabel as pine", "relabel as birch"}
    assert model.score(trees()) == pytest.approx(0.9, abs=0.02)
    assert is_classifier(model)


def test_a_file_keeps_the_model_and_what_it_thinks_of_its_rows(model, tmp_path):
    model.save(tmp_path / "m.safetensors")
    again = easyfirst.load(tmp_path / "m.safetensors", TableClassifier)
    pd.testing.assert_frame_equal(again.suspects(trees()), model.suspects(trees()))
    assert again.predict(trees()).tolist() == model.predict(trees()).tolist()
    assert again.predict(trees().head(0)).tolist() == []


def test_labels_that_the_fit_has_not_seen_are_wrong_and_capitals_do_not_matter(model):
    new = trees().head(4).assign(kind=["PINE ", "spruce", None, "birch"], height=[31, 9, 30, 31])
    found = model.suspects(new).set_index("row_id")
    assert found.loc["T001", "reason"] == "'spruce' is not a class that the model has seen"
    assert found.loc["T001", "predicted_label"] == "birch"
    assert "T000" not in found.index
    assert found.loc["T003", "predicted_label"] == "pine"


def test_spellings_are_united_and_slips_of_the_pen_are_not_fitted():
    frame = trees()
    frame["kind"] = frame["kind"].replace({"birch": "paper birch"})
    frame.loc[5:8, "kind"] = frame["kind"].str.upper()
    frame.loc[11, "kind"] = "paper brich"
    model = TableClassifier("kind", row_id="tree").fit(frame)
    assert model.classes_.tolist() == ["paper birch", "pine"]
    assert any("taken as one class" in note for note in model.notes_)
    found = model.suspects(frame).set_index("row_id")
    assert found.loc["T011", "reason"].endswith("looks like a misspelling of 'paper birch'") or (
        found.loc["T011", "fixed_value"] in ("paper birch", "pine")
    )


def test_numbers_that_mean_missing_are_no_class():
    frame = trees()
    frame["kind"] = np.where(frame["kind"] == "pine", 1, 0)
    frame.loc[::7, "kind"] = -999
    model = TableClassifier("kind", row_id="tree").fit(frame)
    assert model.classes_.tolist() == ["0", "1"]
    assert any("-999 (58 rows) taken as a missing label" in note for note in model.notes_)
    assert "T007" not in set(model.suspects(frame, top=N)["row_id"])


@pytest.mark.parametrize("rare", ["atypical", "grade 2", "femail", "B", "berlni"])
def test_only_a_slip_inside_a_long_word_is_a_misspelling(rare):
    labels = ["typical"] * 50 + ["grade 1"] * 50 + ["male"] * 50 + ["A"] * 50
    labels += ["berlin"] * 50 + [rare]
    meant = {"berlni": "berlin"}.get(rare)
    assert misspellings(np.array(labels, dtype=object)).get(rare) == meant


def test_a_column_that_gives_the_labels_away_is_named():
    frame = trees()
    frame["code"] = np.where(frame["kind"] == "pine", 1, 2)
    with pytest.warns(TargetWarning, match="'code' reproduces the labels exactly of 'kind'"):
        TableClassifier("kind", row_id="tree").prepare(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TableClassifier("kind", row_id="tree").prepare(trees())


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (["pine"] * N, "has the value 'pine' in all 400 rows"),
        ([f"tree {i}" for i in range(N)], "400 different values in 400 rows, too many"),
        ([None] * N, "no row has a value of the target"),
    ],
)
def test_labels_that_make_no_sense_are_refused(kind, message):
    with pytest.raises(TableError, match=message):
        TableClassifier("kind").fit(trees().assign(kind=pd.Series(kind, dtype=object)))


def test_a_run_on_labels_from_fit_to_decisions(tmp_path):
    data, folder = tmp_path / "trees.csv", tmp_path / "run"
    trees().to_csv(data, index=False)
    done = run("fit", data, "-t", "kind", "--row-id", "tree", "-o", folder, "--json")
    summary = json.loads((folder / "summary.json").read_text())
    assert "'kind' holds 2 classes" in done.output
    assert summary["task"] == "classification"
    assert summary["classes"] == ["birch", "pine"]
    assert summary["rows"]["look_wrong"] == pytest.approx(FLIPPED.size, abs=4)
    page = (folder / "report.html").read_text(encoding="utf-8")
    for text in ("trees.csv", "of 400 labels look wrong", "What was done to each column"):
        assert text in page
    predicted = run("predict", folder, data, "-q").output.splitlines()
    assert predicted[0] == '"row_id","prediction","probability"'
    assert len(predicted) == N + 1
    assert "omit it" in run("predict", folder, data, "--interval", "0.9", code=2).output
    assert "classes:                   birch, pine" in run("inspect", folder).output
    assert "unchanged" in run("diff", folder, folder).output
    run("suspects", folder, data, "--fail-above", "5%", code=6)

    flagged = pd.read_csv(folder / "suspects.csv")
    fixed = flagged[flagged["line"] == 12].iloc[0]  # row 10, one of the wrong labels
    (folder / "decisions.csv").write_text(
        "row,row_id,decision,given,fixed_value,fix,decided_at\n"
        f"10,T010,fix,{fixed['given_label']},{fixed['fixed_value']},relabel,\n"
        f"20,T020,wrong,{trees()['kind'][20]},,,\n"
    )
    run("apply", folder, "-o", tmp_path / "fixed.csv", "-q")
    before, after = data.read_text().splitlines(), (tmp_path / "fixed.csv").read_text().splitlines()
    assert len(after) == len(before) - 1
    changed = [(a, b) for a, b in zip(before[:20], after[:20], strict=True) if a != b]
    expected = before[11].replace(fixed["given_label"], fixed["fixed_value"])
    assert changed == [(before[11], expected)]
    again = tmp_path / "again"
    decisions = folder / "decisions.csv"
    more = ("-t", "kind", "--row-id", "tree", "--decisions", decisions, "--no-report", "-o", again)
    done = run("fit", data, *more)
    assert "1 row trusted, 1 of them with a fixed value" in " ".join(done.output.split())


@pytest.mark.parametrize("option", [["--log-target"], ["--model", "boosting"]])
def test_options_for_numbers_are_refused_with_the_way_out(option, tmp_path):
    data = tmp_path / "trees.csv"
    trees().to_csv(data, index=False)
    done = run("fit", data, "-t", "kind", "-o", tmp_path / "run", *option, code=3)
    assert "holds classes" in done.output
    assert "--task regression" in done.output
    done = run("fit", data, "-t", "kind", "-o", tmp_path / "run", "--task", "regression", code=3)
    assert "--task classification" in done.output


def test_a_review_of_labels_shows_groups_and_saves_labels(model, tmp_path):
    table = pa.Table.from_pandas(trees(), preserve_index=False)
    places, found = model.suspects_with_places(table)
    rows = SuspectRows(found, places, table, "kind")
    titles = {group.title for group in find_groups(rows)}
    assert "Likely fix: relabel as pine" in titles
    shown = rows.shown([0])[0]
    assert (shown["given"], shown["predicted"], shown["residual"]) == (
        found["given_label"][0].as_py(),
        found["predicted_label"][0].as_py(),
        "",
    )
    beside = Neighbours(model, rows).beside(0)
    assert {each["predicted"] for each in beside["nearest"]} <= {"pine", "birch"}
    for sort in ("given", "predicted", "residual", "fix"):
        assert sorted(rows.order(sort).tolist()) == list(range(len(rows)))
    with DecisionLog(tmp_path / "decisions.csv") as log:
        session = ReviewSession(rows, log)
        session.decide([0], "fix")
        session.decide([1], "wrong")
    made = read_decisions(tmp_path / "decisions.csv", of_labels=True)
    first = made[int(places[0])]
    assert (first.given, first.fixed) == (shown["given"], shown["predicted"])


def test_the_regression_says_how_to_fit_classes():
    with pytest.raises(TableError, match="TableClassifier"):
        TableModel("kind").fit(trees())
