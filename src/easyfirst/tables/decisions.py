"""What a person decided about suspicious rows: a CSV file that grows by lines and survives a kill.

Every decision is one line, appended and brought to the disk before anybody is told that it is
saved. The last line about a row counts. A line that a kill cut short is dropped.
"""

from __future__ import annotations

import csv
import io
import math
import os
from codecs import BOM_UTF8
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from easyfirst.atomic import sync_directory
from easyfirst.tables.errors import OutputError, TableError, did_you_mean, listed

DECISIONS_FILE = "decisions.csv"
WRONG, RIGHT, FIX, OPEN = "wrong", "right", "fix", "open"
KINDS = (WRONG, RIGHT, FIX, OPEN)
FIELDS = ("row", "row_id", "decision", "given", "fixed_value", "fix", "decided_at")
NEEDED = ("row", "decision")
FORMULAS = tuple("=+-@\t\r")  # how a cell begins that a spreadsheet would run


Value = float | str  # of a target: a number, or a label


@dataclass(frozen=True)
class Decision:
    """One decision about one row.

    Parameters
    ----------
    row
        The row's place in the table, counted from 0.
    kind
        'wrong' (leave the row out), 'right' (trust it), 'fix' (trust it with the fixed value)
        or 'open' (an earlier decision was taken back).
    row_id
        The row's name.
    given
        The target's value when the decision was made, a number or a label; NaN if unknown.
    fixed
        The value that takes its place, for 'fix'.
    fix
        The fix in words.
    at
        When, in UTC.
    """

    row: int
    kind: str
    row_id: str = ""
    given: Value = math.nan
    fixed: Value = math.nan
    fix: str = ""
    at: str = ""

    def line(self) -> str:
        """Return the decision as a line of the file."""
        text = io.StringIO()
        values = (_written(self.given), _written(self.fixed), written_name(self.fix), self.at)
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow((self.row, written_name(self.row_id), self.kind, *values))
        return text.getvalue()


def now() -> str:
    """Return the present time as decisions record it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def written_name(name: object) -> str:
    r"""Return a name as it stands in the file: in one line, and no spreadsheet runs it.

    Examples
    --------
    >>> written_name("=1+1"), written_name("two\nlines")
    ("'=1+1", 'two\\nlines')
    """
    text = str(name).replace("\0", "\\0").replace("\r", "\\r").replace("\n", "\\n")
    text = text.encode("utf-8", errors="backslashreplace").decode()
    return f"'{text}" if text.startswith(FORMULAS) else text


def read_decisions(path: Path, of_labels: bool = False) -> dict[int, Decision]:
    """Return the last decision about each row; rows whose decision was taken back are absent.

    Values are numbers, or labels as they stand there.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        hint = ""
        if path.name == DECISIONS_FILE and not path.exists():
            hint = f"; make decisions with 'easyfirst review {path.parent}' first"
        raise TableError(f"{path} cannot be read: {error.strerror}{hint}") from error
    last = {each.row: each for each in _parsed(path, raw, of_labels)}
    return {row: each for row, each in last.items() if each.kind != OPEN}


def _whole(raw: bytes) -> bytes:
    """Return the file without a last line that was cut short."""
    lines, last = raw[: raw.rfind(b"\n") + 1], raw[raw.rfind(b"\n") + 1 :]
    names, fields = _fields(lines.partition(b"\n")[0]), _fields(last)
    finished = bool(names) and len(fields) == len(names)
    if finished and names[-1] == FIELDS[-1]:  # the time, which has always the same length
        finished = len(fields[-1]) == len(now())
    return raw if finished else lines


def _fields(line: bytes) -> list[str]:
    return next(csv.reader([line.decode("utf-8", errors="replace").rstrip("\r")]), [])


