"""Reading a table from Parquet or CSV, with errors that name the file, the line and the column."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from easyfirst.tables.errors import TableError, listed

PARQUET_SUFFIXES = (".parquet", ".pq")
TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
PACKED_SUFFIXES = (".gz", ".bz2", ".zst")  # what pyarrow unpacks by the name's ending
DELIMITERS = (",", ";", "\t", "|")
READABLE = "Parquet (.parquet) and CSV (.csv, .tsv, .txt, also with .gz, .bz2 or .zst)"
HEAD_BYTES = 65_536
BLOCK_BYTES = 1 << 22  # of CSV text per thread at a time

# How other kinds of file begin, and what to do about them.
FOREIGN = {
    b"PK\x03\x04": "a zip archive or an Excel workbook; export the table as CSV or Parquet",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; export the table as CSV or Parquet",
    b"\x1f\x8b": "compressed with gzip; let its name end in .csv.gz",
    b"ARROW1": "an Arrow (Feather) file; export the table as Parquet",
    b"SQLite format 3": "a SQLite database; export the table as CSV or Parquet",
    b"%PDF": "a PDF document; export the table as CSV or Parquet",
}


@dataclass(frozen=True)
class TableFormat:
    """How a CSV file is written; Parquet says that itself.

    Parameters
    ----------
    delimiter
        What stands between two values. None: the likeliest of comma, semicolon, tab and bar.
    decimal
        The decimal mark.
    encoding
        The encoding of the text.
    missing
        Texts that mean a missing value, besides the usual ones (empty, NA, NaN, null, ...).
    """

    delimiter: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    missing: tuple[str, ...] = ()


def read_table(
    path: str | Path, form: TableFormat | None = None, text_columns: Collection[str] = ()
) -> pa.Table:
    """Read a Parquet file, a directory of them, or a CSV file.

    Pages of Parquet files that carry checksums are verified. `text_columns` are kept as text
    where a CSV file's values look like numbers.
    """
    path = Path(path)
    try:
        table = _read(path, form or TableFormat(), text_columns)
    except OSError as error:
        raise TableError(f"{path} cannot be read: {_reason(error)}") from error
    table = _with_names(table)
    _require_columns(path, table)
    if table.num_rows == 0:
        raise TableError(f"{path} has column names but no rows")
    return table


def _read(path: Path, form: TableFormat, text_columns: Collection[str]) -> pa.Table:
    if not path.exists():
        raise TableError(f"{path} does not exist{_neighbours(path)}")
    if path.is_dir():
        return _read_directory(path)
    head = _head(path)
    suffix = _suffix(path)
    if head.startswith(b"PAR1") or (suffix in PARQUET_SUFFIXES and head):
        return _read_parquet(path)
    if not head:
        raise TableError(f"{path} is empty; easyfirst reads {READABLE}")
    packed = path.suffix.lower() in PACKED_SUFFIXES
    if not packed:
        _require_text(path, head, form)
    if suffix not in TEXT_SUFFIXES:
        raise TableError(f"{path} has the ending {path.suffix!r}; easyfirst reads {READABLE}")
    return _read_csv(path, form, text_columns)


def _suffix(path: Path) -> str:
    """Return the ending that tells the format, that of the compression left away."""
    inner = path.with_suffix("") if path.suffix.lower() in PACKED_SUFFIXES else path
    return inner.suffix.lower()


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD_BYTES)


def _read_directory(path: Path) -> pa.Table:
    files = sorted(each for each in path.iterdir() if each.suffix.lower() in PARQUET_SUFFIXES)
    if not files:
        raise TableError(f"{path} is a directory without Parquet files; name a file in it")
    tables = [_read_parquet(file) for file in files]
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise TableError(f"The Parquet files in {path} do not fit together: {error}") from error


def _read_parquet(path: Path) -> pa.Table:
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            return file.read()
    except (pa.ArrowException, OSError) as error:
        raise TableError(
            f"{path} is not a whole Parquet file ({_reason(error)}); copy or export it again"
        ) from error


def _require_text(path: Path, head: bytes, form: TableFormat) -> None:
    for magic, kind in FOREIGN.items():
        if head.startswith(magic):
            raise TableError(f"{path} is {kind}")
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and "16" not in form.encoding:
        raise TableError(f"{path} is UTF-16 text; say so with --encoding utf-16")
    if b"\x00" in head and "16" not in form.encoding and "32" not in form.encoding:
        raise TableError(f"{path} is not a text file; easyfirst reads {READABLE}")


def _read_csv(path: Path, form: TableFormat, text_columns: Collection[str]) -> pa.Table:
    delimiter = form.delimiter or _likely_delimiter(path, form)
    table = _parsed(path, form, delimiter, text_columns)
    wrong = _undecoded(table)
    if wrong:
        raise TableError(
            f"{path} is not {form.encoding} text (see {wrong}); name its encoding, for example "
            f"--encoding latin-1"
        )
    return table


def _undecoded(table: pa.Table) -> str:
    """Say where text could not be decoded: Arrow keeps it as bytes, or fails to name a column."""
    try:
        names = table.column_names
    except UnicodeDecodeError:
        return "the names of the columns"
    kinds = table.schema.types
    binary = [name for name, kind in zip(names, kinds, strict=True) if pa.types.is_binary(kind)]
    return f"column {listed(binary)}" if binary else ""


def _parsed(
    path: Path, form: TableFormat, delimiter: str, text_columns: Collection[str]
) -> pa.Table:
    """Parse with all threads; where that fails, again with line breaks allowed, then line by line.

    Only the last, slow way knows the number of a wrong line.
    """
    attempts = ((True, False), (True, True), (False, True))
    for threads, newlines in attempts:
        try:
            return pa_csv.read_csv(
                path,
                read_options=pa_csv.ReadOptions(
                    use_threads=threads, encoding=form.encoding, block_size=BLOCK_BYTES
                ),
                parse_options=pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=newlines),
                convert_options=_conversion(form, text_columns),
            )
        except pa.ArrowInvalid as error:
            failure = error
        except LookupError:
            raise TableError(f"{form.encoding!r} is not the name of a text encoding") from None
        except UnicodeDecodeError as error:
            raise TableError(f"{path} is not {form.encoding} text: {error}") from error
    raise TableError(_explained(path, delimiter, str(failure))) from failure


def _conversion(form: TableFormat, text_columns: Collection[str]) -> Any:
    usual = pa_csv.ConvertOptions()
    return pa_csv.ConvertOptions(
        null_values=[*usual.null_values, *form.missing],
        strings_can_be_null=True,
        decimal_point=form.decimal,
        column_types={name: pa.string() for name in text_columns},
    )


def _likely_delimiter(path: Path, form: TableFormat) -> str:
    """Return the delimiter that the heading has most of."""
    try:
        with pa.input_stream(path, compression="detect") as file:
            head = file.read(HEAD_BYTES)
        text = head.decode(form.encoding, errors="replace")
    except (OSError, pa.ArrowException) as error:
        raise TableError(f"{path} cannot be unpacked: {_reason(error)}") from error
    except LookupError:
        raise TableError(f"{form.encoding!r} is not the name of a text encoding") from None
    heading = next((line for line in text.splitlines() if line.strip()), "")
    outside_quotes = re.sub(r'"[^"]*"', "", heading)
    return max(DELIMITERS, key=outside_quotes.count)


def _explained(path: Path, delimiter: str, message: str) -> str:
    """Turn a message of the CSV parser into one that says where to look."""
    wrong = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", message)
    if wrong:
        line, expected, got = wrong.groups()
        return (
            f"{path}, line {line}: {got} values where the heading has {expected} names "
            f"(delimiter {delimiter!r}); mend the line, or name another --delimiter"
        )
    if "Empty CSV" in message:
        return f"{path} has no columns: its first line is empty"
    return f"{path} is not a CSV file that can be read: {message.splitlines()[0]}"


def _with_names(table: pa.Table) -> pa.Table:
    """Name the columns whose heading is empty, as the index that pandas writes, by their place."""
    names = [name or f"column {place}" for place, name in enumerate(table.column_names, start=1)]
    return table.rename_columns(names)


def _require_columns(path: Path, table: pa.Table) -> None:
    names = table.column_names
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        raise TableError(f"{path} has more than one column named {listed(twice)}; rename them")
    if len(names) > 0 and all(_is_number(name) for name in names):
        raise TableError(
            f"{path} has no heading: its first line holds {listed(names)}; "
            f"put a line with the names of the columns before it"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _neighbours(path: Path) -> str:
    """Hint at files of a similar name."""
    from difflib import get_close_matches

    try:
        names = [each.name for each in path.parent.iterdir()]
    except OSError:
        return ""
    near = get_close_matches(path.name, names, n=1)
    return f"; did you mean {path.with_name(near[0])}?" if near else ""


def _reason(error: BaseException) -> str:
    """Return the operating system's or the library's words, without numbers and paths."""
    text = getattr(error, "strerror", None) or str(error)
    return str(text).splitlines()[0].rstrip(".") if str(text) else type(error).__name__
