"""`make torture`, reduced: kills of the fit, faults of the disk and damaged files, one table."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TORTURE = Path(__file__).parents[1] / "benchmarks" / "torture.py"


@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="needs a C compiler on Linux"
)
def test_torture_prints_one_table_and_passes():
    few = ["--kills", "1", "--faults", "2", "--files", "40"]
    done = subprocess.run(
        [sys.executable, str(TORTURE), "--only=driver", "--only=disk", "--only=files", *few],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    header, _, *lines = done.stdout.splitlines()
    assert header.split() == ["torture", "where", "trials", "right", "refused", "wrong"]
    assert len(lines) == 3 + 5 + 4
    assert all("passed" in line for line in lines)
