"""Read mutated copies of a Parquet or CSV file; run as a process, because readers may crash.

    python mutated_files.py parquet FOLDER COUNT SEED [pieces]

reads them as sources of numbers, or as raw tables in pieces, and prints one JSON object: how many
copies were refused, unchanged or silently changed, and whatever error was not of the documented
type.
"""

import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from easyfirst.errors import BadFileError
from easyfirst.sources import read_csv, read_parquet
from easyfirst.tables.errors import TableError
from easyfirst.tables.pieces import table_in_pieces

FEATURES = ["area", "rooms", "age"]


def write_original(kind, path):
    rng = np.random.default_rng(0)
    table = pa.table({name: rng.normal(size=600) for name in [*FEATURES, "price"]})
    if kind == "csv":
        pa_csv.write_csv(table, path)
    else:
        pq.write_table(table, path, row_group_size=200, write_page_checksum=True)


def mutated(content, rng):
    """Return the bytes with one kind of damage."""
    changed, n = bytearray(content), len(content)
    at, length = int(rng.integers(n)), int(rng.integers(1, 64))
    kind = rng.choice(["flip", "flip", "flip", "cut", "zeros", "noise", "insert", "delete", "copy"])
    if kind == "flip":
        changed[at] ^= 1 << int(rng.integers(8))
    elif kind == "cut":
        del changed[at:]
    elif kind == "zeros":
        changed[at : at + length] = bytes(len(changed[at : at + length]))
    elif kind == "noise":
        changed[at : at + length] = rng.bytes(len(changed[at : at + length]))
    elif kind == "insert":
        changed[at:at] = rng.bytes(length)
    elif kind == "delete":
        del changed[at : at + length]
    else:
        other = int(rng.integers(n))
        changed[at : at + length] = content[other : other + len(changed[at : at + length])]
    return bytes(changed)


def values_of(kind, path):
    read = {"csv": read_csv, "parquet": read_parquet}[kind]
    source = read(path, "price", features=FEATURES, rows_per_batch=200)
    batches = [part.load() for part in source.partitions()]
    return b"".join(batch.X.tobytes() + batch.y.tobytes() for batch in batches)


def pieces_of(kind, path):
    del kind
    table = table_in_pieces(path, piece_bytes=1)
    rows = [rows.select([*FEATURES, "price"]) for _, rows in table.tables()]
    return repr([each.to_pydict() for each in rows]).encode()


def main(kind, folder, count, seed, how="numbers"):
    values_of = READERS[how]
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    path = Path(folder) / f"rows.{kind}"
    write_original(kind, path)
    content, expected = path.read_bytes(), values_of(kind, path)
    found = {"refused": 0, "unchanged": 0, "silent": [], "other": [], "slowest": 0.0}
    for number in range(count):
        path.write_bytes(mutated(content, np.random.default_rng([seed, number])))
        began = time.process_time()
        try:
            same = values_of(kind, path) == expected
        except (BadFileError, TableError):
            found["refused"] += 1
        except Exception as error:
            plain = isinstance(error, ValueError) and "there are no rows" in str(error)
            if plain:
                found["refused"] += 1
            else:
                found["other"].append([number, type(error).__name__, str(error)[:200]])
        else:
            found["unchanged"] += same
            found["silent"] += [] if same else [number]
        found["slowest"] = max(found["slowest"], time.process_time() - began)
    print(json.dumps(found))


READERS = {"numbers": values_of, "pieces": pieces_of}

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
