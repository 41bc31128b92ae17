"""Let the n-th call to the disk fail, for every n: a right result, or one documented error.

    python tests/faulty_disk.py FOLDER [MOST]

compiles `faulty_disk.c`, starts itself with that preloaded, and prints one line per scenario and
kind of call: how many calls there were, how many of these were made to fail, and what came of it.
MOST limits the failures per kind, spread evenly. The exit code is 1 if anything else came of it.
"""

import ctypes
import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

KINDS = ("open", "read", "write", "fsync", "rename")
ERRORS = {"open": errno.EACCES, "read": errno.EIO, "write": errno.ENOSPC, "fsync": errno.EIO}


def compiled(folder):
    """Return the library that fails on request."""
    library = Path(folder) / "faulty_disk.so"
    source = Path(__file__).with_suffix(".c")
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library


def run_alone(folder, most=None, scenarios=()):
    """Run the scenarios in a process with a faulty disk; return what came of them."""
    environment = {**os.environ, "LD_PRELOAD": str(compiled(folder)), "MALLOC_CHECK_": "0"}
    command = [sys.executable, "-W", "ignore", __file__, "--inside", str(folder)]
    done = subprocess.run(
        [*command, str(most or 0), *scenarios], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-4000:])
    return json.loads(done.stdout.splitlines()[-1])


class Disk:
    """The switch of the preloaded library."""

    def __init__(self, folder):
        self._folder = str(folder).encode()
        self._library = ctypes.CDLL(None)
        self._library.fault_arm.argtypes = [
            ctypes.c_int,
            ctypes.c_long,
            ctypes.c_int,
            ctypes.c_char_p,
        ]
        self._library.fault_count.restype = ctypes.c_long

    def arm(self, kind=None, number=0):
        which = -1 if kind is None else KINDS.index(kind)
        self._library.fault_arm(which, number, ERRORS.get(kind, errno.EIO), self._folder)

    def disarm(self):
        self._library.fault_arm(-1, 0, 0, b"")

    def counts(self):
        return {kind: self._library.fault_count(n) for n, kind in enumerate(KINDS)}


def digest_of(*values):
    code = hashlib.blake2b(digest_size=16)
    for value in values:
        code.update(value if isinstance(value, bytes) else repr(value).encode())
    return code.hexdigest()


class Scenario:
    """Something that reads and writes files; `complaint` says what is wrong afterwards."""

    goes_on = False  # after a failure, where it was

    def __init__(self, inputs):
        self.inputs = inputs

    def run(self, folder):
        """Do it below a folder, and return what there is to return."""
        raise NotImplementedError

    def digest(self, folder, result):
        """Return a digest of the result, of files as well."""
        raise NotImplementedError

    def complaint(self, folder, error):
        """Return what is wrong after a failure."""
        raise NotImplementedError


def rows_of(inputs):
    import easyfirst

    return easyfirst.read_parquet(inputs / "rows.parquet", "y", rows_per_batch=300)


def fitted(inputs, engine="inline", **how):
    import easyfirst

    return easyfirst.SelfPacedRegressor(engine=engine).fit(rows_of(inputs), **how)


class Fit(Scenario):
    """A fit out of core with cache and checkpoint; after a failure, it goes on from there."""

    goes_on = True

    def run(self, folder):
        from easyfirst.engines import OutOfCore

        (folder / "cache").mkdir(exist_ok=True)
        engine = OutOfCore("4GB", folder / "cache", n_jobs=1)
        return fitted(self.inputs, engine, checkpoint=folder / "checkpoint", resume=True)

    def digest(self, folder, model):
        return digest_of(model.coef_.tobytes(), model.noise_scale_)

    def complaint(self, folder, error):
        if os.listdir(folder / "cache"):
            return "the cache was left behind"
        left = list(folder.rglob("*.partial"))
        return f"{left[0]} was left behind" if left else None


class Weights(Scenario):
    """`write_weights`: all files, or no folder."""

    def __init__(self, inputs):
        super().__init__(inputs)
        self.model = fitted(inputs)

    def run(self, folder):
        return self.model.write_weights(rows_of(self.inputs), folder=folder / "weights")

    def digest(self, folder, result):
        import pyarrow.parquet as pq

        paths = sorted((folder / "weights").iterdir())
        tables = [pq.read_table(path, page_checksum_verification=True) for path in paths]
        assert [str(path) for path in paths] == result
        return digest_of([path.name for path in paths], [table.to_pydict() for table in tables])

    def complaint(self, folder, error):
        return f"there is {os.listdir(folder)}" if os.listdir(folder) else None


class Save(Scenario):
    """`save`: the whole file, or none."""

    def __init__(self, inputs):
        super().__init__(inputs)
        self.model = fitted(inputs)

    def run(self, folder):
        self.model.save(folder / "model.safetensors")

    def digest(self, folder, result):
        import easyfirst

        found = easyfirst.load(folder / "model.safetensors")
        return digest_of(found.coef_.tobytes(), found.intercept_)

    def complaint(self, folder, error):
        return f"there is {os.listdir(folder)}" if os.listdir(folder) else None


