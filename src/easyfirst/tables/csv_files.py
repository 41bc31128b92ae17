"""CSV text as a table of texts, with errors that name the line and the column."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from easyfirst.report.wording import count
from easyfirst.tables.csv_records import MOST_REMARKS
from easyfirst.tables.encodings import UNICODE, blocks_of, encoding_of, note_on
from easyfirst.tables.errors import TableError, listed, reason
from easyfirst.tables.kinds import DELIMITER_KEY
from easyfirst.tables.places import HEAD_BYTES, Place

if TYPE_CHECKING:
    from easyfirst.tables.reading import TableFormat

DELIMITERS = (",", ";", "\t", "|")
BLOCK_BYTES = 1 << 22  # of text per thread at a time
MOST_PREAMBLE = 20  # lines before the heading, such as the title of an export
PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}

# How other kinds of file begin, and what to do about them.
FOREIGN = {
    b"PK\x03\x04": "a zip archive or an Excel workbook; let its name end in .zip or .xlsx",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save it as .xlsx, or export it as CSV",
    b"\x1f\x8b": "compressed with gzip; let its name end in .csv.gz",
    b"(\xb5/\xfd": "compressed with Zstandard; let its name end in .csv.zst",
    b"ARROW1": "an Arrow (Feather) file; let its name end in .feather",
    b"SQLite format 3": "a SQLite database; let its name end in .sqlite",
    b"%PDF": "a PDF document; export the table as CSV or Parquet",
}


def read_csv(place: Place, form: TableFormat, notes: list[str]) -> pa.Table:
    """Read a CSV file, every column as text; what a reader should know is added to the notes."""
    compression = PACKED.get(place.suffixes[-1] if place.suffixes else "")
    if compression is None:
        require_text(place, form)
    form = with_encoding(place, form, compression, notes)
    lines = first_lines(place, form, compression)
    skipped, delimiter = heading(lines, form)
    if skipped:
        skipped_lines = count(skipped, "line")
        notes.append(f"{place.name}: {skipped_lines} before the names of the columns skipped")
    if any(f'{delimiter} "' in line for line in lines):
        place, compression = _without_blanks(place, compression, delimiter), None
    if _rows_end_in_delimiter(lines[skipped:], delimiter) and form.encoding != "utf-16":
        place, compression = _with_longer_heading(place, compression, delimiter, skipped), None
    table = _parsed(place, form, delimiter, compression, skipped, notes)
    return table.replace_schema_metadata({DELIMITER_KEY: delimiter.encode()})


def require_text(place: Place, form: TableFormat) -> None:
    """Refuse a file that is no text in the encoding named."""
    head = place.head()
    for magic, kind in FOREIGN.items():
        if head.startswith(magic):
            raise TableError(f"{place.name} is {kind}")
    if head.lstrip()[:9].lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        raise TableError(f"{place.name} is a web page or XML; export the table as CSV or Parquet")
    encoding = form.encoding or encoding_of([head])
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and "16" not in encoding:
        raise TableError(f"{place.name} is UTF-16 text; say so with --encoding utf-16")
    if b"\x00" in head and "16" not in encoding and "32" not in encoding:
        raise TableError(f"{place.name} is not a text file")


def with_encoding(
    place: Place, form: TableFormat, compression: str | None, notes: list[str]
) -> TableFormat:
    """Return the format with the encoding that the file shows, unless one was named."""
    if form.encoding is not None:
        return form
    try:
        with place.stream(compression) as file:
            encoding = encoding_of(blocks_of(file))
    except (OSError, pa.ArrowException) as error:
        raise TableError(f"{place.name} cannot be unpacked: {reason(error)}") from error
    notes += filter(None, [note_on(place.name, encoding)])
    return replace(form, encoding=encoding)


def _named(form: TableFormat) -> str:
    return form.encoding or UNICODE


def first_lines(place: Place, form: TableFormat, compression: str | None) -> list[str]:
    """Return how the file begins, as lines of text."""
    try:
        with place.stream(compression) as file:
            head = file.read(HEAD_BYTES)
        text = bytes(head).decode(_named(form), errors="replace")
    except (OSError, pa.ArrowException) as error:
        raise TableError(f"{place.name} cannot be unpacked: {reason(error)}") from error
    except LookupError:
        raise TableError(f"{_named(form)!r} is not the name of a text encoding") from None
    return text.removeprefix("\ufeff").splitlines()


def heading(lines: list[str], form: TableFormat) -> tuple[int, str]:
    """Return how many lines come before the heading, and the delimiter.

    A line "sep=;" as Excel writes it names the delimiter. Lines of few values before lines of
    several are a title.
    """
    said = re.match(r"sep=(.)$", lines[0].strip('"')) if lines else None
    if said:
        return 1, form.delimiter or said.group(1)
    blank = next((i for i, line in enumerate(lines) if line.strip()), 0)
    delimiter = form.delimiter or _likely_delimiter(lines[blank:])
    bare = [_outside_quotes(line) for line in lines]
    counts = [line.count(delimiter) for line in bare]
    usual = _usual(counts)
    for number, line in enumerate(bare[:MOST_PREAMBLE]):
        if usual and counts[number] == usual and not _is_title(line, delimiter):
            skipped = all(
                2 * counts[blank + place] < usual - 1 or _is_title(each, delimiter)
                for place, each in enumerate(bare[blank:number])
            )
            return (number if skipped and number > blank else 0), delimiter
    return 0, delimiter


def _is_title(line: str, delimiter: str) -> bool:
    """Whether a line holds nothing but a text in its first cell; the heading of two columns may."""
    first, *others = line.split(delimiter)
    return not any(cell.strip() for cell in others) and (len(others) != 1 or not first.strip())


def _without_blanks(place: Place, compression: str | None, delimiter: str) -> Place:
    """Return the file without blanks before quotes, which would make these part of the value."""
    with place.stream(compression) as file:
        raw = bytes(file.read())
    return replace(place, path=None, content=without_blanks(raw, delimiter))


def without_blanks(raw: bytes, delimiter: str) -> bytes:
    """Return text without blanks before quotes."""
    mark = re.escape(delimiter.encode())
    return re.sub(mark + rb' +"', delimiter.encode() + b'"', raw)


def _rows_end_in_delimiter(lines: list[str], delimiter: str) -> bool:
    """Whether every row ends in a delimiter that the heading lacks: no value is beyond it."""
    heading, *rows = [_outside_quotes(line) for line in lines if line.strip()] or [""]
    rows = rows[:-1] if len(rows) > 1 else rows  # the last may be cut
    longer = heading.count(delimiter) + 1
    return bool(rows) and all(
        row.endswith(delimiter) and row.count(delimiter) == longer for row in rows
    )


def _with_longer_heading(
    place: Place, compression: str | None, delimiter: str, skipped: int
) -> Place:
    """Return the file with a delimiter behind the heading as well."""
    with place.stream(compression) as file:
        lines = bytes(file.read()).splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if n >= skipped and line.strip())
    bare = lines[at].rstrip(b"\r\n")
    lines[at] = bare + delimiter.encode() + lines[at][len(bare) :]
    return replace(place, path=None, content=b"".join(lines))


def _likely_delimiter(lines: list[str]) -> str:
    """Return the delimiter that the heading has most of, or that later lines have all alike."""
    first = _outside_quotes(lines[0]) if lines else ""
    likely = max(DELIMITERS, key=first.count)
    if len(lines) < MOST_PREAMBLE:
        return likely
    body = [_outside_quotes(line) for line in lines[MOST_PREAMBLE // 2 : -1] if line.strip()]
    if likely in first and 2 * sum(likely in line for line in body) > len(body):
        return likely
    alike = {mark: min((line.count(mark) for line in body), default=0) for mark in DELIMITERS}
    return max(DELIMITERS, key=alike.__getitem__)


def _outside_quotes(line: str) -> str:
    return re.sub(r'"[^"]*"', "q", line)


def _usual(counts: list[int]) -> int:
    """Return how many delimiters most lines have, the last, perhaps cut, left away."""
    known = counts[:-1] if len(counts) > 2 else counts
    return Counter(known).most_common(1)[0][0] if known else 0


def _parsed(
    place: Place,
    form: TableFormat,
    delimiter: str,
    compression: str | None,
    skipped: int,
    notes: list[str],
) -> pa.Table:
    """Parse with all threads; where that fails, again with line breaks allowed, then line by line.

    Only the last, slow way knows the number of a wrong line, and whether it comes after all rows.
    """
    attempts = ((True, False), (True, True), (False, True))
    names: list[str] = []
    for threads, newlines in attempts:
        options: dict[str, Any] = {
            "read_options": pa_csv.ReadOptions(
                use_threads=threads,
                encoding=_named(form),
                block_size=BLOCK_BYTES,
                skip_rows=skipped,
            ),
            "parse_options": pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=newlines),
        }
        try:
            names = _names(place, form, compression, options)
            with place.stream(compression) as file:
                return pa_csv.read_csv(file, convert_options=as_text(form, names), **options)
        except pa.ArrowInvalid as error:
            failure = error
        except LookupError:
            raise TableError(f"{_named(form)!r} is not the name of a text encoding") from None
        except UnicodeDecodeError as error:
            raise TableError(f"{place.name} is not {_named(form)} text: {error}") from error
    found = _without_remarks(place, form, delimiter, compression, skipped)
    if found is not None:
        without, remarks = found
        table = _parsed(without, form, delimiter, None, skipped, notes)
        lines = count(len(remarks), "line")
        notes.append(f"{place.name}: {lines} after the rows skipped, the first {remarks[0][:60]!r}")
        return table
    line = _wrong_line(place, form, delimiter, compression, skipped)
    raise TableError(explained(place, form, delimiter, names, str(failure), line)) from failure


def _without_remarks(
    place: Place, form: TableFormat, delimiter: str, compression: str | None, skipped: int
) -> tuple[Place, list[str]] | None:
    """Return the file without lines of one value after all rows, and these; None if it has none.

    Such lines name a source, say, or the number of rows.
    """
    if re.match(r"(?i)utf[-_ ]?(16|32)", _named(form)):
        return None
    line = _wrong_line(place, form, delimiter, compression, skipped)
    with place.stream(compression) as file:
        lines = bytes(file.read()).splitlines(keepends=True)
    if line is None or line < 3 or len(lines) - line >= 2 * MOST_REMARKS:
        return None
    if lines[line - 2].strip() and lines[line - 2].count(delimiter.encode()) < 2:
        return None  # a row of two values may lack one
    texts = [each.decode(_named(form), errors="replace").strip() for each in lines[line - 1 :]]
    remarks = [text for text in texts if text]
    has_values = (delimiter in _outside_quotes(text) for text in remarks)
    if any(has_values) or not any(re.search(r"[^\W\d_]", text) for text in remarks):
        return None  # rows, or the beginning of one
    return replace(place, path=None, content=b"".join(lines[: line - 1])), remarks


def _names(
    place: Place, form: TableFormat, compression: str | None, options: dict[str, Any]
) -> list[str]:
    """Return the names of the columns."""
    wrong = f"{place.name} is not {_named(form)} text (see the names of the columns)"
    try:
        with place.stream(compression) as file, pa_csv.open_csv(file, **options) as reader:
            return list(reader.schema.names)
    except UnicodeDecodeError as error:
        raise TableError(f"{wrong}; name its encoding, for example --encoding latin-1") from error


def as_text(form: TableFormat, names: list[str]) -> Any:
    """Return the options by which every value stays text, or is missing."""
    usual = pa_csv.ConvertOptions()
    return pa_csv.ConvertOptions(
        null_values=[*usual.null_values, *form.missing],
        strings_can_be_null=True,
        column_types={name: pa.string() for name in names},
    )


def _wrong_line(
    place: Place, form: TableFormat, delimiter: str, compression: str | None, skipped: int
) -> int | None:
    """Return the first line with another number of values than the heading.

    The parser counts records, and an editor lines: empty ones, and those of values with breaks.
    """
    with (
        place.stream(compression) as file,
        io.TextIOWrapper(file, _named(form), errors="replace", newline="") as text,
    ):
        for _ in range(skipped):
            text.readline()
        records = csv.reader(text, delimiter=delimiter)
        with suppress(csv.Error):
            expected = len(next(records, []))
            before = records.line_num
            for record in records:
                if record and len(record) != expected:
                    return skipped + before + 1
                before = records.line_num
    return None


def explained(
    place: Place,
    form: TableFormat,
    delimiter: str,
    names: list[str],
    message: str,
    line: int | None = None,
) -> str:
    """Turn a message of the CSV parser into one that says where to look."""
    wrong = re.search(r"Expected (\d+) columns, got (\d+)", message)
    if wrong:
        expected, got = map(int, wrong.groups())
        where = f", line {line}" if line else ""
        return (
            f"{place.name}{where}: {count(got, 'value')} where the heading has "
            f"{count(expected, 'name')} (delimiter {delimiter!r}); fix the line, or name another "
            f"--delimiter"
        )
    undecoded = re.search(r"CSV column #(\d+):.*invalid UTF8", message)
    if undecoded:
        return (
            f"{place.name} is not {_named(form)} text (see column "
            f"{listed([names[int(undecoded.group(1))]])}); name its encoding, for example "
            f"--encoding latin-1"
        )
    if "Empty CSV" in message:
        return f"{place.name} has no columns: its first line is empty"
    return f"{place.name} is not a CSV file that can be read: {message.splitlines()[0]}"
