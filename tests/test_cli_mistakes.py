"""What users get wrong, each with its message and exit code: a table of bad inputs."""

import gzip
import os
import pickle
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import easyfirst
from easyfirst.cli.group import easyfirst as command
from easyfirst.tables import TableModel

USAGE, DATA, MODEL, OUTPUT, FAILED = 2, 3, 4, 5, 1

NOISE = np.random.default_rng(0).normal(size=60)
GOOD = "area,city,price\n" + "".join(
    f"{i % 23},{'ab'[i % 2]},{3 * (i % 23) + 5 * (i % 2) + noise:.3f}\n"
    for i, noise in enumerate(NOISE)
)
HEADING, *LINES = GOOD.splitlines()


def database(*names):
    """The bytes of a SQLite file with tables of these names."""
    with closing(sqlite3.connect(":memory:")) as made:
        for name in names:
            made.execute(f"CREATE TABLE {name} (price REAL)")
        return made.serialize()


def parquet(damage=None):
    sink = pa.BufferOutputStream()
    table = pa.table({"area": np.random.default_rng(0).random(500), "price": np.arange(500.0)})
    pq.write_table(table, sink, write_page_checksum=True, compression="none", use_dictionary=False)
    raw = bytearray(sink.getvalue().to_pybytes())
    if damage == "truncated":
        return bytes(raw[:-100])
    if damage == "flipped":
        raw[2000] ^= 4
    return bytes(raw)


def column(name, cells):
    """The good table with other cells in one column."""
    place = HEADING.split(",").index(name)
    lines = [line.split(",") for line in LINES]
    for line, cell in zip(lines, cells, strict=False):
        line[place] = str(cell)
    return "\n".join([HEADING, *(",".join(line) for line in lines)]) + "\n"


@dataclass(frozen=True)
class Mistake:
    """Files to make, the command to run beside them, and what has to be said.

    {model}, {bare} and {run} stand for a sound table model, a model without a table, and a run.
    """

    command: str
    code: int
    message: str
    files: dict = field(default_factory=dict)


FIT = "fit data.csv -t price"

