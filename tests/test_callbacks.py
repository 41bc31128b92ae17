"""What a user sees of a running fit, and how one can end it."""

import logging
import pickle
import re
import sys
import threading

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from easyfirst import SelfPacedRegressor
from easyfirst.callbacks import Callback, ProgressBar, RoundLogger, StderrLogger
from easyfirst.errors import NoRowSelectedError
from easyfirst.schedules import Constant, Geometric
from problems import corrupted_rows

PACE = Geometric(start=0.2, factor=1.5, ceiling=4.0)


class Diary(Callback):
    """Write down every call; end the fit after a round on request."""

    def __init__(self, stop_after=None):
        self.entries = []
        self.stop_after = stop_after

    def on_fit_begin(self, max_rounds):
        self.entries.append(("begin", max_rounds))

    def on_round_end(self, record):
        self.entries.append(("round", record))
        return record.round == self.stop_after

    def on_fit_end(self, status):
        self.entries.append(("end", status))


def fit(**settings):
    rows = corrupted_rows()
    return SelfPacedRegressor(**{"pace": PACE, **settings}).fit(rows.X, rows.y)


def test_callbacks_see_the_beginning_every_round_and_the_end_in_order():
    diary = Diary()
    model = fit(callbacks=[diary], max_rounds=77)
    assert diary.entries[0] == ("begin", 77)
    assert [kind for kind, _ in diary.entries[1:-1]] == ["round"] * (model.n_rounds_ + 1)
    assert tuple(record for _, record in diary.entries[1:-1]) == model.history_.rounds
    assert diary.entries[-1] == ("end", model.status_)


def test_callbacks_are_called_in_the_order_given():
    calls = []

    class Named(Callback):
        def __init__(self, name):
            self.name = name

        def on_round_end(self, record):
            calls.append((record.round, self.name))

    model = fit(callbacks=[Named("a"), Named("b")])
    rounds = range(model.n_rounds_ + 1)
    assert calls == [(r, name) for r in rounds for name in "ab"]


@pytest.mark.parametrize("last", [0, 1, 3])
def test_a_callback_that_returns_true_ends_the_fit(last):
    diary = Diary(stop_after=last)
    model = fit(callbacks=[diary, Callback()])
    assert model.n_rounds_ == last
    assert model.status_.code == "callback"
    assert re.fullmatch(rf"Stopped by a callback after {last} rounds?\.", model.status_.message)
    assert diary.entries[-1] == ("end", model.status_)
    assert np.all(np.isfinite(model.coef_))
    assert model.weights_.shape == (240,)


def test_a_callback_that_returns_something_true_but_not_true_does_not_end_the_fit():
    class Chatty(Callback):
        def on_round_end(self, record):
            return "a sentence"

    assert fit(callbacks=[Chatty()]).status_.code == "converged"


def test_any_object_with_one_of_the_methods_is_a_callback():
    class Partial:
        rounds = 0

        def on_round_end(self, record):
            self.rounds += 1

    partial = Partial()
    model = fit(callbacks=[partial])
    assert partial.rounds == model.n_rounds_ + 1


def test_the_end_is_told_also_after_an_error():
    diary = Diary()
    with pytest.raises(NoRowSelectedError):
        fit(pace=Constant(1e-12), callbacks=[diary])
    kind, status = diary.entries[-1]
    assert kind == "end"
    assert (status.code, status.converged) == ("failed", False)
    assert "selects no row" in status.message


def test_an_error_in_a_callback_is_not_swallowed_and_the_others_are_told():
    class Broken(Callback):
        def on_round_end(self, record):
            raise RuntimeError("full disk")

    diary = Diary()
    with pytest.raises(RuntimeError, match="full disk"):
        fit(callbacks=[Broken(), diary])
    assert diary.entries[-1][1].code == "failed"


def test_a_fit_is_silent_by_default(capfd, caplog):
    with caplog.at_level(logging.WARNING):
        fit()
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")
    assert caplog.records == []


def test_verbose_logs_every_round_to_standard_error_and_cleans_up(capsys):
    logger = logging.getLogger("easyfirst")
    before = (list(logger.handlers), logger.level)
    model = fit(verbose=1)
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == model.n_rounds_ + 2
    assert lines[0].startswith("[easyfirst] round 0 on all rows: pace inf, 240 rows selected")
    assert lines[-1] == f"[easyfirst] {model.status_.message}"
    assert (list(logger.handlers), logger.level) == before


def test_verbose_cleans_up_after_an_error(capsys):
    logger = logging.getLogger("easyfirst")
    before = (list(logger.handlers), logger.level)
    with pytest.raises(NoRowSelectedError):
        fit(pace=Constant(1e-12), verbose=1)
    assert "The fit failed" in capsys.readouterr().err
    assert (list(logger.handlers), logger.level) == before


