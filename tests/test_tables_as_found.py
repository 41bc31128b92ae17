"""Tables as people hand them over: second headings, remarks on sheets, folders, odd signs."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from easyfirst.cli.group import easyfirst as command
from easyfirst.errors import NoSingleModelWarning
from easyfirst.tables import TableModel
from easyfirst.tables.errors import TableError
from easyfirst.tables.missing_codes import find_codes
from easyfirst.tables.reading import open_table


def flats(n=300, seed=5):
    """Flats with a rent that follows area and age, and ten times that in every 30th row."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"area": rng.uniform(20, 150, n).round(1), "age": rng.integers(1, 90, n)})
    frame["rent"] = (200 + 9 * frame["area"] - 2 * frame["age"] + rng.normal(0, 15, n)).round(2)
    frame.loc[::30, "rent"] = (10 * frame.loc[::30, "rent"]).round(2)
    return frame


def fitted(folder, data, *more):
    """Run the command, and return its messages, the summary and the suspicious rows."""
    out = folder / "run"
    arguments = ["fit", str(data), "-t", "rent", "-o", str(out), "--no-report", *more]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.stderr
    summary = json.loads((out / "summary.json").read_text("utf-8"))
    return done.stderr, summary, pd.read_csv(out / "suspects.csv")


@pytest.mark.parametrize("line", [1, 150], ids=["units below the heading", "a heading again"])
def test_a_second_heading_is_a_wrong_row_and_the_rest_is_fitted(tmp_path, line):
    lines = flats().to_csv(index=False).splitlines()
    second = "m2,years,EUR" if line == 1 else lines[0]
    (tmp_path / "a.csv").write_text("\n".join([*lines[:line], second, *lines[line:]]) + "\n")
    _, summary, found = fitted(tmp_path, tmp_path / "a.csv")
    assert summary["rows"] == {
        "read": 301,
        "without_target": 0,
        "with_wrong_target": 1,
        "fitted": 300,
        "look_wrong": 10,
    }
    assert found.loc[found["line"] == line + 1, "reason"].str.contains("is not a number").all()


def test_lines_of_a_sheet_are_those_that_the_spreadsheet_shows(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    frame = flats()
    book = openpyxl.Workbook()
    book.active.title = "Read me"
    book.active.append(["The rents are on the next sheet"])
    book.active.append(["Ask the office about them"])
    sheet = book.create_sheet("Rents")
    sheet["A1"] = "Rents of 2024"
    sheet["A3"], sheet["B3"], sheet["C3"] = frame.columns
    for row in frame.to_numpy().tolist():
        sheet.append(row)
    book.save(tmp_path / "a.xlsx")
    messages, _, found = fitted(tmp_path, tmp_path / "a.xlsx")
    assert "sheet 'Rents' of 2 read" in messages
    assert "1 line before the names" in messages
    assert sorted(found["line"]) == [4 + 30 * i for i in range(10)]
    rents = [float(sheet.cell(line, 3).value) for line in found["line"]]
    assert rents == found["given_label"].tolist()


def test_rows_of_several_files_are_named_by_file_and_line(tmp_path):
    frame = flats()
    (tmp_path / "in").mkdir()
    frame[:150].to_csv(tmp_path / "in" / "a.csv", index=False)
    frame[150:].to_csv(tmp_path / "in" / "b.csv", index=False)
    _, _, found = fitted(tmp_path, tmp_path / "in")
    assert len(found) == 10
    for name, line, given in zip(found["file"], found["line"], found["given_label"], strict=True):
        with open(name, encoding="utf-8") as file:
            assert file.readlines()[line - 1].endswith(f",{given}\n")


def test_a_file_with_many_wrong_rows_is_a_pattern(tmp_path):
    frame = flats(600).assign(rent=lambda f: 200 + 9 * f["area"] - 2 * f["age"])
    frame["rent"] += np.random.default_rng(1).normal(0, 15, 600)
    frame.loc[400::5, "rent"] += np.linspace(500, 900, 40)
    (tmp_path / "in").mkdir()
    for number, name in enumerate(("a.csv", "b.csv", "c.csv")):
        frame[200 * number : 200 * (number + 1)].to_csv(tmp_path / "in" / name, index=False)
    _, summary, _ = fitted(tmp_path, tmp_path / "in")
    words = " ".join(each["words"] for each in summary["patterns"])
    assert "rows with file = c.csv look wrong" in words


def test_semicolons_decide_that_points_mark_thousands(tmp_path):
    (tmp_path / "a.csv").write_text("rooms;price\n2;1.250\n3;2.480\n1;1.100\n")
    table = open_table(tmp_path / "a.csv").table
    frame = pd.DataFrame({"rooms": range(40), "price": [f"{n}.250" for n in range(1, 41)]})
    frame.to_csv(tmp_path / "b.csv", sep=";", index=False)
    assert table.schema.metadata == {b"easyfirst.delimiter": b";"}
    model = TableModel("price")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(open_table(tmp_path / "b.csv", all_text=True).table)
    assert model.predict(pd.DataFrame({"rooms": ["7"]})) == pytest.approx(8250)


def test_the_line_of_a_broken_record_counts_empty_lines_and_breaks_in_values(tmp_path):
    (tmp_path / "a.csv").write_text('a,b\n1,2\n\n"x\ny",4\n\n5,6,7\n')
    with pytest.raises(TableError, match="line 7: 3 values where the heading has 2 names"):
        open_table(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (lambda v: f"<{v}", "such as '<5.0' read as 5, an upper limit"),
        (lambda v: f"~{v}", "such as '~5.0' read as 5"),
        (lambda v: f"({v})", "such as '(5.0)' read as -5, negative as in accounts"),
        (lambda v: f"{v} m²", "295 values without a unit taken alike"),
    ],
)
def test_what_a_sign_or_a_unit_in_a_few_values_means_is_said(text, said):
    frame = flats()
    area = frame["area"].astype(str)
    area[:5] = [text(v) for v in (5.0, 6.0, 7.0, 8.0, 9.0)]
    model = TableModel("rent").fit(frame.assign(area=area))
    assert any(said in note for note in model.notes_)


