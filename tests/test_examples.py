"""Every example runs on its own, draws, and stays short enough to read."""

import os
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

import easyfirst

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
NEEDS = {
    "plot_dask_cluster": ["distributed"],
    "plot_onnx_export": ["skl2onnx", "onnxruntime"],
    "plot_pipeline": ["pandas"],
    "plot_rental_prices": ["pandas"],
    "plot_wrong_rows": ["pandas"],
}
# Runs a script as the main program and says how many figures it showed.
RUN = """
import sys
import matplotlib.pyplot as plt

shown = []
plt.show = lambda: shown.extend(plt.get_fignums())
if __name__ == "__main__":
    script = sys.argv.pop(1)
    with open(script, encoding="utf-8") as file:
        code = compile(file.read(), script, "exec")
    exec(code, {"__name__": "__main__", "__file__": script})
    print("figures:", len(shown))
"""


def run(script, folder, *arguments):
    for package in ["matplotlib", *NEEDS.get(script.stem, [])]:
        pytest.importorskip(package, reason=f"{script.name} needs {package}")
    runner = folder / "runner.py"
    runner.write_text(RUN)
    environment = {
        **os.environ,
        "PYTHONPATH": os.fspath(resources.files(easyfirst).joinpath("..")),
        "MPLBACKEND": "Agg",
        "OMP_NUM_THREADS": "1",
        "EASYFIRST_RENTAL_DATA": "",
    }
    return subprocess.run(
        [sys.executable, runner, script, *arguments],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
    )


def test_there_are_examples():
    assert len(EXAMPLES) >= 7


@pytest.mark.slow
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_draws_and_warns_of_nothing(script, tmp_path):
    done = run(script, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "figures: 1" in done.stdout
    assert len(done.stdout.splitlines()) >= 2  # it also says something
    assert "easyfirst.errors" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["runner.py"]


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_has_a_title(script):
    lines = script.read_text(encoding="utf-8").splitlines()
    assert len(lines) < 60
    assert lines[0] == '"""'
    assert set(lines[2]) == {"="}
    assert len(lines[1]) == len(lines[2])


def test_the_rental_example_reads_listings_from_a_directory(tmp_path):
    pandas = pytest.importorskip("pandas", reason="plot_rental_prices needs pandas")
    listings = tmp_path / "city"
    listings.mkdir()
    columns = {
        "id": range(400),
        "neighbourhood": ["North", "South"] * 200,
        "room_type": ["Private room"] * 150 + ["Entire home/apt"] * 250,
        "accommodates": [1 + i % 5 for i in range(400)],
        "bathrooms": [1 + (i * 7) % 3 for i in range(400)],
        "bedrooms": [1 + (i * 5) % 4 for i in range(400)],
        "beds": [1 + (i * 11) % 6 for i in range(400)],
        "price": [f"${40 * (1 + i % 5) * (1.1 if i % 2 else 0.9):,.2f}" for i in range(400)],
    }
    pandas.DataFrame(columns).to_csv(listings / "2020-01-01-listings.csv", index=False)
    script = next(path for path in EXAMPLES if path.stem == "plot_rental_prices")
    done = run(script, tmp_path, os.fspath(listings))
    assert done.returncode == 0, done.stderr
    assert "of 400 prices" in done.stdout
