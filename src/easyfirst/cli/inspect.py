"""`easyfirst inspect`: what a model file holds, when and how it was fitted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from easyfirst.cli.failures import EXIT_CODES
from easyfirst.cli.options import model_argument


@click.command(epilog=EXIT_CODES)
@model_argument
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--coefficients", is_flag=True, help="Print the coefficients too.")
def inspect(model: Path, as_json: bool, coefficients: bool) -> None:
    """Describe MODEL, a model file or the output of 'easyfirst fit'."""
    from easyfirst.cli.models import model_file
    from easyfirst.tables.description import describe
    from easyfirst.tables.outputs import to_json

    description = describe(model_file(model))
    if as_json:
        click.echo(to_json(description))
    else:
        _print(description, coefficients)


def _print(description: dict[str, Any], coefficients: bool) -> None:
    from easyfirst.cli.printing import console, print_coefficients, print_fact, print_table

    out = console()
    for name, value in description.items():
        if name not in ("coefficients", "columns", "left_out", "notes") and value is not None:
            print_fact(out, name.replace("_", " "), _shown(value))
    if description.get("columns"):
        rows = [(each["name"], each["kind"], each["becomes"]) for each in description["columns"]]
        heads = ("column", "kind", "becomes")
        print_table(out, "Columns", heads, rows, left=heads)
    for each in description.get("left_out") or []:
        print_fact(out, f"left out: {each['name']}", each["reason"])
    for note in description.get("notes") or []:
        print_fact(out, "note", note)
    if coefficients:
        print_coefficients(out, description["coefficients"])


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    if isinstance(value, list):
        between = ", " if isinstance(value[0], str) else " to "
        return between.join(_shown(each) for each in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)
