"""Model files: what goes in comes out, and nothing else comes in."""

import ast
import importlib
import json
import os
import pickle
import re
import subprocess
import sys
from dataclasses import dataclass, fields, is_dataclass
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

import easyfirst
from easyfirst import SelfPacedRegressor, files, load
from easyfirst.callbacks import Callback
from easyfirst.engines import Inline
from easyfirst.errors import ModelFileError
from easyfirst.estimators import saving
from easyfirst.estimators.settings import PLUG_INS
from easyfirst.files import reading
from easyfirst.losses import Loss
from easyfirst.penalties import NoPenalty, Penalty, Ridge
from easyfirst.regularizers import Entropic, Hard, Linear, SelfPacedRegularizer
from easyfirst.schedules import Calibrated, Constant, Geometric, PaceSchedule, Quantile
from hostile_files import everything, foreign, resigned, signed, split, with_header, with_state
from problems import corrupted_rows, members

ROWS = corrupted_rows(n=60, p=3)
ADVICE = {"transform": {"power": 0.0}, "gain": 1.0, "wrong": 0.1, "wrong_before": 0.2, "error": 0.9}


def assert_same(a, b, where="model"):
    """The same types, values and bits, however deep."""
    assert type(a) is type(b), where
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype, where
        assert a.shape == b.shape, where
        assert a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes(), where
    elif is_dataclass(a):
        for part in fields(a):
            assert_same(getattr(a, part.name), getattr(b, part.name), f"{where}.{part.name}")
    elif isinstance(a, tuple):
        assert len(a) == len(b), where
        for i, (left, right) in enumerate(zip(a, b, strict=True)):
            assert_same(left, right, f"{where}[{i}]")
    elif isinstance(a, float):
        assert a.hex() == b.hex(), where
    else:
        assert a == b, where


def assert_same_models(a, b):
    assert set(vars(a)) == set(vars(b))
    for name, value in vars(a).items():
        assert_same(value, vars(b)[name], name)


@pytest.fixture(scope="module")
def fitted():
    return SelfPacedRegressor().fit(ROWS.X, ROWS.y)


@pytest.fixture(scope="module")
def model_bytes(fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    fitted.save(path)
    return path.read_bytes()


@pytest.fixture
def refused(tmp_path):
    """A function that writes bytes to a file and returns the message of the refusal."""

    def attempt(content):
        path = tmp_path / "some.safetensors"
        path.write_bytes(content)
        with pytest.raises(ModelFileError) as caught:
            load(path)
        assert str(path) in str(caught.value)
        return str(caught.value)

    return attempt


# Round trips

settings = st.fixed_dictionaries(
    {
        "pace": st.sampled_from([None, Calibrated(growth=1.5), Quantile(0.5, 0.8), Constant()]),
        "regularizer": st.sampled_from([None, Entropic(softness=0.1), Linear(), Hard()]),
        "penalty": st.sampled_from([None, NoPenalty(), Ridge(0.1)]),
        "solver": st.sampled_from(["auto", "admm", "gram"]),
        "rho": st.sampled_from(["auto", "adaptive", 3.5, np.float64(2.0)]),
        "fit_intercept": st.booleans(),
        "n_batches": st.sampled_from([None, 1, 4]),
        "random_state": st.sampled_from([None, 7]),
        "polish": st.sampled_from(["auto", False]),
    }
)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::easyfirst.errors.NoSingleModelWarning")
@given(settings=settings, named=st.booleans())
def test_every_fitted_attribute_comes_back_with_the_same_bits(settings, named, tmp_path_factory):
    pandas = pytest.importorskip("pandas", reason="column names come with a data frame")
    path = tmp_path_factory.mktemp("round") / "model.safetensors"
    X = pandas.DataFrame(ROWS.X, columns=["größe", "a\nb", ""]) if named else ROWS.X
    model = SelfPacedRegressor(max_rounds=20, max_iter=30, engine="inline", **settings)
    model.fit(X, ROWS.y)
    model.save(path)
    again = load(path)
    model.rho = model.rho.item() if isinstance(model.rho, np.generic) else model.rho
    assert_same_models(model, again)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_a_loaded_model_knows_how_sure_it_is(fitted, tmp_path):
    fitted.save(tmp_path / "m")
    again = load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_interval(ROWS.X), fitted.predict_interval(ROWS.X))
    assert again.confidence_intervals().equals(fitted.confidence_intervals())
    np.testing.assert_array_equal(
        again.clean_probability(ROWS.X, ROWS.y), fitted.clean_probability(ROWS.X, ROWS.y)
    )
    assert str(again.status_) == str(fitted.status_)
    assert again.history_ == fitted.history_


