"""Decisions put to use: a fit that knows them, and a table that is fixed and otherwise the same."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import easyfirst
import hostile
import review_sessions
from easyfirst.cli.group import easyfirst as command
from easyfirst.tables.cells import rewritten
from easyfirst.tables.csv_records import CsvText
from easyfirst.tables.decisions import Decision, DecisionLog


def run(*arguments, code=0):
    done = CliRunner().invoke(command, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    return done


def fitted(data, folder, *more):
    run("fit", data, "-t", "rent", "--row-id", "flat", "--no-report", "-q", "-o", folder, *more)
    return json.loads((folder / "summary.json").read_text())


def decide(folder, *decisions):
    with DecisionLog(folder / "decisions.csv") as log:
        log.add(decisions)


def numbered(n=200):
    """Flats as text lines, the rent of every fifth ten times too high, and the rents."""
    table = review_sessions.flats(n)
    pairs = zip(table["flat"].to_pylist(), table["area"].to_pylist(), strict=True)
    rents = [round(value, 2) for value in table["rent"].to_pylist()]
    return list(pairs), rents


# Cells


@pytest.mark.parametrize(
    ("cell", "old", "new", "changed"),
    [
        ("420", 420, 42, "42"),
        ("4208.25", 4208.25, 420.825, "420.825"),
        ("1,234,567.5", 1234567.5, 123456.75, "123,456.75"),
        ("1.234.567,5", 1234567.5, 123456.75, "123.456,75"),
        ("1'234", 1234, 12340, "12'340"),
        ("1 234 kg", 1234, 12340, "12 340 kg"),
        ("\u22125", -5, 5, "5"),
        ("1e3", 1000, 100, "100"),
        ("€ 5", 5, 0.5, "€ 0.5"),
        ("50 %", 0.5, 0.05, "5 %"),
        ("12k", 12000, 1200, "1.2k"),
        ("0.1", 0.1, 1e-7, "0.0000001"),
        ("7", 7, 1e15, "1000000000000000"),
        ("(3) 42", 42, 4.2, "(3) 4.2"),
        ("abc", 4, 5, None),
        ("41", 42, 5, None),
    ],
)
def test_a_number_is_replaced_in_the_notation_of_its_cell(cell, old, new, changed):
    assert rewritten(cell, old, new) == changed


# CSV, byte by byte


def csv_cases():
    pairs, rents = numbered()
    german = [f"{rent:.2f}".replace(".", ",") for rent in rents]
    dollars = [f'"${rent:,.2f}"' for rent in rents]
    plain = [f"{name},{area},{rent:.2f}" for (name, area), rent in zip(pairs, rents, strict=True)]
    yield "plain", "flat,area,rent\n" + "\n".join(plain) + "\n", "utf-8"
    yield "without a last line end", "flat,area,rent\n" + "\n".join(plain), "utf-8"
    yield "of Windows", "\ufeffflat,area,rent\r\n" + "\r\n".join(plain) + "\r\n", "utf-8"
    yield "with empty lines", "flat,area,rent\n\n" + "\n\n".join(plain) + "\n\n\n", "utf-8"
    lines = [
        f'"{name}";"über ""dem"" Tor;\n2. Stock";{str(area).replace(".", ",")};{rent}'
        for (name, area), rent in zip(pairs, german, strict=True)
    ]
    text = "flat;Lage;area;rent\n" + "\n".join(lines) + "\n"
    yield "German, with line breaks in quotes", text, "utf-8"
    yield "in Latin 1", text, "latin-1"
    lines = [f"{rent},{name},{area}" for (name, area), rent in zip(pairs, dollars, strict=True)]
    yield "in dollars", "rent,flat,area\n" + "\n".join(lines) + "\n", "utf-8"
    yield "with a title", "Flats of 2024\n\nrent,flat,area\n" + "\n".join(lines) + "\n", "utf-8"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [pytest.param(text, encoding, id=name) for name, text, encoding in csv_cases()],
)
def test_only_fixed_cells_and_wrong_rows_change(tmp_path, text, encoding):
    data, folder = tmp_path / "flats.csv", tmp_path / "run"
    data.write_bytes(text.encode(encoding))
    options = ["--encoding", encoding]
    fitted(data, folder, *options)
    _, rents = numbered()
    fixed, wrong = [5, 20, 195], [0, 10, 199]
    fixes = [Decision(r, "fix", f"F{r:04d}", rents[r], rents[r] / 10, "x") for r in fixed]
    decide(folder, *fixes, *(Decision(r, "wrong", f"F{r:04d}", rents[r]) for r in wrong))
    output = tmp_path / "fixed.csv"
    done = run("apply", folder, data, "-o", output, *options)
    assert "3 rows fixed, 3 wrong rows left out" in done.stderr
    before, after = text, output.read_bytes().decode(encoding)
    for row in fixed:
        old = next(s for s in _notations(rents[row]) if s in before)
        decimal = "," if old.rstrip("0123456789").endswith(",") else "."
        new = f"{rents[row] / 10:.12g}".replace(".", decimal)
        if "," in old and "." in old:
            new = f"{rents[row] / 10:,.3f}".rstrip("0")
        assert before.count(old) == 1
        before = before.replace(old, new)
    cut = CsvText.cut(
        before, easyfirst.tables.read_table(output, _form(encoding)).column_names, len(rents), None
    )
    expected = cut.with_cells({}, set(wrong))
    assert after == expected
    run("apply", folder, data, "-o", output, "--keep-wrong", "--force", *options)
    assert output.read_bytes().decode(encoding) == before


def _form(encoding):
    return easyfirst.tables.TableFormat(encoding=encoding)


def _notations(value):
    return f"{value:,.2f}", f"{value:.2f}", f"{value:.2f}".replace(".", ",")


def test_a_packed_file_stays_packed(tmp_path):
    pairs, rents = numbered()
    lines = [f"{name},{area},{rent:.2f}" for (name, area), rent in zip(pairs, rents, strict=True)]
    text = "flat,area,rent\n" + "\n".join(lines) + "\n"
    (tmp_path / "flats.csv.gz").write_bytes(gzip.compress(text.encode()))
    fitted(tmp_path / "flats.csv.gz", tmp_path / "run")
    decide(tmp_path / "run", Decision(5, "fix", "F0005", rents[5], 1.5))
    run("apply", tmp_path / "run", tmp_path / "flats.csv.gz", "-o", tmp_path / "fixed.csv.gz")
    found = gzip.decompress((tmp_path / "fixed.csv.gz").read_bytes()).decode()
    assert found == text.replace(f"{rents[5]:.2f}", "1.5")


def test_a_cell_that_does_not_hold_the_number_stops_everything(tmp_path):
    data, folder = tmp_path / "flats.csv", tmp_path / "run"
    pa_csv.write_csv(review_sessions.flats(), data)
    fitted(data, folder)
    rent = review_sessions.flats()["rent"][5].as_py()
    decide(folder, Decision(5, "fix", "F0005", rent, rent / 10, "swap with area"))
    done = run("apply", folder, data, "-o", tmp_path / "fixed.csv", code=3)
    assert "row 5 of 'area' holds" in done.stderr
    assert not (tmp_path / "fixed.csv").exists()


# Other formats


def test_parquet_keeps_values_and_types(tmp_path):
    table = review_sessions.flats()
    whole = pa.array(np.rint(table["rent"].to_numpy()).astype(np.int32))
    table = table.set_column(3, "rent", whole).append_column(
        "day", pa.array([None] * 200, pa.date32())
    )
    pq.write_table(table, tmp_path / "flats.parquet")
    folder = tmp_path / "run"
    fitted(tmp_path / "flats.parquet", folder)
    old = float(whole[5].as_py())
    decide(folder, Decision(5, "fix", "F0005", old, 77.0), Decision(10, "wrong", "F0010"))
    run("apply", folder, tmp_path / "flats.parquet", "-o", tmp_path / "fixed.parquet")
    found = pq.read_table(tmp_path / "fixed.parquet")
    assert found.schema.equals(table.schema)
    values = table.to_pylist()
    values[5]["rent"] = 77
    assert found.to_pylist() == values[:10] + values[11:]
    decide(folder, Decision(5, "fix", "F0005", old, 77.5))
    run("apply", folder, tmp_path / "flats.parquet", "-o", tmp_path / "fixed.parquet", "--force")
    assert pq.read_table(tmp_path / "fixed.parquet")["rent"][5].as_py() == 77.5


def test_another_format_is_written_from_the_values(tmp_path):
    data, folder = tmp_path / "flats.csv", tmp_path / "run"
    pa_csv.write_csv(review_sessions.flats(), data)
    fitted(data, folder)
    decide(folder, Decision(0, "wrong", "F0000"))
    run("apply", folder, data, "-o", tmp_path / "fixed.parquet")
    assert pq.read_table(tmp_path / "fixed.parquet").num_rows == 199


# Rows found again


def test_rows_are_found_by_name_when_they_have_moved(tmp_path):
    table, folder = review_sessions.flats(), tmp_path / "run"
    pa_csv.write_csv(table, tmp_path / "flats.csv")
    fitted(tmp_path / "flats.csv", folder)
    rent = table["rent"][5].as_py()
    decide(folder, Decision(5, "fix", "F0005", rent, 99.5))
    pa_csv.write_csv(table.slice(3), tmp_path / "later.csv")
    run("apply", folder, tmp_path / "later.csv", "-o", tmp_path / "fixed.csv")
    found = easyfirst.tables.read_table(tmp_path / "fixed.csv")
    assert found["rent"][2].as_py() == 99.5
    assert found["rent"].to_pylist()[3:] == table["rent"].to_pylist()[6:]


@pytest.mark.parametrize("name", ["=1+1", "two\nlines", '"quoted"', "<b>", "Zoë"])
def test_rows_of_any_name_are_found(tmp_path, name):
    names = [f"F{i}" for i in range(200)]
    names[5] = name
    assert name in ("two\nlines", '"quoted"', "<b>", "Zoë", *hostile.NAMES) or name == "=1+1"
    table, folder = review_sessions.flats(names=names), tmp_path / "run"
    pa_csv.write_csv(table, tmp_path / "flats.csv")
    fitted(tmp_path / "flats.csv", folder)
    decide(folder, Decision(150, "wrong", name, table["rent"][5].as_py()))
    run("apply", folder, tmp_path / "flats.csv", "-o", tmp_path / "fixed.csv")
    left = easyfirst.tables.read_table(tmp_path / "fixed.csv")["flat"].to_pylist()
    assert left == names[:5] + names[6:]


def test_a_value_that_changed_since_is_left_alone_and_said(tmp_path):
    table, folder = review_sessions.flats(), tmp_path / "run"
    pa_csv.write_csv(table, tmp_path / "flats.csv")
    fitted(tmp_path / "flats.csv", folder)
    rents = table["rent"].to_pylist()
    kept = [Decision(row, "wrong", f"F{row:04d}", rents[row]) for row in (5, 10)]
    decide(folder, *kept, Decision(15, "wrong", "F0015", 123.0))
    done = run("apply", folder, tmp_path / "flats.csv", "-o", tmp_path / "fixed.csv")
    assert "row 'F0015' holds" in done.stderr
    assert "held 123 when it was decided" in done.stderr
    assert easyfirst.tables.read_table(tmp_path / "fixed.csv").num_rows == 198


def test_decisions_about_another_table_are_refused(tmp_path):
    folder = tmp_path / "run"
    pa_csv.write_csv(review_sessions.flats(), tmp_path / "flats.csv")
    fitted(tmp_path / "flats.csv", folder)
    decide(folder, *(Decision(row, "wrong", f"F{row:04d}", 1.0) for row in range(5)))
    done = run("apply", folder, tmp_path / "flats.csv", "-o", tmp_path / "fixed.csv", code=3)
    assert "are about another table" in done.stderr
    done = run("apply", tmp_path / "run", "-o", tmp_path / "fixed.txt.xyz", code=5)
    assert "must end in" in done.stderr


def test_a_run_without_decisions_says_so(tmp_path):
    pa_csv.write_csv(review_sessions.flats(), tmp_path / "flats.csv")
    fitted(tmp_path / "flats.csv", tmp_path / "run")
    done = run("apply", tmp_path / "run", "-o", tmp_path / "fixed.csv", code=3)
    assert "decisions.csv cannot be read" in done.stderr


# A fit that knows decisions


def two_models(path, seed=0, n=600):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 10, n).round(3)
    is_ours = rng.random(n) < 0.5
    rent = (np.where(is_ours, 5 + 3 * x, 40 - 2 * x) + 0.1 * rng.standard_normal(n)).round(3)
    table = pa.table({"flat": [f"F{i}" for i in range(n)], "x": x, "rent": rent})
    pa_csv.write_csv(table, path)
    return rent, np.flatnonzero(is_ours), np.flatnonzero(~is_ours)


def slope(summary):
    return next(each["coef"] for each in summary["coefficients"] if each["name"] == "x")


def test_rows_decided_to_be_right_tell_the_fit_which_model_is_meant(tmp_path):
    rent, ours, theirs = two_models(tmp_path / "flats.csv")
    for rows, expected in ((ours, 3.0), (theirs, -2.0)):
        folder = tmp_path / f"run{expected}"
        folder.mkdir()
        decide(folder, *(Decision(int(r), "right", f"F{r}", float(rent[r])) for r in rows[:6]))
        summary = fitted(tmp_path / "flats.csv", folder, "--decisions", folder / "decisions.csv")
        assert slope(summary) == pytest.approx(expected, abs=0.02)
        assert summary["notes"][0].startswith("decisions: 6 rows trusted, 0 of them with a fixed")
        assert (folder / "decisions.csv").exists()


def test_rows_decided_to_be_wrong_take_no_part(tmp_path):
    rent, _, theirs = two_models(tmp_path / "flats.csv")
    folder = tmp_path / "run"
    folder.mkdir()
    decide(folder, *(Decision(int(r), "wrong", f"F{r}", float(rent[r])) for r in theirs))
    summary = fitted(tmp_path / "flats.csv", folder, "--decisions", folder / "decisions.csv")
    assert slope(summary) == pytest.approx(3.0, abs=0.02)
    assert summary["corrupted_share"] < 0.02
    rows = pq.read_table(folder / "rows.parquet")
    assert np.all(rows["weight"].to_numpy()[theirs] == 0.0)


@pytest.mark.parametrize("already_applied", [False, True])
def test_fixed_rows_are_fitted_with_their_fixed_value(tmp_path, already_applied):
    table, folder = review_sessions.flats(), tmp_path / "run"
    data = tmp_path / "flats.csv"
    pa_csv.write_csv(table, data)
    fitted(data, folder)
    rents = table["rent"].to_pylist()
    fixes = [Decision(r, "fix", f"F{r:04d}", rents[r], rents[r] / 10) for r in range(0, 200, 5)]
    decide(folder, *fixes)
    if already_applied:
        run("apply", folder, data, "-o", tmp_path / "fixed.csv", "-q")
        data = tmp_path / "fixed.csv"
    more = ("--decisions", folder / "decisions.csv", "--force")
    summary = fitted(data, tmp_path / "again", *more)
    assert summary["rows"]["look_wrong"] <= 2
    assert summary["corrupted_share"] < 0.03
    clean = easyfirst.tables.read_table(tmp_path / "again" / "clean.csv")
    assert max(clean["rent"].to_pylist()) < 1200


def test_a_swap_is_undone_in_both_columns(tmp_path):
    rng = np.random.default_rng(0)
    area = rng.uniform(20, 120, 200).round(1)
    rent = (9 * area + 300 + rng.normal(0, 5, 200)).round(2)
    wrong = area.copy(), rent.copy()
    wrong[0][7], wrong[1][7] = rent[7], area[7]
    table = pa.table({"area": wrong[0], "rent": wrong[1]})
    pa_csv.write_csv(table, tmp_path / "flats.csv")
    folder = tmp_path / "run"
    options = ("-t", "rent", "--no-report", "-q", "-o")
    run("fit", tmp_path / "flats.csv", *options, folder)
    decide(folder, Decision(7, "fix", "7", area[7], rent[7], "swap with area"))
    run("apply", folder, tmp_path / "flats.csv", "-o", tmp_path / "fixed.csv")
    fixed = easyfirst.tables.read_table(tmp_path / "fixed.csv")
    assert fixed["area"].to_pylist() == area.tolist()
    assert fixed["rent"].to_pylist() == rent.tolist()
    more = ("--decisions", folder / "decisions.csv")
    run("fit", tmp_path / "flats.csv", *options, tmp_path / "again", *more)
    rows = pq.read_table(tmp_path / "again" / "rows.parquet")
    assert rows["given_label"][7].as_py() == rent[7]
    assert abs(rows["residual"][7].as_py()) < 5


def test_a_file_that_holds_no_decisions_is_refused_before_the_table_is_read(tmp_path):
    (tmp_path / "mine.csv").write_text("row,verdict\n1,bad\n")
    more = ["-t", "rent", "--decisions", tmp_path / "mine.csv"]
    done = run("fit", tmp_path / "no-such-table.csv", *more, code=3)
    assert "has no column 'decision'" in done.stderr
