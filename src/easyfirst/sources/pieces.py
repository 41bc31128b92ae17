"""Sources made of pieces that are read one at a time: row groups, ranges of lines, fragments.

Consecutive pieces are joined until a batch has enough rows; a piece is never cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from easyfirst.contracts import Batch
from easyfirst.errors import BadFileError
from easyfirst.sources.columns import Columns

ROWS_PER_BATCH = 65_536  # at least, unless the data end


class Piece(Protocol):
    """Rows that can be read by themselves, anywhere."""

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        ...

    @property
    def place(self) -> str:
        """Where this is, for messages."""
        ...

    @property
    def path(self) -> str:
        """The file."""
        ...

    def read(self, columns: Columns) -> Any:
        """Return the needed columns as a table of pyarrow."""
        ...


@dataclass(frozen=True)
class PiecePartition:
    """Pieces that form one batch."""

    groups: tuple[Piece, ...]
    columns: Columns

    def load(self) -> Batch:
        """Read the pieces one after the other."""
        parts = [read_piece(piece, self.columns) for piece in self.groups]
        if len(parts) == 1:
            return parts[0]
        weights = [part.sample_weight for part in parts if part.sample_weight is not None]
        ids = [part.row_ids for part in parts if part.row_ids is not None]
        return Batch(
            np.concatenate([part.X for part in parts]),
            np.concatenate([part.y for part in parts]),
            np.concatenate(weights) if weights else None,
            np.concatenate(ids) if ids else None,
        )


def read_piece(piece: Piece, columns: Columns) -> Batch:
    """Read a piece, or say which file, row group and column is to blame."""
    try:
        table = piece.read(columns)
        if table.num_rows != piece.n_rows:
            raise ValueError(
                f"{piece.place}: has {table.num_rows} rows instead of {piece.n_rows}: the file "
                f"changed during the fit"
            )
        return columns.batch(table, piece.place)
    except BadFileError:
        raise
    except ValueError as error:
        named = [name for name in columns.names if repr(name) in str(error)]
        raise BadFileError(
            str(error),
            path=piece.path,
            row_group=getattr(piece, "index", None),
            column=named[0] if named else None,
        ) from None


@dataclass(frozen=True, eq=False)
class PieceSource:
    """Pieces that, in order, become batches.

    `skipped` are the messages about files and pieces that were left out on request. Files that are
    temporary are made anew each time, so that their names and times say nothing of the rows.
    """

    groups: tuple[Piece, ...]
    columns: Columns
    rows_per_batch: int = ROWS_PER_BATCH
    skipped: tuple[str, ...] = ()
    is_temporary: bool = False

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns to predict from."""
        return self.columns.features

    @property
    def n_bytes(self) -> int:
        """What the rows take in memory, about."""
        return 8 * len(self.columns.names) * sum(group.n_rows for group in self.groups)

    def partitions(self) -> list[PiecePartition]:
        """Return batches of consecutive pieces; the files alone decide how many."""
        batches: list[list[Piece]] = []
        filled = self.rows_per_batch
        for group in self.groups:
            if filled >= self.rows_per_batch:
                batches.append([])
                filled = 0
            batches[-1].append(group)
            filled += group.n_rows
        return [PiecePartition(tuple(groups), self.columns) for groups in batches]


def checked_rows_per_batch(given: int) -> int:
    """Refuse sizes of batches that mean nothing."""
    if isinstance(given, bool) or not given >= 1:
        raise ValueError(f"rows_per_batch must be a whole number >= 1, got {given!r}")
    return int(given)


def readable(
    pieces: Sequence[Piece], columns: Columns
) -> tuple[tuple[Piece, ...], tuple[str, ...]]:
    """Read every piece once; return those that can be fitted, and what is wrong with others."""
    good: list[Piece] = []
    complaints: list[str] = []
    for piece in pieces:
        try:
            read_piece(piece, columns)
        except BadFileError as error:
            complaints.append(str(error))
        else:
            good.append(piece)
    return tuple(good), tuple(complaints)