def test_a_loaded_model_can_be_saved_and_fitted_again(fitted, tmp_path):
    fitted.save(tmp_path / "one")
    load(tmp_path / "one").save(tmp_path / "two")
    assert_same_models(fitted, load(tmp_path / "two"))
    again = load(tmp_path / "one").fit(ROWS.X, ROWS.y)
    np.testing.assert_array_equal(again.coef_, fitted.coef_)


@pytest.mark.parametrize("kind", [Loss, Penalty, SelfPacedRegularizer, PaceSchedule])
def test_every_plug_in_of_the_package_can_be_stored(kind):
    for member in members(kind):
        assert PLUG_INS[member.__name__] is member


def test_the_papers_model_comes_back(tmp_path):
    model = SelfPacedRegressor.paper(pace=Geometric(0.2, 1.5, 4.0)).fit(ROWS.X, ROWS.y)
    model.save(tmp_path / "m")
    assert_same_models(model, load(tmp_path / "m"))
    assert not hasattr(load(tmp_path / "m"), "noise_scale_")


def test_a_model_of_rows_that_stayed_where_they_are_comes_back(tmp_path):
    pandas = pytest.importorskip("pandas", reason="reads a data frame")
    pytest.importorskip("pyarrow", reason="reads Parquet")
    frame = pandas.DataFrame(ROWS.X, columns=["a", "b", "c"]).assign(y=ROWS.y)
    frame.to_parquet(tmp_path / "rows.parquet")
    source = easyfirst.read_parquet(tmp_path / "rows.parquet", target="y")
    model = SelfPacedRegressor(engine="inline").fit(source)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    # The rule that weighs rows where they are belongs to the fit's batches, not to the model.
    del model._judgement
    assert_same_models(model, again)
    assert not hasattr(again, "weights_")
    X = frame[["a", "b", "c"]]
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_the_weights_can_be_left_out(fitted, tmp_path):
    fitted.save(tmp_path / "with")
    fitted.save(tmp_path / "without", weights=False)
    again = load(tmp_path / "without")
    assert set(vars(fitted)) - set(vars(again)) == {"weights_", "selected_"}
    np.testing.assert_array_equal(again.predict(ROWS.X), fitted.predict(ROWS.X))
    saved = (tmp_path / "with").stat().st_size - (tmp_path / "without").stat().st_size
    assert saved >= fitted.weights_.nbytes


def test_what_belongs_to_the_session_is_left_out(tmp_path):
    model = SelfPacedRegressor(
        engine=Inline(), callbacks=[Callback()], random_state=np.random.RandomState(0)
    ).fit(ROWS.X, ROWS.y)
    model.save(tmp_path / "m")
    again, default = load(tmp_path / "m"), SelfPacedRegressor()
    assert again.get_params() == default.get_params()
    assert sorted(files.read(tmp_path / "m").state["left_out"]) == [
        "callbacks", "engine", "random_state",
    ]  # fmt: skip


def test_the_file_says_when_and_how_the_model_was_fitted(fitted, tmp_path):
    fitted.save(tmp_path / "m")
    facts = files.read(tmp_path / "m").state
    assert facts["fitted"]["rows"] == 60
    assert facts["fitted"]["at"].endswith("+00:00")
    assert facts["versions"]["easyfirst"] == easyfirst.__version__
    assert facts["versions"]["numpy"] == np.__version__
    assert facts["settings"]["solver"] == "auto"


def test_any_safetensors_reader_finds_the_arrays(fitted, tmp_path):
    numpy_reader = pytest.importorskip("safetensors.numpy", reason="needs safetensors")
    fitted.save(tmp_path / "m")
    found = numpy_reader.load_file(tmp_path / "m")
    np.testing.assert_array_equal(found["coef"], fitted.coef_)
    np.testing.assert_array_equal(found["weights"], fitted.weights_)


