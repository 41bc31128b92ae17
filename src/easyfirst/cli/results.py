"""Where a command's table goes: standard output or a new file, in the format asked for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import pyarrow as pa

TEXT = "text"


def result_kind(kind: str | None, output: Path | None, force: bool, default: str = "csv") -> str:
    """Return the format, and refuse an output that cannot be written, before any work is done."""
    from easyfirst.tables.outputs import format_of, require_free_file

    if output is None:
        if kind == "parquet":
            raise click.UsageError("Parquet cannot be printed: name a file with --output")
        return kind or default
    require_free_file(output, force)
    return kind or format_of(output)


def deliver(
    table: pa.Table, kind: str, output: Path | None, force: bool, quiet: bool = False
) -> None:
    """Write the table."""
    from easyfirst.tables.outputs import encode, new_file

    encoded = encode(table, kind)
    if output is None:
        sys.stdout.buffer.write(encoded)
        sys.stdout.flush()
        return
    with new_file(output, force) as path:
        path.write_bytes(encoded)
    if not quiet:
        click.echo(f"Wrote {output}", err=True)