READING = {
    "UTF-16 under another name": Mistake(
        f"{FIT} --encoding utf-8",
        DATA,
        "say so with --encoding utf-16",
        {"data.csv": GOOD.encode("utf-16")},
    ),
    "a misspelt command": Mistake("fti data.csv -t y", USAGE, "Did you mean 'fit'?"),
    "a missing file": Mistake("fit none.csv -t y", DATA, "none.csv does not exist"),
    "a misspelt file": Mistake(
        "fit dta.csv -t y", DATA, "did you mean data.csv?", {"data.csv": GOOD}
    ),
    "a directory": Mistake("fit folder -t y", DATA, "directory without tables", {"folder/a": ""}),
    "an empty file": Mistake(FIT, DATA, "data.csv is empty", {"data.csv": ""}),
    "a blank first line only": Mistake(FIT, DATA, "has no columns", {"data.csv": "\n"}),
    "a heading without rows": Mistake(FIT, DATA, "but no rows", {"data.csv": "area,price\n"}),
    "a binary file": Mistake(FIT, DATA, "not a text file", {"data.csv": bytes(range(256)) * 20}),
    "an Excel workbook": Mistake(FIT, DATA, "an Excel workbook", {"data.csv": b"PK\x03\x04xxxx"}),
    "a SQLite file": Mistake(FIT, DATA, "a SQLite database", {"data.csv": b"SQLite format 3\x00"}),
    "a web page": Mistake(FIT, DATA, "a web page", {"data.csv": "<!DOCTYPE html><p>1,2"}),
    "a database without a choice": Mistake(
        "fit data.sqlite -t price",
        DATA,
        "holds the tables 'a', 'b'; choose one with --table",
        {"data.sqlite": database("a", "b")},
    ),
    "a table that is not in the database": Mistake(
        "fit data.sqlite -t price --table flats",
        DATA,
        "did you mean 'flat'?",
        {"data.sqlite": database("flat")},
    ),
    "a query that is none": Mistake(
        "fit data.sqlite -t price --sql SELEC",
        DATA,
        "syntax error",
        {"data.sqlite": database("a")},
    ),
    "a query of a file": Mistake(
        f"{FIT} --sql SELECT", DATA, "is not a database", {"data.csv": GOOD}
    ),
    "a sheet of a file": Mistake(
        f"{FIT} --table Sheet1", DATA, "holds a single table", {"data.csv": GOOD}
    ),
    "broken JSON lines": Mistake(
        "fit a.jsonl -t price", DATA, "a.jsonl, line 2: not JSON", {"a.jsonl": '{"price": 1}\n{'}
    ),
    "JSON without a table": Mistake(
        "fit a.json -t price", DATA, "but no table", {"a.json": "[1, 2, 3]"}
    ),
    "a broken workbook": Mistake(
        "fit a.xlsx -t price", DATA, "not a whole Excel workbook", {"a.xlsx": b"PK\x03\x04xx"}
    ),
    "a broken archive": Mistake(
        "fit a.zip -t price", DATA, "cannot be unpacked", {"a.zip": b"PK\x03\x04xx"}
    ),
    "a pattern without a match": Mistake("fit no*.csv -t price", DATA, "no file matches"),
    "an address that nothing is at": Mistake(
        "fit memory://no/where.csv -t price", DATA, "memory://no/where.csv cannot be read"
    ),
    "empty standard input": Mistake("fit - -t price", DATA, "standard input is empty"),
    "a directory of several kinds": Mistake(
        "fit d -t price", DATA, "files of several kinds", {"d/a.csv": GOOD, "d/b.json": "[]"}
    ),
    "several units in the target": Mistake(
        FIT,
        DATA,
        "mixes the units 'eur', 'usd'",
        {"data.csv": column("price", ["5 €", "6 $"] * 30)},
    ),
    "a PDF": Mistake(FIT, DATA, "a PDF document", {"data.csv": b"%PDF-1.7\n"}),
    "gzip without its ending": Mistake(
        FIT, DATA, "end in .csv.gz", {"data.csv": gzip.compress(GOOD.encode())}
    ),
    "broken gzip": Mistake(
        "fit data.csv.gz -t price",
        DATA,
        "cannot be unpacked",
        {"data.csv.gz": b"\x1f\x8b" + bytes(50)},
    ),
    "truncated gzip": Mistake(
        "fit data.csv.gz -t price",
        DATA,
        "data.csv.gz",
        {"data.csv.gz": gzip.compress(GOOD.encode())[:-40]},
    ),
    "an unknown ending": Mistake(
        "fit data.dat -t price", DATA, "has the ending '.dat'", {"data.dat": GOOD}
    ),
    "a truncated Parquet file": Mistake(
        "fit a.parquet -t price", DATA, "not a whole Parquet", {"a.parquet": parquet("truncated")}
    ),
    "a Parquet file with a flipped bit": Mistake(
        "fit a.parquet -t price", DATA, "not a whole Parquet", {"a.parquet": parquet("flipped")}
    ),
    "text named Parquet": Mistake(
        "fit a.parquet -t price", DATA, "is text, in spite of the ending", {"a.parquet": GOOD}
    ),
    "a line with too few values": Mistake(
        FIT, DATA, "line 3: 2 values where the heading has 3", {"data.csv": "a,b,price\n1,2,3\n1,2"}
    ),
    "a column name twice": Mistake(
        FIT, DATA, "more than one column named 'area'", {"data.csv": "area,area,price\n1,2,3\n"}
    ),
    "no heading": Mistake(FIT, DATA, "has no heading", {"data.csv": "1,2.5\n3,4\n"}),
    "another encoding of the values": Mistake(
        f"{FIT} --encoding utf-8",
        DATA,
        "(see column 'ort')",
        {"data.csv": "ort,price\nKöln,1\n".encode("latin-1")},
    ),
    "another encoding of the heading": Mistake(
        f"{FIT} --encoding utf-8",
        DATA,
        "--encoding latin-1",
        {"data.csv": "größe,price\nä,1\n".encode("latin-1")},
    ),
    "an encoding that does not exist": Mistake(
        f"{FIT} --encoding klingon", DATA, "not the name of a text encoding", {"data.csv": GOOD}
    ),
    "an encoding that does not fit": Mistake(
        f"{FIT} --encoding utf-32", DATA, "is not utf-32 text", {"data.csv": GOOD}
    ),
}