@dataclass(frozen=True)
class MyPenalty(Ridge):
    pass


def test_a_plug_in_of_the_users_own_is_refused_before_anything_is_written(tmp_path):
    model = SelfPacedRegressor(penalty=MyPenalty(0.1)).fit(ROWS.X, ROWS.y)
    with pytest.raises(TypeError, match=r"penalty=MyPenalty.*to_sklearn"):
        model.save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_is_not_fitted_or_not_ours_is_not_saved(fitted, tmp_path):
    class Special(SelfPacedRegressor):
        pass

    with pytest.raises(NotFittedError):
        SelfPacedRegressor().save(tmp_path / "m")
    with pytest.raises(TypeError, match="Special may be more than that"):
        Special().fit(ROWS.X, ROWS.y).save(tmp_path / "m")


# Writing


def test_a_file_that_is_there_stays_unless_asked(fitted, tmp_path):
    path = tmp_path / "m"
    path.write_text("precious")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        fitted.save(path)
    assert path.read_text() == "precious"
    fitted.save(path, overwrite=True)
    assert_same_models(fitted, load(path))
    assert list(tmp_path.iterdir()) == [path]


def test_links_and_directories_are_not_replaced(fitted, tmp_path):
    (tmp_path / "real").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "folder").mkdir()
    for name in ("link", "folder"):
        with pytest.raises(ModelFileError, match="plain file"):
            fitted.save(tmp_path / name, overwrite=True)
    assert (tmp_path / "real").read_text() == "precious"
    fitted.save(tmp_path / "real", overwrite=True)
    assert_same_models(fitted, load(tmp_path / "link"))


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_failing_disk_leaves_the_old_file_and_no_debris(fitted, tmp_path, monkeypatch, call):
    path = tmp_path / "m"
    fitted.save(path)
    before = path.read_bytes()

    def fail(*args):
        raise OSError(28, "No space left on device")

    if call == "write":
        monkeypatch.setattr("easyfirst.files.writing.bytes_of", fail)
    elif call == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    else:
        monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        fitted.save(path, overwrite=True)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_whoever_was_faster_keeps_the_name(fitted, tmp_path, monkeypatch):
    path, link = tmp_path / "m", os.link

    def be_late(source, target):
        path.write_text("precious")
        link(source, target)

    monkeypatch.setattr(os, "link", be_late)
    with pytest.raises(FileExistsError, match="somebody else"):
        fitted.save(path)
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_system_without_links_will_do(fitted, tmp_path, monkeypatch):
    def refuse(source, target):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    fitted.save(tmp_path / "m")
    assert_same_models(fitted, load(tmp_path / "m"))
    assert list(tmp_path.iterdir()) == [tmp_path / "m"]


def test_the_same_contents_give_the_same_bytes(tmp_path):
    arrays = {"b": np.arange(3, dtype=np.uint8), "a": np.arange(6.0).reshape(2, 3)}
    for name in ("one", "two"):
        files.write(tmp_path / name, "example", {"x": [1, "ü", None]}, arrays)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_arrays_of_any_layout_come_back(tmp_path):
    arrays = {
        "transposed": np.arange(6.0).reshape(2, 3).T,
        "big_endian": np.arange(4, dtype=">f8"),
        "scalar": np.array(1.5),
        "empty": np.empty((0, 3)),
        "truth": np.array([True, False]),
        "bytes": np.array([0, 255], dtype=np.uint8),
        "strided": np.arange(10, dtype=np.int32)[::3],
    }
    files.write(tmp_path / "m", "example", {}, arrays)
    found = files.read(tmp_path / "m").arrays
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array, strict=name != "big_endian")


@pytest.mark.parametrize(
    ("facts", "arrays", "message"),
    [
        ({}, {"x": np.array(["text"])}, "convert it first"),
        ({}, {"x": np.array([object()])}, "convert it first"),
        ({}, {"x": np.ones(2, complex)}, "convert it first"),
        ({}, {"x": np.ones((1, 1, 1, 1, 1))}, "at most 4"),
        ({}, {"../x": np.ones(2)}, "name must match"),
        ({"x": "long" * 300_000}, {}, "put long lists into arrays"),
        ({"x": float("nan")}, {}, "not JSON compliant"),
    ],
)
def test_what_a_file_cannot_hold_is_refused_before_it_is_written(facts, arrays, message, tmp_path):
    with pytest.raises((TypeError, ValueError), match=message):
        files.write(tmp_path / "m", "example", facts, arrays)
    assert list(tmp_path.iterdir()) == []


