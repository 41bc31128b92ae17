"""What a run leaves for a decision: clean rows, suspects, patterns, a gate, a diff of runs."""

import io
import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import easyfirst
from easyfirst.cli.group import easyfirst as command


def run(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


# Files


@pytest.fixture(scope="module")
def slipped(tmp_path_factory):
    """A folder with slipped.csv, in which prices of one branch have a slipped decimal point."""
    folder = tmp_path_factory.mktemp("slipped")
    rng = np.random.default_rng(0)
    n = 600
    frame = pd.DataFrame(
        {
            "area": rng.uniform(20, 120, n).round(1),
            "branch": rng.choice([f"b{i}" for i in range(6)], n),
        }
    )
    frame["price"] = (9 * frame["area"] + 100 + rng.normal(0, 10, n)).round(2)
    wrong = (frame["branch"] == "b3") & (rng.random(n) < 0.5)
    frame.loc[wrong, "price"] = (10 * frame.loc[wrong, "price"]).round(2)
    frame.loc[rng.choice(np.flatnonzero(~wrong), 40, replace=False), "area"] = np.nan
    frame.to_csv(folder / "slipped.csv", index=False)
    done = run("fit", folder / "slipped.csv", "-t", "price", "-o", folder / "run")
    assert done.exit_code == 0, done.output
    return folder, frame, wrong.to_numpy(), done


def test_the_clean_table_is_the_table_without_suspicious_rows(slipped):
    folder, frame, _, _ = slipped
    flagged = pd.read_parquet(folder / "run" / "rows.parquet")["is_label_issue"]
    clean = pd.read_csv(folder / "run" / "clean.csv")
    pd.testing.assert_frame_equal(clean, frame[~flagged].reset_index(drop=True))


def test_suspects_stand_at_the_lines_that_a_spreadsheet_shows(slipped):
    folder, _, wrong, _ = slipped
    found = pd.read_csv(folder / "run" / "suspects.csv")
    lines = (folder / "slipped.csv").read_text().splitlines()
    for line, price in zip(found["line"], found["given_label"], strict=True):
        assert float(lines[line - 1].split(",")[-1]) == price
    assert set(found["line"] - 2) >= set(np.flatnonzero(wrong))
    slips = found[found["likely_fix"] == "divide by 10"]
    np.testing.assert_allclose(slips["fixed_value"], slips["given_label"] / 10)
    assert slips["reason"].str.endswith("decimal slip?").mean() > 0.9


def test_lines_count_empty_ones_and_what_stands_above_the_heading(slipped, tmp_path):
    folder, _, _, _ = slipped
    heading, *rows = (folder / "slipped.csv").read_text().splitlines()
    rows[10] = rows[10].replace(rows[10].split(",")[1], '"b\nb"')  # one row over two lines
    text = "\n".join([heading, *rows[:5], "", "", *rows[5:]]) + "\n"
    (tmp_path / "gaps.csv").write_text(text)
    arguments = ("--top", "600", "--format", "csv")
    done = run("suspects", folder / "run", tmp_path / "gaps.csv", *arguments)
    assert done.exit_code == 0, done.output
    found = pd.read_csv(io.StringIO(done.stdout)).set_index("row_id")["line"]
    assert found[4] == 6
    assert found[5] == 9
    assert found[300] == 304  # the row over two lines is one row of a spreadsheet


def test_patterns_are_printed_and_kept(slipped):
    folder, frame, wrong, done = slipped
    (pattern,) = json.loads((folder / "run" / "summary.json").read_text())["patterns"]
    share = 100 * np.mean(frame["branch"] == "b3")
    assert pattern["words"] == (
        f"{wrong.sum()} rows are about 10 times the prediction; 100 % of them have branch = b3 "
        f"({share:.1f} % of all rows)"
    )
    assert pattern["words"] in done.stdout
    found = pd.read_csv(folder / "run" / "suspects.csv")
    assert (found["patterns"] == pattern["words"]).sum() == wrong.sum()


def test_a_filled_in_value_is_not_held_against_the_row(slipped):
    folder, frame, wrong, _ = slipped
    rows = pd.read_parquet(folder / "run" / "rows.parquet")
    filled = frame["area"].isna().to_numpy() & ~wrong
    assert not rows["is_label_issue"][filled].any()
    done = run(
        "suspects", folder / "run", folder / "slipped.csv", "--top", "600", "--format", "csv"
    )
    listed = pd.read_csv(io.StringIO(done.stdout)).set_index("row_id")
    median = f"{frame['area'].median():.4g}"
    said = listed.loc[np.flatnonzero(filled), "reason"]
    assert said.str.contains(f"area was filled in with the median ({median})", regex=False).all()


def test_a_loaded_model_knows_how_far_filled_in_values_may_be_off(slipped, tmp_path):
    folder, frame, wrong, _ = slipped
    filled = frame["area"].isna() & ~wrong
    frame[filled].to_csv(tmp_path / "new.csv", index=False)
    done = run("suspects", folder / "run", tmp_path / "new.csv", "--format", "csv")
    assert len(pd.read_csv(io.StringIO(done.stdout))) == 0


@pytest.mark.parametrize("command_name", ["fit", "suspects"])
def test_too_many_wrong_rows_fail_a_pipeline_with_a_code_of_their_own(
    slipped, tmp_path, command_name
):
    folder, _, wrong, _ = slipped
    data = folder / "slipped.csv"
    arguments = {
        "fit": ("fit", data, "-t", "price", "-o", tmp_path / "run", "--no-report", "--force"),
        "suspects": ("suspects", folder / "run", data),
    }[command_name]
    strict = run(*arguments, "--fail-above", "5%")
    assert strict.exit_code == 6
    assert f"{wrong.sum()} of 600 rows look wrong" in strict.stderr
    assert "more than the 5.0 % that --fail-above allows" in strict.stderr
    assert run(*arguments, "--fail-above", "0.2").exit_code == 0
    if command_name == "fit":  # everything was written all the same
        assert (tmp_path / "run" / "summary.json").exists()


@pytest.mark.parametrize("share", ["five", "120%", "-0.1", "nan"])
def test_a_senseless_share_is_refused(slipped, share):
    folder, _, _, _ = slipped
    done = run("suspects", folder / "run", folder / "slipped.csv", "--fail-above", share)
    assert done.exit_code == 2
    assert "write 5% or 0.05" in done.stderr


def test_the_clean_table_can_be_parquet_or_left_out(slipped, tmp_path):
    folder, _, _, _ = slipped
    for kind, expected in (("parquet", {"clean.parquet"}), ("none", set())):
        output = tmp_path / kind
        data = folder / "slipped.csv"
        done = run("fit", data, "-t", "price", "-o", output, "-q", "--no-report", "--clean", kind)
        assert done.exit_code == 0, done.output
        assert {each.name for each in output.glob("clean.*")} == expected


# Diff


def test_a_run_does_not_differ_from_itself(slipped):
    folder, _, _, _ = slipped
    done = run("diff", folder / "run", folder / "run", "--exit-code")
    assert done.exit_code == 0, done.output
    assert "changed: " not in done.stdout.replace("unchanged: ", "")


def test_diff_names_the_share_the_batches_and_the_coefficients_that_changed(slipped, tmp_path):
    _, frame, _, _ = slipped
    other = frame.copy()
    other["price"] += 5 * other["area"].fillna(0.0)
    broken = other["branch"] == "b1"
    other.loc[broken, "price"] = (other.loc[broken, "price"] * 100).round(2)
    runs = []
    for name, table in (("before", frame), ("after", other)):
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        arguments = ("-t", "price", "--batches", "branch", "-o", tmp_path / name, "--no-report")
        assert run("fit", tmp_path / f"{name}.csv", *arguments).exit_code == 0
        runs.append(tmp_path / name)
    done = run("diff", *runs, "--json", "--exit-code")
    assert done.exit_code == 6
    found = {each["what"]: each for each in json.loads(done.stdout)["differences"]}
    assert found["rows that look wrong"]["changed"]
    assert found["batches that became bad"]["after"] == ["b1"]
    assert found["coefficient of area"]["after"] == pytest.approx(14.0, abs=0.2)
    assert found["coefficient of area"]["changed"]
    shown = run("diff", *runs).stdout
    assert "changed: " in shown
    assert "look wrong now and did not before" in shown


def test_diff_puts_what_vanished_before_and_what_is_new_after(slipped, tmp_path):
    folder, frame, _, _ = slipped
    other = frame.drop(columns="branch").assign(floor=np.arange(600) % 7)
    other["area"] = np.where(np.arange(600) % 2, "large", "small")
    other.to_csv(tmp_path / "other.csv", index=False)
    assert run("fit", tmp_path / "other.csv", "-t", "price", "-o", tmp_path / "run").exit_code == 0
    done = run("diff", folder / "run", tmp_path / "run", "--json")
    found = {each["what"]: each for each in json.loads(done.stdout)["differences"]}
    gone, new = found["columns gone"], found["new columns"]
    assert (gone["before"], gone["after"]) == (["branch"], None)
    assert (new["before"], new["after"]) == (None, ["floor"])
    kind = found["kind of column area"]
    assert (kind["before"], kind["after"]) == ("number", "category")


def test_diff_says_where_rows_may_only_share_their_number(slipped, tmp_path):
    folder, frame, _, _ = slipped
    for name, other in (
        ("moved", frame.iloc[::-1].reset_index(drop=True)),
        ("renamed", frame.rename(columns={"price": "rent"})),
    ):
        other.to_csv(tmp_path / f"{name}.csv", index=False)
        target = "rent" if name == "renamed" else "price"
        done = run(
            "fit", tmp_path / f"{name}.csv", "-t", target, "-o", tmp_path / name, "--no-report"
        )
        assert done.exit_code == 0, done.output
    shown = run("diff", folder / "run", tmp_path / "moved").stdout
    assert "If they moved, fit both tables with --row-id." in " ".join(shown.split())
    shown = run("diff", folder / "run", tmp_path / "renamed").stdout
    assert "'price', now 'rent': the models cannot be compared" in " ".join(shown.split())
    assert "in both runs, 0 look wrong now" in " ".join(shown.split())


def test_diff_refuses_what_is_no_run(slipped, tmp_path):
    folder, _, _, _ = slipped
    done = run("diff", folder / "run", tmp_path)
    assert done.exit_code == 3
    assert "name the output folder of 'easyfirst fit'" in done.stderr
    (tmp_path / "summary.json").write_text("[]")
    assert run("diff", folder / "run", tmp_path).exit_code == 3
    (tmp_path / "summary.json").write_text("{}")
    done = run("diff", folder / "run", tmp_path)
    assert done.exit_code == 3
    assert "do not hold the summaries of two fits" in done.stderr


# The report of a table


def test_the_report_says_what_was_read_and_what_became_of_it(slipped):
    folder, frame, wrong, _ = slipped
    page = (folder / "run" / "report.html").read_text()
    for text in ("slipped.csv", ">price<", ">600<", "What was done to each column", "b3"):
        assert text in page
    assert f"{wrong.sum()} rows are about 10 times the prediction" in page
    assert page.index("Suspicious rows") < page.index("Patterns") < page.index("Diagnostics")
    assert "Batches" not in page
    model = easyfirst.load(folder / "run" / "model.safetensors")
    assert f"{wrong.sum()} of 600 rows look wrong" in model.report(None, frame).html


def test_hostile_names_and_values_of_a_table_are_only_text(tmp_path):
    rng = np.random.default_rng(0)
    n = 400
    hostile = '<script>window.owned = 1</script>{{ 7 * 7 }}"onload=x'
    frame = pd.DataFrame(
        {
            hostile: rng.uniform(20, 120, n).round(1),
            "kind": np.where(rng.random(n) < 0.2, "<img src=x onerror=alert(1)>", "plain"),
        }
    )
    frame["y"] = (9 * frame[hostile] + 100 + rng.normal(0, 10, n)).round(2)
    frame.loc[frame["kind"] != "plain", "y"] *= np.where(rng.random(n) < 0.5, 10, 1)[
        (frame["kind"] != "plain").to_numpy()
    ]
    frame.to_csv(tmp_path / "a.csv", index=False)
    done = run("fit", tmp_path / "a.csv", "-t", "y", "-o", tmp_path / "run", "--show-rows")
    assert done.exit_code == 0, done.output
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Patterns" in page
    assert "<script" not in page
    assert "<img src=x" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert "{{ 7 * 7 }}" in page


# Transformed targets


@pytest.fixture(scope="module")
def by_factors(tmp_path_factory):
    """A folder with flats.csv, in which effects, noise and mistakes multiply prices."""
    folder = tmp_path_factory.mktemp("factors")
    rng = np.random.default_rng(1)
    n = 500
    frame = pd.DataFrame({"area": rng.uniform(20, 150, n).round(), "rooms": rng.integers(1, 6, n)})
    logarithm = 5 + 0.012 * frame["area"] + 0.1 * frame["rooms"] + 0.15 * rng.normal(size=n)
    factor = np.ones(n)
    factor[::20] = np.where(np.arange(25) % 2, 10.0, 0.1)
    frame["price"] = (np.exp(logarithm) * factor).round(2)
    frame.to_csv(folder / "flats.csv", index=False)
    done = run("fit", folder / "flats.csv", "-t", "price", "-o", folder / "run")
    assert done.exit_code == 0, done.output
    return folder, frame, factor, done


def test_the_tool_takes_the_logarithm_of_prices_and_says_so(by_factors):
    folder, frame, factor, done = by_factors
    assert done.stderr.count("log(price) was fitted instead of price") == 1
    assert "of log(price)" in done.stdout
    summary = json.loads((folder / "run" / "summary.json").read_text())
    assert summary["target_transform"] == "log"
    found = pd.read_csv(folder / "run" / "suspects.csv").set_index("row_id")
    wrong = np.flatnonzero(factor != 1)
    assert set(found.index) >= set(wrong)
    assert len(found) <= len(wrong) + 5
    np.testing.assert_array_equal(found["given_label"], frame["price"][found.index])
    fixed = found.loc[wrong, "likely_fix"]
    assert np.mean(fixed == np.where(factor[wrong] > 1, "divide by 10", "multiply by 10")) > 0.9
    assert "log(price) was fitted" in (folder / "run" / "report.html").read_text()


def test_predictions_of_a_transformed_target_are_prices(by_factors, tmp_path):
    folder, frame, factor, _ = by_factors
    model = folder / "run" / "model.safetensors"
    done = run("predict", model, folder / "flats.csv", "--interval", "0.9")
    assert done.exit_code == 0, done.output
    found = pd.read_csv(io.StringIO(done.stdout))
    right = factor == 1
    error = np.abs(np.log(found["prediction"] / frame["price"]))[right]
    assert np.median(error) < 0.15
    inside = (found["lower"] <= frame["price"]) & (frame["price"] <= found["upper"])
    assert 0.85 < inside[right].mean() < 0.95


def test_the_choice_can_be_made_and_switched_off(by_factors, tmp_path):
    folder = by_factors[0]
    (tmp_path / "fit.toml").write_text('target-transform = "none"\n')
    fit = ("fit", folder / "flats.csv", "-t", "price", "--no-report")
    raw = run(*fit, "-o", tmp_path / "raw", "--config", tmp_path / "fit.toml")
    assert raw.exit_code == 0, raw.output
    assert json.loads((tmp_path / "raw" / "summary.json").read_text())["target_transform"] is None
    compared = run("diff", folder / "run", tmp_path / "raw")
    assert "log(the target), now the target" in compared.stdout
    asked = run(*fit, "-o", tmp_path / "asked", "--log-target")
    assert "log(price) is fitted, as asked for" in asked.stderr
    both = run(*fit, "-o", tmp_path / "both", "--log-target", "--target-transform", "sqrt")
    assert both.exit_code == 2
    assert "give one" in both.stderr


def test_a_logarithm_that_does_not_exist_is_refused_with_the_rows(by_factors, tmp_path):
    _, frame, _, _ = by_factors
    frame.assign(price=np.where(np.arange(len(frame)) == 7, -1.5, frame["price"])).to_csv(
        tmp_path / "bad.csv", index=False
    )
    done = run("fit", tmp_path / "bad.csv", "-t", "price", "-o", tmp_path / "run", "--log-target")
    assert done.exit_code != 0
    assert "1 of 500 rows have no such value (row 7; the smallest is -1.5)" in done.stderr