COLUMNS = {
    "a misspelt target": Mistake(
        "fit data.csv -t pirce", DATA, "did you mean 'price'?", {"data.csv": GOOD}
    ),
    "a target unlike any column": Mistake(
        "fit data.csv -t zzz", DATA, "there is 'area', 'city', 'price'", {"data.csv": GOOD}
    ),
    "a misspelt feature": Mistake(
        f"{FIT} --features aera", DATA, "did you mean 'area'?", {"data.csv": GOOD}
    ),
    "a misspelt excluded column": Mistake(
        f"{FIT} --exclude citty", DATA, "did you mean 'city'?", {"data.csv": GOOD}
    ),
    "a misspelt row id": Mistake(
        f"{FIT} --row-id id", DATA, "no column 'id' for the row ids", {"data.csv": GOOD}
    ),
    "a misspelt batch column": Mistake(
        f"{FIT} --batches shop", DATA, "no column 'shop' for the batches", {"data.csv": GOOD}
    ),
    "the target as a feature": Mistake(
        f"{FIT} --features area,price", DATA, "it is the target", {"data.csv": GOOD}
    ),
    "the target excluded": Mistake(
        f"{FIT} --exclude price", DATA, "is the target and is excluded", {"data.csv": GOOD}
    ),
    "an excluded feature": Mistake(
        f"{FIT} --features area --exclude area", DATA, "cannot be a feature", {"data.csv": GOOD}
    ),
    "constant columns only": Mistake(
        f"{FIT} --features area",
        DATA,
        "'area' has the same value in every row",
        {"data.csv": column("area", ["7"] * 60)},
    ),
    "names only": Mistake(
        f"{FIT} --features city",
        DATA,
        "too many to be categories",
        {"data.csv": column("city", [f"city {i}" for i in range(60)])},
    ),
    "no column but the target": Mistake(
        FIT, DATA, "no column is left", {"data.csv": "price\n1\n2\n3\n"}
    ),
    "a target without values": Mistake(
        FIT, DATA, "no row has a value of the target", {"data.csv": column("price", [""] * 60)}
    ),
    "one row": Mistake(
        FIT, DATA, "1 row with a value of 'price'", {"data.csv": "area,price\n1,2\n"}
    ),
    "a target of text": Mistake(
        "fit data.csv -t city --task regression",
        DATA,
        "--task classification",
        {"data.csv": GOOD},
    ),
    "a target of yes and no": Mistake(
        FIT + " --task regression",
        DATA,
        "--task classification",
        {"data.csv": column("price", ["yes", "no"] * 30)},
    ),
    "a constant target": Mistake(
        FIT, DATA, "has the value 7 in all 60 rows", {"data.csv": column("price", ["7"] * 60)}
    ),
    "words in the target": Mistake(
        FIT,
        DATA,
        "say that such texts mean a missing value (--na cheap)",
        {"data.csv": column("price", [1, 2, 3, *(["cheap", "dear", "so", "la", "ti", "do"] * 2)])},
    ),
    "decimal commas in the target that were denied": Mistake(
        f"{FIT} --decimal .",
        DATA,
        "say how numbers are written with --decimal and --thousands",
        {"data.csv": column("price", [f'"{i},5"' for i in range(60)])},
    ),
    "row numbers only": Mistake(
        FIT, DATA, "with --features", {"data.csv": "x,price\n1,2\n2,4\n3,6\n4,9\n"}
    ),
    "a target of truth values": Mistake(
        f"{FIT} --task regression",
        DATA,
        "its type is bool",
        {"data.csv": column("price", ["true", "false"] * 30)},
    ),
    "a target of dates": Mistake(
        FIT, DATA, "its type is date32", {"data.csv": column("price", ["2024-01-01"] * 60)}
    ),
    "numbers too large": Mistake(
        FIT, DATA, "rescale X", {"data.csv": column("area", [1e200, 1e199] * 30)}
    ),
    "a target too large": Mistake(
        FIT, DATA, "rescale y", {"data.csv": column("price", [1e200 / (i + 1) for i in range(60)])}
    ),
}