def test_texts_of_any_kind_survive_as_bytes():
    texts = ["", "a", "ü\n\0", "\ud800", "ÿ" * 5, "😀"]
    assert files.texts_from_array(files.texts_to_array(texts), len(texts)) == texts
    assert files.texts_from_array(files.texts_to_array([]), 0) == []


# Reading what should not be read


def mutations(original, count, seed):
    """Yield `count` damaged copies: flipped bits, cut and added bytes, moved and zeroed spans."""
    rng = np.random.default_rng(seed)
    size = len(original)
    while count:
        content = bytearray(original)
        begin, length = int(rng.integers(size)), int(rng.integers(1, 64))
        other = int(rng.integers(size))
        match int(rng.integers(6)):
            case 0:
                for at in rng.integers(size, size=rng.integers(1, 5)):
                    content[at] ^= 1 << int(rng.integers(8))
            case 1:
                del content[begin:]
            case 2:
                content[begin:begin] = rng.bytes(length)
            case 3:
                content[begin : begin + length] = content[other : other + length]
            case 4:
                del content[begin : begin + length]
            case 5:
                content[begin : begin + length] = bytes(len(content[begin : begin + length]))
        if bytes(content) != original:
            count -= 1
            yield bytes(content)


def test_three_thousand_mutated_files_are_all_refused(model_bytes, refused):
    for content in mutations(model_bytes, 3000, seed=0):
        refused(content)


def test_a_mutated_file_with_a_fitting_digest_is_refused_or_works(model_bytes, tmp_path):
    path, outcomes = tmp_path / "m", {"refused": 0, "loaded": 0}
    for content in mutations(model_bytes, 1500, seed=1):
        path.write_bytes(resigned(content))
        try:
            model = load(path)
        except ModelFileError:
            outcomes["refused"] += 1
        else:  # other numbers, or another word in a message
            assert np.all(np.isfinite(model.predict(np.zeros((2, 3)))))
            assert np.all(np.isfinite(model.predict_interval(np.zeros((2, 3)))))
            outcomes["loaded"] += 1
    assert min(outcomes.values()) > 100  # both happen, so both were tried


def test_a_mutated_table_model_with_a_fitting_digest_is_refused_or_loads(tmp_path):
    pandas = pytest.importorskip("pandas", reason="table models need the tool extra")
    pytest.importorskip("pyarrow", reason="table models need the tool extra")
    tables = importlib.import_module("easyfirst.tables")
    frame = pandas.DataFrame(ROWS.X, columns=["a", "b", "c"])
    frame = frame.assign(kind=list("xyz") * 20, y=ROWS.y)
    path, outcomes = tmp_path / "m", {"refused": 0, "loaded": 0}
    tables.TableModel("y").fit(frame).save(path)
    assert isinstance(load(path), tables.TableModel)
    for content in mutations(path.read_bytes(), 1000, seed=2):
        path.write_bytes(resigned(content))
        try:
            model = load(path)
        except ModelFileError:
            outcomes["refused"] += 1
        else:
            assert np.all(np.isfinite(model.regressor_.coef_))
            outcomes["loaded"] += 1
    assert min(outcomes.values()) > 50


def test_a_flipped_byte_is_noticed_wherever_it_is(model_bytes, refused):
    for at in range(0, len(model_bytes), 17):
        refused(model_bytes[:at] + bytes([model_bytes[at] ^ 0x55]) + model_bytes[at + 1 :])


