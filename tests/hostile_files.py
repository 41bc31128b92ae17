"""Files that want to be taken for models: foreign, nonsensical, and made to do harm."""

import gzip
import hashlib
import io
import json
import pickle
import struct
import tarfile
import zipfile

import joblib
import numpy as np

FIRST = b'{"__metadata__":{"digest":"'
CODES = {"float64": "F64", "float32": "F32", "int64": "I64", "uint8": "U8", "bool": "BOOL"}


def split(model):
    """Return (header, data) of a model file's bytes."""
    length = int.from_bytes(model[:8], "little")
    return json.loads(model[8 : 8 + length]), model[8 + length :]


def framed(text, data=b""):
    """Return a file with this header, taken literally."""
    return struct.pack("<Q", len(text)) + text + data


def signed(header, data):
    """Return a file with this header and a digest that fits, as anybody could make it."""
    header = dict(header)
    metadata = header.pop("__metadata__")
    metadata = {"digest": "0" * 64, **{k: v for k, v in metadata.items() if k != "digest"}}
    text = json.dumps({"__metadata__": metadata, **header}, separators=(",", ":")).encode()
    return resigned(framed(text, data))


def resigned(file):
    """Return the file with the digest that fits the rest of it."""
    begin = 8 + len(FIRST)
    blank = file[:begin] + b"0" * 64 + file[begin + 64 :]
    digest = hashlib.blake2b(blank, digest_size=32).hexdigest().encode()
    return file[:begin] + digest + file[begin + 64 :]


def with_state(model, change):
    """Return the model file with other facts, signed again."""
    header, data = split(model)
    facts = json.loads(header["__metadata__"]["facts"])
    change(facts)
    metadata = {**header["__metadata__"], "facts": json.dumps(facts)}
    return signed({**header, "__metadata__": metadata}, data)


def with_header(model, change):
    """Return the model file with another header, signed again."""
    header, data = split(model)
    return signed(change(header) or header, data)


def with_array(model, name, array):
    """Return the model file with another array in place of one, or beside them, signed again."""
    header, data = split(model)
    parts = {}
    for key, place in header.items():
        if key != "__metadata__":
            begin, end = place["data_offsets"]
            parts[key] = place["dtype"], place["shape"], data[begin:end]
    parts[name] = CODES[array.dtype.name], list(array.shape), array.tobytes()
    fresh, begin = {"__metadata__": header["__metadata__"]}, 0
    for key, (dtype, shape, part) in parts.items():
        end = begin + len(part)
        fresh[key] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
        begin = end
    return signed(fresh, b"".join(part for _, _, part in parts.values()))


class Payload:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def pickles(trap):
    """Yield (name, bytes) of files that run code when they are opened by what made them."""
    for protocol in range(6):
        yield f"a pickle, protocol {protocol}", pickle.dumps(Payload(trap), protocol)
    yield "a pickle's text", f"cos\nsystem\n(S'touch {trap}'\ntR.".encode()
    for compress in (0, 3, ("gzip", 3), ("bz2", 3), ("lzma", 3), ("xz", 3)):
        written = io.BytesIO()
        joblib.dump(Payload(trap), written, compress=compress)
        yield f"a joblib file, compressed {compress}", written.getvalue()
    for value in (np.array([Payload(trap)], dtype=object), np.ones(9)):
        written = io.BytesIO()
        np.save(written, value, allow_pickle=True)
        yield f"an npy file of {value.dtype}", written.getvalue()
        written = io.BytesIO()
        np.savez_compressed(written, coef=value)
        yield f"an npz file of {value.dtype}", written.getvalue()


def archive_with_a_bomb():
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.pkl", bytes(1 << 24))
        archive.writestr("../../escape", b"x")
    return written.getvalue()


def tar_that_escapes():
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("../escape"), io.BytesIO())
    return written.getvalue()


def foreign(trap):
    """Yield (name, bytes) of files of other formats."""
    yield from pickles(trap)
    yield "a zip archive with a bomb", archive_with_a_bomb()
    yield "a gzip bomb", gzip.compress(bytes(1 << 24))
    yield "a tar archive", tar_that_escapes()
    yield "a Parquet file", b"PAR1" + bytes(200) + b"PAR1"
    yield "an HDF5 file", b"\x89HDF\r\n\x1a\n" + bytes(200)
    yield "a PNG", b"\x89PNG\r\n\x1a\n" + bytes(200)
    yield "an ELF program", b"\x7fELF\x02\x01\x01" + bytes(200)
    yield "a shell script", f"#!/bin/sh\ntouch {trap}\n".encode()
    yield "a Python module", f"open({trap!r}, 'w')\n".encode()
    yield "a YAML with a tag", f"!!python/object/apply:os.system ['touch {trap}']\n".encode()
    yield "a CSV", b"x,y\n1,2\n3,4\n" * 50
    yield "JSON", json.dumps({"coef": [1, 2, 3]}).encode()
    yield "HTML", b"<html><script>alert(1)</script></html>"
    yield "UTF-16", "model".encode("utf-16") * 40
    yield "nothing", b""
    for size in (1, 2, 7, 8, 9, 16):
        yield f"{size} zero bytes", bytes(size)
        yield f"{size} bytes of 255", b"\xff" * size
    for seed in range(8):
        yield f"noise {seed}", np.random.default_rng(seed).bytes(4096)