def _parsed(path: Path, raw: bytes, of_labels: bool) -> Iterable[Decision]:
    try:
        text = _whole(raw).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TableError(f"{path} is not UTF-8 text: {error}") from error
    if not text:
        return
    rows = csv.DictReader(io.StringIO(text, newline=""))
    names = list(rows.fieldnames or ())
    for name in NEEDED:
        if name not in names:
            hint = did_you_mean(name, names)
            raise TableError(f"{path} has no column {name!r}: {hint}. {_explanation()}")
    for row in rows:
        yield _decision(path, rows.line_num, row, of_labels)


def _explanation() -> str:
    return (
        f"A file of decisions has the columns {listed(FIELDS)}, of which {listed(NEEDED)} suffice"
    )


def _decision(path: Path, line: int, row: Mapping[str, Any], of_labels: bool) -> Decision:
    kind = (row["decision"] or "").strip()
    if kind not in KINDS:
        raise TableError(
            f"{path}, line {line}: the decision is {kind!r}, not one of {listed(KINDS)}"
        )
    try:
        place = int(row["row"] or "")
        read = _label if of_labels else float
        given, fixed = (read(row.get(name) or "nan") for name in ("given", "fixed_value"))
    except ValueError as error:
        raise TableError(f"{path}, line {line}: a number is expected ({error})") from error
    if place < 0:
        raise TableError(f"{path}, line {line}: rows are counted from 0, got {place}")
    if kind == FIX and fixed != fixed:
        raise TableError(f"{path}, line {line}: a fix needs a fixed_value")
    texts = (row.get(name) or "" for name in ("row_id", "fix", "decided_at"))
    name, fix, at = texts
    return Decision(place, kind, name, given, fixed, fix, at)


def _label(text: str) -> Value:
    """Return a label as it was before it was written; the word for none is no label."""
    if text == "nan":
        return math.nan
    return text[1:] if text.startswith("'") and text[1:].startswith(FORMULAS) else text


def _written(value: Value) -> str:
    if isinstance(value, str):
        return written_name(value)
    return "" if math.isnan(value) else repr(float(value))


class DecisionLog:
    """The file of decisions, open for more of them; one process at a time.

    `decided` holds the last decision about each row.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        new = not path.exists()
        try:
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise OutputError(f"{path} cannot be written: {error.strerror}") from error
        try:
            self._claim()
            self.decided = {} if new else read_decisions(path)
            self._tidy()
        except BaseException:
            self._file.close()
            raise
        if new:
            sync_directory(path.parent)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, decisions: Iterable[Decision]) -> None:
        """Append decisions and return when the disk has them, or raise and have added none."""
        made = list(decisions)
        self._append("".join(each.line() for each in made).encode())
        for each in made:
            if each.kind == OPEN:
                self.decided.pop(each.row, None)
            else:
                self.decided[each.row] = each

    def _append(self, data: bytes) -> None:
        before = os.fstat(self._file.fileno()).st_size
        try:
            view = memoryview(data)
            while view:
                view = view[self._file.write(view) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(before)
            raise OutputError(f"{self.path} cannot be written: {error.strerror}") from error

    def _tidy(self) -> None:
        """Cut off a last line that a kill left unfinished, and begin the file if it is empty."""
        raw = self.path.read_bytes()
        whole = _whole(raw)
        if not whole:
            self._file.truncate(0)
            self._append((",".join(FIELDS) + "\n").encode())
            return
        if tuple(_fields(whole.removeprefix(BOM_UTF8).partition(b"\n")[0])) != FIELDS:
            raise OutputError(
                f"{self.path} has other columns than a review writes ({listed(FIELDS)}); "
                f"rename it to start a new one"
            )
        self._file.truncate(len(whole))
        if not whole.endswith(b"\n"):
            self._append(b"\n")

    def _claim(self) -> None:
        """Refuse a file that another process is adding to, where the system can tell."""
        try:
            import fcntl
        except ImportError:  # not on Windows
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(
                f"{self.path} is open in another review; end that one first"
            ) from None
        except OSError:  # some network drives have no locks
            return