OPTIONS = {
    "no target": Mistake("fit data.csv", USAGE, "Missing option '-t'", {"data.csv": GOOD}),
    "no data": Mistake("fit -t price", USAGE, "Missing argument 'DATA'"),
    "a misspelt option": Mistake(f"{FIT} --forse", USAGE, "--force", {"data.csv": GOOD}),
    "a pattern that the shell has taken apart": Mistake(
        "fit a.csv b.csv -t price", USAGE, "put a pattern of files in quotes"
    ),
    "an unknown command": Mistake("fitt data.csv", USAGE, "No such command 'fitt'"),
    "no rounds": Mistake(f"{FIT} --max-rounds 0", USAGE, "0 is not in the range"),
    "an unknown engine": Mistake(f"{FIT} --engine magic", USAGE, "'magic' is not one of"),
    "a cluster without an address": Mistake(f"{FIT} --engine dask", USAGE, "needs the --address"),
    "an address without a cluster": Mistake(f"{FIT} --address tcp://x", USAGE, "has no meaning"),
    "an unknown decimal mark": Mistake(f"{FIT} --decimal :", USAGE, "must be '.' or ',', got ':'"),
    "an unknown thousands mark": Mistake(f"{FIT} --thousands x", USAGE, "space or none, got 'x'"),
    "a table and a query": Mistake(f"{FIT} --table a --sql b", USAGE, "give one of them"),
    "a long delimiter": Mistake(f"{FIT} --delimiter ::", USAGE, "must be one character"),
    "a delimiter like the decimal mark": Mistake(
        f"{FIT} --delimiter , --decimal ,", USAGE, "are both ','"
    ),
    "a negative penalty": Mistake(f"{FIT} --ridge -1", USAGE, "-1.0 is not in the range"),
    "no configuration": Mistake("fit --config no.toml", USAGE, "no.toml cannot be read"),
    "a configuration that is no TOML": Mistake(
        "fit --config a.toml", USAGE, "a.toml is not TOML", {"a.toml": "target = \n"}
    ),
    "a misspelt key": Mistake(
        "fit --config a.toml", USAGE, "did you mean 'target'?", {"a.toml": 'tagret = "y"\n'}
    ),
    "a list for a single value": Mistake(
        "fit --config a.toml", USAGE, "target must be a single value", {"a.toml": "target = [1]\n"}
    ),
    "a number in a list of names": Mistake(
        "fit --config a.toml", USAGE, "must be a list of strings", {"a.toml": "exclude = [1]\n"}
    ),
    "a word for a truth value": Mistake(
        "fit --config a.toml", USAGE, "force must be true or false", {"a.toml": 'force = "yes"\n'}
    ),
    "a word for a number": Mistake(
        f"{FIT} --config a.toml",
        USAGE,
        "'many' is not a valid integer",
        {"a.toml": 'max-rounds = "many"\n', "data.csv": GOOD},
    ),
}

OUTPUTS = {
    "an empty name": Mistake(f"{FIT} -o ", USAGE, "the path is empty", {"data.csv": GOOD}),
    "a run that exists": Mistake(
        f"{FIT} -o old", OUTPUT, "--force", {"data.csv": GOOD, "old/rows.parquet": ""}
    ),
    "a run where a file is": Mistake(f"{FIT} -o data.csv", OUTPUT, "is a file", {"data.csv": GOOD}),
    "a run below a file": Mistake(
        f"{FIT} -o data.csv/a/run", OUTPUT, "not a directory", {"data.csv": GOOD}
    ),
    "a file that exists": Mistake(
        "predict {model} data.csv -o data.csv", OUTPUT, "exists already", {"data.csv": GOOD}
    ),
    "a directory instead of a file": Mistake(
        "predict {model} data.csv -o d", OUTPUT, "is a directory", {"data.csv": GOOD, "d/a": ""}
    ),
    "an ending without a format": Mistake(
        "predict {model} data.csv -o a.xlsx", OUTPUT, "must end in .csv", {"data.csv": GOOD}
    ),
    "a file in no directory": Mistake(
        "predict {model} data.csv -o no/a.csv", OUTPUT, "no directory no", {"data.csv": GOOD}
    ),
    "a device, even with force": Mistake(
        "predict {model} data.csv --force -o " + os.devnull,
        OUTPUT,
        "a link or a device",
        {"data.csv": GOOD},
    ),
    "Parquet on the screen": Mistake(
        "predict {model} data.csv --format parquet", USAGE, "cannot be printed", {"data.csv": GOOD}
    ),
}