class Command(Scenario):
    """`easyfirst fit`: a whole folder and exit code 0, or none and a message with 3 or 5."""

    data = "table.csv"

    def run(self, folder):
        from click.testing import CliRunner

        from easyfirst.cli.group import easyfirst

        given = ["fit", self.inputs / self.data, "-t", "y", "-o", folder / "run", "--no-report"]
        done = CliRunner().invoke(easyfirst, [str(each) for each in given])
        if done.exit_code:
            raise RefusedError(done.exit_code, done.output)

    def digest(self, folder, result):
        names = sorted(path.name for path in (folder / "run").iterdir())
        summary = json.loads((folder / "run" / "summary.json").read_text())
        coefs = [each["coef"] for each in summary["coefficients"]]
        files = [(folder / "run" / name).read_bytes() for name in names if name.endswith("csv")]
        return digest_of(names, coefs, *files)

    def complaint(self, folder, error):
        if not isinstance(error, RefusedError) or error.code not in (3, 5):
            return f"not a documented refusal: {error!r}"
        return f"there is {os.listdir(folder)}" if os.listdir(folder) else None


class Pieces(Command):
    """The same of a table that is read in pieces."""

    data = "table.parquet"

    def run(self, folder):
        from easyfirst.tables import large_runs

        before = large_runs.IN_MEMORY, large_runs.MOST_TIMES_DISK
        large_runs.IN_MEMORY = large_runs.MOST_TIMES_DISK = 1e12
        try:
            super().run(folder)
        finally:
            large_runs.IN_MEMORY, large_runs.MOST_TIMES_DISK = before


class RefusedError(Exception):
    def __init__(self, code, output):
        super().__init__(output[-300:])
        self.code = code


SCENARIOS = {
    "fit": Fit,
    "write_weights": Weights,
    "save": Save,
    "command": Command,
    "command in pieces": Pieces,
}


def write_inputs(folder):
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    y = X @ [1.0, 2.0, 3.0] + 0.1 * rng.normal(size=1500)
    y[::10] += rng.uniform(3, 9, 150)
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y})
    pq.write_table(table, folder / "rows.parquet", row_group_size=300, write_page_checksum=True)
    city = pa.array(rng.choice(["Ulm", "Bonn"], 1500))
    table = table.append_column("city", city).slice(0, 600)
    pa_csv.write_csv(table, folder / "table.csv")
    pq.write_table(table, folder / "table.parquet", row_group_size=200, write_page_checksum=True)


def tortured(scenario, disk, folder, reference, kind, n_calls, most):
    """Let each call of a kind fail, and return what came of it."""
    from easyfirst.errors import BadFileError, CheckpointError, ModelFileError

    documented = (OSError, BadFileError, CheckpointError, ModelFileError, RefusedError)
    chosen = range(1, n_calls + 1)
    if most and n_calls > most:
        chosen = sorted({1 + round(k * (n_calls - 1) / (most - 1)) for k in range(most)})
    found = {"calls": n_calls, "failed": len(chosen), "right": 0, "refused": 0, "wrong": []}
    for number in chosen:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        disk.arm(kind, number)
        try:
            result, error = scenario.run(folder), None
        except documented as raised:
            result, error = None, raised
        except Exception as raised:
            found["wrong"].append(f"{kind} {number}: {type(raised).__name__}: {raised}"[:300])
            continue
        finally:
            disk.disarm()
        if error is None:
            is_right = scenario.digest(folder, result) == reference
            found["right"] += is_right
            if not is_right:
                found["wrong"].append(f"{kind} {number}: another result")
            continue
        complaint = scenario.complaint(folder, error)
        if complaint is None and scenario.goes_on:
            is_right = scenario.digest(folder, scenario.run(folder)) == reference
            complaint = None if is_right else "another result afterwards"
        found["refused"] += complaint is None
        found["wrong"] += [] if complaint is None else [f"{kind} {number}: {complaint}"]
    return found


def inside(folder, most, names):
    """Run scenarios on a faulty disk."""
    from easyfirst.engines import out_of_core

    warnings.simplefilter("ignore")
    out_of_core.KEPT_SHARE = 0.0  # so that rows come from the cache and from files
    inputs = folder / "inputs"
    inputs.mkdir(exist_ok=True)
    write_inputs(inputs)
    disk, found = Disk(folder), {}
    for name in names or SCENARIOS:
        scenario, place = SCENARIOS[name](inputs), folder / "place"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        scenario.run(place)  # what is loaded once, is loaded now
        shutil.rmtree(place)
        place.mkdir()
        disk.arm()
        result = scenario.run(place)
        calls = disk.counts()
        disk.disarm()
        reference = scenario.digest(place, result)
        found[name] = {
            kind: tortured(scenario, disk, place, reference, kind, calls[kind], most)
            for kind in KINDS
        }
    print(json.dumps(found))


def table(found):
    """Return what came of all failures, as text."""
    lines = [f"{'what':18} {'call':7} calls failed  right refused  wrong"]
    for name, kinds in found.items():
        for kind, each in kinds.items():
            lines.append(
                f"{name:18} {kind:7} {each['calls']:5d} {each['failed']:6d} {each['right']:6d} "
                f"{each['refused']:7d} {len(each['wrong']):6d}"
            )
            lines += [f"    {wrong}" for wrong in each["wrong"][:5]]
    return "\n".join(lines)


def all_well(found):
    """Whether nothing but right results and documented errors came of it."""
    return not any(each["wrong"] for kinds in found.values() for each in kinds.values())


def main():
    if sys.argv[1] == "--inside":
        inside(Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
        return 0
    found = run_alone(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None)
    print(table(found))
    return 0 if all_well(found) else 1


if __name__ == "__main__":
    sys.exit(main())