def test_shares_beside_percents_are_not_taken_for_percents():
    frame = flats()
    share = np.random.default_rng(2).uniform(0, 1, 300).round(3)
    frame["let"] = [f"{100 * v:.1f}%" if i % 2 else f"{v}" for i, v in enumerate(share)]
    model = TableModel("rent").fit(frame)
    (left,) = model.recipe_.left_out
    assert left.reason.startswith("mixes the units '%', 'none'")
    frame["let"] = [f"{100 * v:.1f}%" if i % 2 else f"{100 * v:.1f}" for i, v in enumerate(share)]
    assert not TableModel("rent").fit(frame).recipe_.left_out


def test_two_ways_of_writing_numbers_are_named():
    frame = flats()
    ways = [f"{1000 + v:,.2f}" for v in frame["rent"]]
    ways[::2] = [text.translate(str.maketrans(",.", ".,")) for text in ways[::2]]
    with pytest.raises(TableError, match=r"writes numbers in two ways, '.*' and '.*'; write all"):
        TableModel("rent").fit(frame.assign(rent=ways))
    (left,) = TableModel("rent").fit(frame.assign(price=ways)).recipe_.left_out
    assert left.reason.startswith("writes numbers in two ways")


def test_minus_one_is_a_code_beside_counts_that_begin_at_zero():
    rng = np.random.default_rng(3)
    ages = rng.integers(0, 90, 400).astype(float)
    assert find_codes(ages) == ()
    ages[rng.random(400) < 0.06] = -1.0
    assert find_codes(ages) == (-1.0,)
    changes = np.rint(rng.normal(0, 3, 400))
    assert find_codes(changes) == ()


@pytest.mark.parametrize("seed", range(3))
def test_filled_in_values_are_not_taken_for_a_second_model(seed):
    frame = flats(400, seed).astype({"age": float})
    frame["rent"] -= 8 * frame["age"]
    frame.loc[np.random.default_rng(seed).random(400) < 0.09, "age"] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TableModel("rent").fit(frame)


def test_the_summary_counts_the_rows_that_suspects_lists():
    # A long tail of areas, next to no noise: the fit rejects some rows whose area is missing.
    frame = flats(600).astype({"area": float})
    frame["area"] = np.exp(frame["area"] / 30)
    rent = 200 + 9 * frame["area"] + np.random.default_rng(0).normal(0, 1, 600)
    frame["rent"] = rent.where(frame.index % 30 > 0, 10 * rent)
    frame.loc[::29, "area"] = np.nan
    model = TableModel("rent").fit(frame)
    counted = model.summary().header()["Rows that look wrong"]
    assert counted.split()[0] == str(len(model.suspects(frame)))
    assert int(np.sum(model.regressor_.weights_ < 0.5)) > len(model.suspects(frame))


@pytest.mark.parametrize("seed", range(3))
def test_unit_mistakes_of_one_branch_are_not_blamed_on_the_model(seed):
    rng = np.random.default_rng(seed)
    frame = flats(2000, seed)
    frame["rent"] = 200 + 9 * frame["area"] - 2 * frame["age"] + rng.normal(0, 15, 2000)
    frame["branch"] = rng.choice(list("abcdefgh"), 2000)
    curved = frame.assign(rent=frame["rent"].where(frame["branch"] != "c", frame["area"] ** 2))
    slipped = frame["branch"].eq("c") & (rng.random(2000) < 0.5)
    frame.loc[slipped, "rent"] *= 10
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = TableModel("rent").fit(frame)
    assert not model.regressor_.doubts_
    assert set(model.suspects(frame)["row_id"]) >= set(np.flatnonzero(slipped))
    with pytest.warns(NoSingleModelWarning):
        TableModel("rent").fit(curved)


def test_a_category_of_a_whole_paragraph_does_not_fill_the_screen(tmp_path):
    frame = flats()
    frame["remark"] = [f"{'very ' * 30}{'nice' if i % 2 else 'loud'}" for i in range(300)]
    frame.to_csv(tmp_path / "a.csv", index=False)
    done = CliRunner().invoke(
        command,
        ["fit", str(tmp_path / "a.csv"), "-t", "rent", "-o", str(tmp_path / "run"), "--no-report"],
    )
    assert "remark=very very" in done.stdout
    assert "loud" in done.stdout or "nice" in done.stdout
    assert done.stdout.count("very") < 20