MODELS = {
    "no model": Mistake("predict no.safetensors data.csv", MODEL, "does not exist"),
    "a directory without a model": Mistake(
        "predict d data.csv", MODEL, "holds no model.safetensors", {"d/a": ""}
    ),
    "a table for a model": Mistake("predict data.csv data.csv", MODEL, "", {"data.csv": GOOD}),
    "a pickle": Mistake(
        "inspect a.pkl", MODEL, "a pickle, which easyfirst never opens", {"a.pkl": b"\x80\x04N."}
    ),
    "a damaged model": Mistake("suspects damaged data.csv", MODEL, "damaged"),
    "a truncated model": Mistake("inspect truncated", MODEL, "truncated"),
    "a model without a table": Mistake(
        "predict {bare} data.csv", MODEL, "does not know the columns", {"data.csv": GOOD}
    ),
}

ROWS = {
    "a missing column": Mistake(
        "predict {model} new.csv", DATA, "the table lacks 'city'", {"new.csv": "area\n1\n"}
    ),
    "words for numbers": Mistake(
        "predict {model} new.csv",
        DATA,
        "'area' must hold numbers, but 1 of 1 values",
        {"new.csv": "area,city\nbig,a\n"},
    ),
    "a misspelt row id to predict": Mistake(
        "predict {model} data.csv --row-id nr", DATA, "for the row ids", {"data.csv": GOOD}
    ),
    "suspects without the target": Mistake(
        "suspects {model} new.csv", DATA, "no column 'price'", {"new.csv": "area,city\n1,a\n"}
    ),
    "suspects without a value of the target": Mistake(
        "suspects {model} new.csv", DATA, "no row has", {"new.csv": "area,city,price\n1,a,\n"}
    ),
    "no suspect wanted": Mistake("suspects {model} data.csv --top 0", USAGE, "0 is not in"),
    "suspects in words": Mistake("suspects {model} d.csv --top many", USAGE, "not a valid integer"),
    "a text file of suspects": Mistake(
        "suspects {model} data.csv --format text -o a.csv", USAGE, "for the screen"
    ),
    "an interval beyond certainty": Mistake(
        "predict {model} data.csv --interval 1.5", USAGE, "1.5 is not in the range"
    ),
}

COMPARE = {
    "an unknown method": Mistake(
        "compare data.csv -t price --methods magic",
        USAGE,
        "unknown method: magic; choose from easyfirst",
    ),
    "a single fold": Mistake("compare data.csv -t price --folds 1", USAGE, "1 is not in the range"),
    "no share": Mistake("compare data.csv -t price --share 0", USAGE, "0.0 is not in the range"),
    "too few rows for the folds": Mistake(
        "compare data.csv -t price", DATA, "too few for 5 folds", {"data.csv": "area,price\n1,2\n"}
    ),
    "a misspelt trusted column": Mistake(
        "compare data.csv -t price --trusted citi", DATA, "did you mean 'city'", {"data.csv": GOOD}
    ),
    "a trusted column of text": Mistake(
        "compare data.csv -t price --trusted city", DATA, "must hold numbers", {"data.csv": GOOD}
    ),
    "a trusted column that trusts nobody": Mistake(
        "compare data.csv -t price --trusted area",
        DATA,
        "marks no row as right",
        {"data.csv": column("area", [0] * 60)},
    ),
}