HOSTILE_RUN = """
import json, re, sys
from pathlib import Path
from easyfirst import load
from easyfirst.errors import ModelFileError

def kibibytes(name):
    return int(re.search(name + r":\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

folder, outcomes = Path(sys.argv[1]), []
load(folder / "good")
Path("/proc/self/clear_refs").write_text("5")  # the peak so far, of the imports, is forgotten
before = kibibytes("VmRSS")
for path in sorted(folder.glob("[0-9]*")):
    try:
        load(path)
    except ModelFileError as error:
        outcomes.append(str(path) in str(error))
    else:
        outcomes.append(False)
print(json.dumps({"outcomes": outcomes, "grown": kibibytes("VmHWM") - before}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells the peak of memory")
def test_hostile_files_are_refused_run_nothing_and_need_little_memory(model_bytes, tmp_path):
    trap = tmp_path / "trap"
    hostile = everything(model_bytes, str(trap))
    assert len(hostile) >= 200
    assert len({content for _, content in hostile}) > len(hostile) - 10
    (tmp_path / "good").write_bytes(model_bytes)
    for number, (_, content) in enumerate(hostile):
        (tmp_path / f"{number:04}").write_bytes(content)
    for number, length in enumerate((1 << 30, 1 << 40), start=9000):  # holes: no disk is used
        with open(tmp_path / str(number), "wb") as file:
            file.write(model_bytes)
            file.truncate(length)
    before = set(tmp_path.iterdir())
    source = os.fspath(resources.files(easyfirst).joinpath(".."))
    done = subprocess.run(
        [sys.executable, "-c", HOSTILE_RUN, os.fspath(tmp_path)],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    wrong = [hostile[i][0] for i, refused in enumerate(found["outcomes"][:-2]) if not refused]
    assert wrong == []
    assert found["outcomes"][-2:] == [True, True]
    assert 1024 < found["grown"] < 50 * 1024  # KiB; a header alone may take one MiB
    assert set(tmp_path.iterdir()) == before
    assert not trap.exists()


def test_the_trap_would_spring_if_a_pickle_were_opened(tmp_path):
    _, content = next(foreign(str(tmp_path / "trap")))
    pickle.loads(content).close()
    assert (tmp_path / "trap").exists()


@pytest.mark.parametrize("name", ["folder", "pipe", "device"])
def test_what_is_not_a_plain_file_is_refused_without_waiting(name, tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    path = Path("/dev/zero") if name == "device" else tmp_path / name
    with pytest.raises(ModelFileError, match="not a plain file"):
        load(path)


def test_a_missing_file_is_an_ordinary_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b[:-10], "cut off"),
        (lambda b: b + b"more", "belong to nothing"),
        (lambda b: b[:200], "is damaged: it ends after 200 bytes"),
        (lambda b: b[:-1] + bytes([b[-1] ^ 1]), "digest does not fit"),
        (lambda b: b"\x80\x04\x95" + b, "is a pickle, which easyfirst never opens"),
        (lambda b: b"x,y\n1,2\n3,4\n", "not a model file"),
        (
            lambda b: with_header(b, lambda h: h["__metadata__"].update(version="2")),
            "written by a newer easyfirst .* upgrade easyfirst",
        ),
        (
            lambda b: with_header(b, lambda h: h["__metadata__"].update(kind="oracle")),
            "holds a 'oracle'",
        ),
        (lambda b: with_state(b, lambda f: f.pop("status")), "'status' is missing"),
        (
            lambda b: with_state(b, lambda f: f.update(advice={**ADVICE, "gain": "much"})),
            "advice on the target",
        ),
        (
            lambda b: with_state(b, lambda f: f.update(advice={**ADVICE, "transform": {}})),
            "not a model|power",
        ),
    ],
)
def test_a_refusal_says_what_is_wrong(change, message, model_bytes, refused):
    assert re.search(message, refused(change(model_bytes)))


def test_a_file_with_a_fitting_digest_is_read(model_bytes, fitted, tmp_path):
    # The tests above sign their files again; this shows that signing is not what fails.
    (tmp_path / "m").write_bytes(signed(*split(model_bytes)))
    assert_same_models(fitted, load(tmp_path / "m"))


def test_a_file_from_before_a_record_had_all_its_fields_is_read(model_bytes, fitted, tmp_path):
    header, data = split(model_bytes)
    place = header["rounds.messages"]["data_offsets"]
    width = place[1] - place[0]
    del header["rounds.messages"]
    for entry in header.values():
        if "data_offsets" in entry and entry["data_offsets"][0] >= place[1]:
            entry["data_offsets"] = [at - width for at in entry["data_offsets"]]
    (tmp_path / "m").write_bytes(signed(header, data[: place[0]] + data[place[1] :]))
    again = load(tmp_path / "m")
    assert {record.messages for record in again.history_.rounds} == {0}


def test_a_file_that_changes_while_it_is_read_is_refused(model_bytes, tmp_path, monkeypatch):
    path = tmp_path / "m"
    path.write_bytes(model_bytes)
    honest = reading._require_digest

    def change_afterwards(*args):
        honest(*args)
        path.write_bytes(model_bytes[:-8] + b"tampered")

    monkeypatch.setattr(reading, "_require_digest", change_afterwards)
    with pytest.raises(ModelFileError, match="changed while it was read"):
        load(path)


# No code in files

FORBIDDEN_MODULES = {"cloudpickle", "dill", "marshal", "pickle", "shelve", "_pickle"}
FORBIDDEN_CALLS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "joblib.load",
    "joblib.dump",
    "yaml.load",
}


def dangers(source):
    """Return what in a module's source could turn data into code."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.split(".")[0] in FORBIDDEN_MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module.split(".")[0] in FORBIDDEN_MODULES:
                found.append(node.module)
            if node.module in ("joblib", "yaml"):
                found += [a.name for a in node.names if a.name in ("load", "dump")]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in FORBIDDEN_CALLS:
            found.append(ast.unparse(node.func))
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            found += [] if ast.unparse(node.value) == "False" else ["allow_pickle"]
    return found


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import cloudpickle as c",
        "import joblib\njoblib.load('x')",
        "from joblib import load",
        "eval('1')",
        "np.load('x', allow_pickle=True)",
        "np.load('x', allow_pickle=flag)",
        "def f():\n    import marshal",
    ],
)
def test_the_search_for_dangers_finds(source):
    assert dangers(source)