def headers(model):
    """Yield files whose header lies about itself."""
    header, data = split(model)
    text = json.dumps(header, separators=(",", ":")).encode()
    for length in (0, 1, len(text) + len(data) + 1, 1 << 20, 1 << 31, 1 << 32, 1 << 63, 2**64 - 1):
        yield f"a header of {length} bytes", struct.pack("<Q", length) + text + data
    for depth in (1_000, 100_000, 500_000):
        yield f"{depth} brackets", framed(b"[" * depth)
        inner = b"[" * depth + b"]" * depth
        yield f"{depth} brackets inside", framed(b'{"__metadata__":' + inner + b"}")
        yield f"{depth} objects", framed(b'{"a":' * (depth // 5) + b"1" + b"}" * (depth // 5))
    yield "a number of 500,000 digits", framed(b'{"a":' + b"9" * 500_000 + b"}")
    keys = b",".join(b'"%d":[]' % i for i in range(80_000))
    yield "80,000 keys", framed(b"{" + keys + b"}")
    yield "340,000 lists", framed(b'{"a":[' + b"[]," * 340_000 + b"[]]}")
    for value in (b"NaN", b"Infinity", b"-Infinity", b"1e999", b"0x10", b"01", b"'a'", b"nul"):
        odd = text.replace(b'"shape":[]', b'"shape":[%s]' % value, 1)
        yield f"a shape of {value}", resigned(framed(odd, data))
    twice = text[:-1] + b',"coef":' + json.dumps(header["coef"]).encode() + b"}"
    yield "an array twice", resigned(framed(twice, data))
    yield "a header that is a list", framed(b"[]")
    yield "an empty header", framed(b"{}")
    yield "a header in Latin-1", framed(b'{"\xe9":1}')
    yield "trailing bytes", model + b"\0"
    yield "trailing bytes, signed", resigned(model + bytes(64))
    yield "a missing byte, signed", resigned(model[:-1])
    yield "two models", model + model


def arrays(model):
    """Yield files whose list of arrays makes no sense, with a digest that fits."""
    n_bytes = len(split(model)[1])
    wrong = {
        "shape": [
            [-1], [-3, -1], [2**63], [2**62, 4], [2**31, 2**31, 2**31], [0, 2**55, 2**55],
            [10**30], [1.0], ["3"], [None], [True], [[3]], {}, None, "3", 3, [1] * 5, [1] * 100,
        ],
        "data_offsets": [
            [0, 2**63], [-8, 16], [16, 8], [8, 32], [0, n_bytes], [0], [0, 8, 16], [0.0, 24.0],
            None, ["0", "24"], [2**70, 2**70 + 24], [True, 24],
        ],
        "dtype": ["F16", "BF16", "U64", "f64", "O", "", None, 8, ["F64"], {"F64": 1}, "F64\0"],
        "code": ["import os"],
    }  # fmt: skip
    for key, values in wrong.items():
        for value in values:
            yield (
                f"{key} {value!r:.40}",
                with_header(model, lambda h, k=key, v=value: h["coef"].update({k: v})),
            )
    for name in ("../coef", "/etc/passwd", "", "a" * 200, "c\0f", "c f", "__reduce__()", "ü"):
        yield f"name {name!r:.20}", with_header(model, lambda h, n=name: {**h, n: h["coef"]})
    for place in (None, 3, "coef", [], {}, {"dtype": "F64"}):
        yield f"entry {place!r}", with_header(model, lambda h, p=place: h.update(coef=p))
    yield "no arrays", with_header(model, lambda h: {"__metadata__": h["__metadata__"]})


def metadata(model):
    """Yield files whose metadata are not those of a model."""
    wrong = {
        "format": [None, "pt", "EASYFIRST-MODEL", 1, ["easyfirst-model"]],
        "version": ["2", "999999", "0", "-1", "1.0", "", "1 ", 1, None, "१", "9" * 5000],
        "kind": ["os.system", "", "regressor", "../x", None, 3, "x" * 10_000],
        "facts": ["", "[]", "null", "{", "{'a': 1}", '{"a":NaN}', '{"a":1,"a":1}', None, {}],
        "loader": ["os.system"],
    }
    wrong["facts"].append('{"a":' * 9_000 + "1" + "}" * 9_000)
    for key, values in wrong.items():
        for value in values:
            yield (
                f"{key} {value!r:.20}",
                with_header(model, lambda h, k=key, v=value: h["__metadata__"].update({k: v})),
            )
    yield "no metadata", framed(b'{"a":1}')
    begin = 8 + len(FIRST)
    for digest in (b"0" * 64, b"f" * 64, b"F" * 64, b"g" * 64, b" " * 64):
        yield f"digest {digest[:1]!r}...", model[:begin] + digest + model[begin + 64 :]
    yield "the digest under another name", resigned(model.replace(b'"digest"', b'"Digest"', 1))


def settings(model):
    """Yield sound files that describe settings nobody can have."""
    ridge = [{"strength": "x"}, {"strength": -1.0}, {"strength": {"float": "nan"}},
             {"strength": 10**400}, {"strength": [1.0]}, {"other": 1.0}, []]  # fmt: skip
    values = {
        "pace": ["os.system", 3, {"class": "Popen", "fields": {"args": "ls"}}, {"float": "1"}],
        "penalty": [
            *({"class": "Ridge", "fields": fields} for fields in ridge),
            {"class": "Ridge"},
            {"class": ["Ridge"], "fields": {}},
            {"class": "Geometric", "fields": {}},
            {"class": "Penalty", "fields": {}},
        ],
        "solver": ["magic", None, 1, {}],
        "tol": ["small", -1.0, {"float": "inf"}, None, []],
        "max_rounds": [0, 1.5, "many", True],
        "engine": [{"class": "DaskEngine"}, 7, ["threads"]],
        "n_jobs": ["all", {}],
        "callbacks": ["print", 3],
        "random_state": ["x", [1]],
        "lambda_": [1.0],
    }
    for name, choices in values.items():
        for value in choices:
            yield (
                f"{name}={value!r:.40}",
                with_state(model, lambda f, n=name, v=value: f["settings"].update({n: v})),
            )


def facts(model):
    """Yield sound files whose facts and arrays do not describe a fit."""
    wrong = {
        "status": [None, "ok", {}, {"code": 1, "message": "", "converged": True}],
        "settings": [None, 3, []],
        "rounds": [0, -1, 10**18, "3", None, 2.0, True],
        "iterations": [-1, 5, 10**30, None],
        "fitted": [3, {}, {"at": "never", "rows": 1, "batches": 1}, {"at": 0}],
        "doubts": [3, [1], None],
        "rows_digest": [3, []],
    }
    for name, values in wrong.items():
        yield f"no {name}", with_state(model, lambda f, n=name: f.pop(n))
        for value in values:
            yield (
                f"{name} is {value!r:.30}",
                with_state(model, lambda f, n=name, v=value: f.update({n: v})),
            )
    for name, array in [
        ("coef", np.array([np.nan, 1.0, 1.0])), ("coef", np.ones((3, 1))), ("coef", np.ones(0)),
        ("coef", np.ones(2)), ("coef", np.ones(4)), ("coef", np.ones(3, np.float32)),
        ("coef", np.array(1.0)), ("intercept", np.array(np.inf)), ("intercept", np.ones(1)),
        ("pace", np.ones(1)), ("weights", np.array([0.5, 2.0])), ("weights", np.array([np.nan])),
        ("weights", np.ones((2, 2))), ("weights", np.ones(2, bool)),
        ("feature_names", np.frombuffer(b"a\xffb\xff", np.uint8)),
        ("feature_names", np.frombuffer(b"\xc3\xffb\xffc\xff", np.uint8)),
        ("feature_names", np.frombuffer(b"a\xffb\xffc", np.uint8)),
        ("feature_names", np.full(1 << 20, 255, np.uint8)),
        ("calibration.clean_mass", np.ones(3)), ("calibration.anchor", np.array([-1.0])),
        ("calibration.noise.below", np.array([0.0])),
        ("calibration.noise.total", np.array([np.nan])),
        ("calibration.standard_errors.lengths", np.array([-1])),
        ("calibration.batch_shares", np.array([2.0])),
        ("rounds.pace", np.ones(1)), ("rounds.rows", np.zeros(1, np.uint8)),
        ("rounds.batch_seconds.lengths", np.array([2**62] * 4)),
    ]:  # fmt: skip
        yield f"{name} of shape {array.shape} {array.dtype}", with_array(model, name, array)


def everything(model, trap):
    """Return every hostile file as (name, bytes)."""
    groups = (headers, arrays, metadata, settings, facts)
    return [*foreign(trap), *(file for group in groups for file in group(model))]