MISTAKES = READING | COLUMNS | OPTIONS | OUTPUTS | MODELS | ROWS | COMPARE


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The paths that mistakes refer to."""
    folder = tmp_path_factory.mktemp("models")
    cells = [line.split(",") for line in LINES]
    table = pa.table(
        {
            "area": [float(line[0]) for line in cells],
            "city": [line[1] for line in cells],
            "price": [float(line[2]) for line in cells],
        }
    )
    model = TableModel("price").fit(table)
    model.save(folder / "model.safetensors")
    model.regressor_.save(folder / "bare.safetensors")
    return {"model": folder / "model.safetensors", "bare": folder / "bare.safetensors"}


@pytest.fixture
def place(tmp_path, models, monkeypatch):
    """A folder to work in, with two models that are not sound."""
    raw = bytearray(models["model"].read_bytes())
    (tmp_path / "truncated").write_bytes(raw[:-10])
    raw[-10] ^= 1
    (tmp_path / "damaged").write_bytes(raw)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_table_of_mistakes_is_long_enough():
    assert len(MISTAKES) >= 60


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_explained_in_a_message_and_ends_with_its_code(name, place, models):
    mistake = MISTAKES[name]
    for path, content in mistake.files.items():
        (place / path).parent.mkdir(exist_ok=True)
        (place / path).write_bytes(content.encode() if isinstance(content, str) else content)
    before = snapshot(place)
    done = CliRunner().invoke(command, mistake.command.format(**models).split(" "))
    assert (done.exit_code, done.stdout) == (mistake.code, "")
    assert mistake.message in done.stderr
    for word in ("Traceback", "bug in easyfirst"):
        assert word not in done.stderr
    assert snapshot(place) == before


def snapshot(folder):
    """Every file below a folder and what is in it."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def strange_column(rng, n):
    """A column of some kind that tables have in the wild."""
    kinds = (
        lambda: rng.normal(size=n),
        lambda: rng.normal(size=n) * 1e100,
        lambda: rng.integers(0, 3, n),
        lambda: np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n)),
        lambda: rng.choice([np.inf, -np.inf, 1.0, 2.0], n),
        lambda: np.full(n, 3.5),
        lambda: 10**15 + rng.integers(0, 10, n),
        lambda: rng.random(n) < 0.5,
        lambda: [f"k{i}" for i in range(n)],
        lambda: rng.choice(["1", "2", "x"], n),
        lambda: [None] * n,
        lambda: np.datetime64("2020-01-01", "D") + rng.integers(0, 9, n),
        lambda: rng.choice(["=1+1", "<b>", "\u202e", "a\x1b[31m", "[red]x[/]"], n),
        lambda: rng.choice(['a"b', "a,b", "a\nb"], n),
    )
    return pa.array(kinds[rng.integers(len(kinds))]())


@pytest.mark.parametrize("seed", range(12))
def test_strange_tables_are_fitted_or_refused_and_never_show_a_defect(seed, place):
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 2, 3, 4, 8, 20, 60, 200]))
    names = [f"{prefix}{j}" for j, prefix in enumerate(["", "[bold]", "x y", "é", "a\x07"])]
    table = pa.table({name: strange_column(rng, n) for name in names[: rng.integers(1, 6)]})
    target = rng.normal(size=n) + np.arange(n) if seed % 4 else strange_column(rng, n)
    pq.write_table(table.append_column("y", pa.array(target)), "a.parquet")
    done = CliRunner().invoke(command, ["fit", "a.parquet", "-t", "y", "--no-report"])
    assert done.exit_code in (0, DATA), done.stderr
    if done.exit_code == 0:
        for name in ("predict", "suspects"):
            done = CliRunner().invoke(command, [name, "run", "a.parquet"])
            assert done.exit_code == 0, done.stderr
            assert "\x1b[31m" not in done.stdout
        assert "\x07" not in CliRunner().invoke(command, ["inspect", "run"]).stdout


def test_a_model_is_never_unpickled(place):
    class Trap:
        def __reduce__(self):
            return (os.mkdir, (str(place / "sprung"),))

    (place / "trap.safetensors").write_bytes(pickle.dumps(Trap()))
    done = CliRunner().invoke(command, ["predict", "trap.safetensors", "data.csv"])
    assert done.exit_code == MODEL
    assert not (place / "sprung").exists()


def test_a_cluster_that_does_not_answer_is_named(place):
    pytest.importorskip("distributed", reason="the extra 'dask' is not installed")
    (place / "data.csv").write_text(GOOD)
    from easyfirst.cli import clusters

    address = "tcp://127.0.0.1:1"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters, "PATIENCE", 0.5)
        arguments = [*FIT.split(), "--engine", "dask", "--address", address]
        done = CliRunner().invoke(command, arguments)
    assert done.exit_code == FAILED
    assert f"no dask cluster answers at {address}" in done.stderr


def test_the_bare_model_of_the_table_is_a_sound_one(models):
    assert isinstance(easyfirst.load(models["bare"]), easyfirst.SelfPacedRegressor)
