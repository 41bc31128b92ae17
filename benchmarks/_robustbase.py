"""Coefficients by R's robustbase: one process of R for many samples, watched."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from _small_cells import Cell

METHODS = ("lmrob", "ltsReg")
PATIENCE = 3.0  # processor seconds for a fit that takes tenths of one where it ends at all
GLANCE = 0.25  # seconds between two looks at the clock of the process
SCRIPT = """
args <- commandArgs(TRUE)
suppressMessages(library(robustbase))
shown <- function(found, q) {
  coef <- if (inherits(found, "try-error")) rep(NaN, q) else coef(found)
  coef <- ifelse(is.na(coef) & !inherits(found, "try-error"), 0, coef)
  cat(paste(format(coef, digits = 15), collapse = ","), "\\n", sep = "")
}
for (line in readLines(args[1])) {
  task <- strsplit(line, " ")[[1]]
  d <- as.matrix(read.csv(task[2], header = FALSE))
  q <- ncol(d)
  x <- d[, -q, drop = FALSE]
  y <- d[, q]
  set.seed(1)
  fit <- if (task[1] == "lmrob") quote(lmrob(y ~ x, max.it = 200)) else quote(ltsReg(x, y))
  shown(try(suppressWarnings(eval(fit)), silent = TRUE), q)
}
"""


def installed() -> bool:
    """Return whether R is there, with the package."""
    if shutil.which("Rscript") is None:
        return False
    asked = ["Rscript", "-e", "library(robustbase)"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def coefficients(cell: Cell, seeds: list[int]) -> list[list[list[float] | None]]:
    """Return what each method finds in every sample, the intercept last; None where it stalls."""
    with tempfile.TemporaryDirectory() as folder:
        tasks = []
        for seed in seeds:
            X, y, _, _ = cell.draw(seed)
            rows = Path(folder) / f"{seed}.csv"
            np.savetxt(rows, np.column_stack([X, y]), delimiter=",", fmt="%.17g")
            tasks += [f"{method} {rows}" for method in METHODS]
        answers: list[list[float] | None] = []
        while len(answers) < len(tasks):
            for line in _watched(Path(folder), tasks[len(answers) :]):
                intercept, *slopes = (float(number) for number in line.split(","))
                answers.append([*slopes, intercept])
            if len(answers) < len(tasks):
                answers.append(None)  # the fit at which R stalled or died
        return [answers[i : i + len(METHODS)] for i in range(0, len(answers), len(METHODS))]


def _watched(folder: Path, tasks: list[str]) -> Iterator[str]:
    """Yield R's answers until it stalls: its Fortran cannot be interrupted from within."""
    (folder / "tasks.txt").write_text("".join(f"{task}\n" for task in tasks))
    (folder / "fits.R").write_text(SCRIPT)
    command = ["Rscript", str(folder / "fits.R"), str(folder / "tasks.txt")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        answered = threading.Event()
        watchdog = threading.Thread(target=_watch, args=(process, answered), daemon=True)
        watchdog.start()
        for line in process.stdout:
            answered.set()
            yield line


def _watch(process: subprocess.Popen[str], answered: threading.Event) -> None:
    """End a process that has been computing for too long since its last answer."""
    began = _processor_seconds(process.pid)
    while process.poll() is None:
        time.sleep(GLANCE)
        now = _processor_seconds(process.pid)
        if answered.is_set():
            answered.clear()
            began = now
        elif now - began > PATIENCE:
            process.kill()


def _processor_seconds(pid: int) -> float:
    """Return the processor's time of a process, or the clock's where that is not known."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return time.monotonic()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
