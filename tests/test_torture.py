"""`make torture`, reduced: kills of the fit, faults of the disk and damaged files, one table.

Kills of the driver on a cluster are here as well; those of workers are in the tests of each engine.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TORTURE = Path(__file__).parents[1] / "benchmarks" / "torture.py"


EMBEDDED = ("inline", "threads", "out-of-core")

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="needs a C compiler on Linux"
)


def tortured(*arguments):
    """Run `torture.py` and return the lines of its table."""
    done = subprocess.run(
        [sys.executable, str(TORTURE), *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    header, _, *lines = done.stdout.splitlines()[-2 - done.stdout.count("passed") :]
    assert header.split() == ["torture", "where", "trials", "right", "refused", "wrong"]
    assert all("passed" in line for line in lines)
    return lines


def test_torture_prints_one_table_and_passes():
    kinds = ["--only=driver", "--only=disk", "--only=files"]
    few = ["--kills", "1", "--faults", "2", "--files", "40"]
    lines = tortured(*kinds, *few, *(f"--engine={name}" for name in EMBEDDED))
    assert len(lines) == len(EMBEDDED) + 5 + 4


@pytest.mark.cluster
@pytest.mark.parametrize(
    "engine",
    # Ray and Spark are installed where slow tests run.
    [
        "dask",
        pytest.param("ray", marks=pytest.mark.slow),
        pytest.param("spark", marks=pytest.mark.slow),
    ],
)
def test_a_fit_whose_driver_is_killed_goes_on_with_a_fresh_cluster(engine):
    (line,) = tortured("--only=driver", f"--engine={engine}", "--cluster-kills=1")
    assert int(line.split()[3]) >= 1