def test_nothing_in_the_package_can_turn_a_file_into_code():
    package = Path(os.fspath(resources.files(easyfirst)))
    modules = sorted(package.rglob("*.py"))
    assert len(modules) > 60
    found = {str(path.relative_to(package)): dangers(path.read_text()) for path in modules}
    assert {path: names for path, names in found.items() if names} == {}


# Plain scikit-learn models


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_plain_model_predicts_the_same_bits(fit_intercept, dtype):
    model = SelfPacedRegressor(fit_intercept=fit_intercept).fit(ROWS.X, ROWS.y)
    plain = model.to_sklearn()
    assert type(plain) is LinearRegression
    X = ROWS.X.astype(dtype)
    np.testing.assert_array_equal(plain.predict(X), model.predict(X))
    assert plain.get_params()["fit_intercept"] is fit_intercept
    plain.coef_[:] = 0.0  # a copy: the model keeps its own
    assert np.all(model.coef_ != 0.0)


def test_the_plain_model_keeps_the_names_of_the_columns():
    pandas = pytest.importorskip("pandas", reason="column names come with a data frame")
    frame = pandas.DataFrame(ROWS.X, columns=["a", "b", "c"])
    plain = SelfPacedRegressor().fit(frame, ROWS.y).to_sklearn()
    assert plain.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        plain.predict(frame[["b", "a", "c"]])


def test_a_model_that_is_not_fitted_has_no_plain_one():
    with pytest.raises(NotFittedError):
        SelfPacedRegressor().to_sklearn()


# skl2onnx and onnxruntime are compiled against protobuf, whose types warn about their metaclass.
@pytest.mark.filterwarnings("ignore:Type google:DeprecationWarning")
def test_a_model_works_in_onnx(fitted):
    skl2onnx = pytest.importorskip("skl2onnx", reason="needs the onnx extra")
    runtime = pytest.importorskip("onnxruntime", reason="needs the onnx extra")
    from skl2onnx.common.data_types import DoubleTensorType

    graph = skl2onnx.to_onnx(
        fitted.to_sklearn(), initial_types=[("X", DoubleTensorType([None, 3]))]
    )
    session = runtime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (predicted,) = session.run(None, {"X": ROWS.X})
    np.testing.assert_allclose(predicted.ravel(), fitted.predict(ROWS.X), rtol=0, atol=1e-13)


def test_every_kind_of_file_has_a_loader_that_exists():
    for module, function in saving.LOADERS.values():
        assert callable(getattr(importlib.import_module(module), function))
