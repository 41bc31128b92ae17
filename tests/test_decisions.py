"""The file of decisions: what it holds, what a kill leaves of it, and who may write it."""

import math
import os
import signal
import subprocess
import sys
import textwrap

import pytest

import hostile
from easyfirst.tables.decisions import Decision, DecisionLog, read_decisions, written_name
from easyfirst.tables.errors import OutputError, TableError

AT = "2026-01-02T03:04:05+00:00"


def test_the_last_decision_about_a_row_counts(tmp_path):
    path = tmp_path / "decisions.csv"
    with DecisionLog(path) as log:
        log.add([Decision(3, "wrong", "c", 7.5, at=AT), Decision(1, "right", "a", 2.0, at=AT)])
        log.add([Decision(3, "fix", "c", 7.5, 0.75, "divided by 10", AT)])
        assert log.decided.keys() == read_decisions(path).keys()
    found = read_decisions(path)
    assert sorted(found) == [1, 3]
    assert found[3] == Decision(3, "fix", "c", 7.5, 0.75, "divided by 10", AT)
    assert (found[1].kind, found[1].row_id, found[1].given) == ("right", "a", 2.0)
    assert math.isnan(found[1].fixed)
    assert path.read_text().count("\n") == 4


def test_a_decision_that_was_taken_back_is_none(tmp_path):
    path = tmp_path / "decisions.csv"
    with DecisionLog(path) as log:
        log.add([Decision(3, "wrong", at=AT), Decision(3, "open", at=AT)])
    assert read_decisions(path) == {}


def test_a_file_cut_at_any_byte_gives_every_decision_that_was_whole(tmp_path):
    path = tmp_path / "decisions.csv"
    kinds = ["wrong", "right", "fix", "wrong"]
    with DecisionLog(path) as log:
        for row, kind in enumerate(kinds):
            log.add([Decision(row, kind, f"r{row},x", 1234.5, 12.25, "less", AT)])
    raw = path.read_bytes()
    for length in range(len(raw) + 1):
        path.write_bytes(raw[:length])
        found = {row: (each.kind, each.fixed) for row, each in read_decisions(path).items()}
        whole = raw[:length].count(b"\n") - 1
        sure = {row: (kinds[row], 12.25) for row in range(max(whole, 0))}
        complete = {**sure, len(sure): (kinds[min(len(sure), 3)], 12.25)}
        assert found in (sure, complete), length
        with DecisionLog(path) as log:  # and goes on from there
            log.add([Decision(9, "right", at=AT)])
        assert read_decisions(path)[9].kind == "right"
        assert len(read_decisions(path)) == len(found) + 1


@pytest.mark.parametrize("name", hostile.NAMES)
def test_any_name_is_one_line_that_no_spreadsheet_runs(tmp_path, name):
    path = tmp_path / "decisions.csv"
    with DecisionLog(path) as log:
        log.add([Decision(0, "wrong", name, 1.0, at=AT), Decision(1, "right", "b", 2.0, at=AT)])
    assert path.read_bytes().count(b"\n") == 3
    found = read_decisions(path)
    assert found[0].row_id == written_name(name)
    assert found[1].row_id == "b"
    assert not found[0].row_id.startswith(("=", "+", "-", "@"))


def test_a_file_of_two_columns_saved_by_a_spreadsheet_is_read(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_bytes(b"\xef\xbb\xbfrow,decision\r\n4,wrong\r\n7,right")
    assert {row: each.kind for row, each in read_decisions(path).items()} == {
        4: "wrong",
        7: "right",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("row,verdict\n1,wrong\n", "no column 'decision'"),
        ("row,decision\n1,bad\n", r"line 2: the decision is 'bad', not one of 'wrong', 'right'"),
        ("row,decision\nfirst,wrong\n", "line 2: a number is expected"),
        ("row,decision\n-1,wrong\n", "rows are counted from 0, got -1"),
        ("row,decision\n1,fix\n", "a fix needs a fixed_value"),
    ],
)
def test_a_file_that_is_no_list_of_decisions_is_refused(tmp_path, text, message):
    path = tmp_path / "decisions.csv"
    path.write_text(text)
    with pytest.raises(TableError, match=message):
        read_decisions(path)


def test_a_foreign_file_is_not_added_to(tmp_path):
    path = tmp_path / "decisions.csv"
    path.write_text("row,decision\n1,wrong\n")
    with pytest.raises(OutputError, match="other columns than a review writes"):
        DecisionLog(path)
    assert path.read_text() == "row,decision\n1,wrong\n"


def test_two_reviews_cannot_write_the_same_file(tmp_path):
    path = tmp_path / "decisions.csv"
    with DecisionLog(path), pytest.raises(OutputError, match="open in another review"):
        DecisionLog(path)
    DecisionLog(path).__exit__(None, None, None)


FULL_DISK = """
    import resource, signal, sys
    from pathlib import Path
    from easyfirst.tables.decisions import Decision, DecisionLog
    from easyfirst.tables.errors import OutputError

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    log = DecisionLog(Path(sys.argv[1]))
    log.add([Decision(0, "wrong", "first", 1.0)])
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
    try:
        log.add([Decision(row, "right", "x" * 20, 1.0) for row in range(1, 50)])
    except OutputError as error:
        print(error, sorted(log.decided))
"""


def test_a_full_disk_saves_nothing_of_a_decision_and_says_so(tmp_path):
    path = tmp_path / "decisions.csv"
    program = [sys.executable, "-c", textwrap.dedent(FULL_DISK), str(path)]
    done = subprocess.run(program, capture_output=True, text=True)
    assert "cannot be written" in done.stdout, done.stderr
    assert done.stdout.strip().endswith("[0]")
    assert list(read_decisions(path)) == [0]


KILLED = """
    import itertools, sys
    from pathlib import Path
    from easyfirst.tables.decisions import Decision, DecisionLog

    log = DecisionLog(Path(sys.argv[1]))
    for row in itertools.count():
        log.add([Decision(row, "wrong", f"row {row}", float(row))])
        print(row, flush=True)
"""


def test_what_was_said_to_be_saved_survives_a_kill(tmp_path):
    path = tmp_path / "decisions.csv"
    program = [sys.executable, "-c", textwrap.dedent(KILLED), str(path)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        heard = [process.stdout.readline() for _ in range(30)]
        os.kill(process.pid, signal.SIGKILL)
    assert set(map(int, heard)) <= set(read_decisions(path))