def test_the_round_logger_uses_the_librarys_logger(caplog):
    with caplog.at_level(logging.INFO, logger="easyfirst"):
        model = fit(callbacks=[RoundLogger()])
    assert {record.name for record in caplog.records} == {"easyfirst"}
    assert len(caplog.records) == model.n_rounds_ + 2


def all_ended(before):
    """Whether the threads started since then end: a bar redraws itself in one of its own."""
    started = set(threading.enumerate()) - before
    for thread in started:
        thread.join(timeout=600.0)
    return not any(thread.is_alive() for thread in started)


def test_the_progress_bar_runs_and_writes_nothing_to_standard_output(capsys):
    pytest.importorskip("rich", reason="the progress bar needs the 'tool' extra")
    before = set(threading.enumerate())
    model = fit(callbacks=[ProgressBar()])
    assert model.status_.converged
    assert capsys.readouterr().out == ""
    assert all_ended(before)


@pytest.mark.parametrize("callback", [ProgressBar, StderrLogger, RoundLogger])
def test_a_model_that_keeps_its_callbacks_can_be_pickled_and_cloned(callback):
    model = fit(callbacks=[callback()])
    again = pickle.loads(pickle.dumps(model))
    assert again.coef_.tobytes() == model.coef_.tobytes()
    assert fit(callbacks=again.callbacks).coef_.tobytes() == model.coef_.tobytes()
    assert not hasattr(clone(model), "coef_")


def test_the_progress_bar_closes_after_an_error():
    pytest.importorskip("rich", reason="the progress bar needs the 'tool' extra")
    before = set(threading.enumerate())
    bar = ProgressBar()
    with pytest.raises(NoRowSelectedError):
        fit(pace=Constant(1e-12), callbacks=[bar])
    assert all_ended(before)
    assert fit(callbacks=[bar]).status_.converged


def test_without_rich_the_progress_bar_says_what_to_install(monkeypatch):
    for name in ("rich", "rich.console", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'easyfirst\[tool\]'"):
        fit(callbacks=[ProgressBar()])


def test_a_failing_beginning_is_an_end_for_those_who_began(monkeypatch):
    for name in ("rich", "rich.console", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)
    diary = Diary()
    with pytest.raises(ImportError):
        fit(callbacks=[diary, ProgressBar()])
    assert [kind for kind, _ in diary.entries] == ["begin", "end"]


@pytest.mark.parametrize(
    ("backend", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame), ("pyarrow", pa.Table)]
)
def test_the_history_turns_into_a_data_frame(backend, kind):
    model = fit(solver="admm", n_batches=3)
    rounds = model.history_.to_frame(backend=backend)
    iterations = model.history_.to_frame("iterations", backend=backend)
    assert isinstance(rounds, kind)
    assert isinstance(iterations, kind)
    assert rounds.shape[0] == model.n_rounds_ + 1
    assert iterations.shape[0] == model.n_iter_
    named = rounds.column_names if backend == "pyarrow" else list(rounds.columns)
    # fmt: off
    assert {
        "round", "pace", "selected", "changed", "objective", "lagrangian", "primal_residual",
        "dual_residual", "rho", "kkt_residual", "iterations", "seconds",
    } <= set(named)
    # fmt: on
    assert [int(k) for k in np.asarray(rounds["round"])] == list(range(model.n_rounds_ + 1))
    assert sum(int(k) for k in np.asarray(rounds["iterations"])) == model.n_iter_


def test_an_unknown_part_of_the_history_is_refused():
    with pytest.raises(ValueError, match="what must be 'rounds' or 'iterations', got 'epochs'"):
        fit().history_.to_frame("epochs")


def test_the_history_follows_the_fit():
    model = fit()
    paces = [record.pace for record in model.history_.rounds]
    assert paces[0] == np.inf
    assert paces[1] == PACE.start
    assert np.all(np.diff(paces[1:]) >= 0)
    assert paces[-1] == model.pace_ == PACE.ceiling
    assert model.history_.rounds[0].selected == 240
    assert model.history_.rounds[-1].selected == model.selected_.sum()
    assert model.history_.rounds[-1].changed == 0
    assert all(record.seconds >= 0 for record in model.history_.rounds)


def test_running_out_of_rounds_is_said_with_what_to_do():
    with pytest.warns(ConvergenceWarning, match="after 2 rounds while the pace was still growing"):
        model = fit(max_rounds=2)
    assert model.status_.code == "max_rounds"
    assert "raise max_rounds" in str(model.status_)
    assert not model.status_.converged


def test_running_out_of_iterations_is_said_with_what_to_do():
    with pytest.warns(ConvergenceWarning, match="not agreed within 3 iterations"):
        model = fit(solver="admm", n_batches=4, max_iter=3, rho=0.01, pace=Constant(np.inf))
    assert model.status_.code == "max_iter"
    assert "raise max_iter" in str(model.status_)
