"""The group of commands. It knows their names and one line about each, and imports none."""

from __future__ import annotations

import difflib
import importlib
from typing import Any

import click

from easyfirst.cli.failures import EXIT_CODES, explained

# Name: (module, attribute, one line for --help).
COMMANDS: dict[str, tuple[str, str, str]] = {
    "apply": (
        "easyfirst.cli.apply",
        "apply",
        "Write the table with fixes and without wrong rows.",
    ),
    "compare": (
        "easyfirst.cli.compare",
        "compare",
        "Compare easyfirst with other methods on your data.",
    ),
    "demo": ("easyfirst.cli.demo", "demo", "See what the method does, in a minute."),
    "diff": ("easyfirst.cli.diff", "diff", "Show what changed between two runs."),
    "fit": ("easyfirst.cli.fit", "fit", "Fit a table; write the model, the rows and a report."),
    "inspect": ("easyfirst.cli.inspect", "inspect", "Describe a model file."),
    "predict": ("easyfirst.cli.predict", "predict", "Predict the rows of a table."),
    "reproduce": (
        "easyfirst.cli.reproduce",
        "reproduce",
        "Run the paper's experiments and write the report.",
    ),
    "review": (
        "easyfirst.cli.review",
        "review",
        "Review suspicious rows in the browser.",
    ),
    "suspects": (
        "easyfirst.cli.suspects",
        "suspects",
        "List the rows that look wrong, with reasons.",
    ),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when one of them is called, not to be listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return sorted({*COMMANDS, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of this name."""
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a misspelt one is answered with the nearest."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            hint = f"Did you mean '{near[0]}'?" if near else "See 'easyfirst --help'."
            ctx.fail(f"No such command '{args[0]}'. {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in sorted(COMMANDS.items())])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; whatever goes wrong becomes a message and an exit code."""
        with explained(debug=bool(ctx.params.get("debug"))):
            return super().invoke(ctx)


def _print_version(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    del parameter
    if not wanted or ctx.resilient_parsing:
        return
    from easyfirst import __version__

    click.echo(f"easyfirst {__version__}")
    ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print the version and exit.",
)
@click.option("--debug", is_flag=True, help="Show where an unexpected failure happened.")
def easyfirst(debug: bool) -> None:
    """Robust regression and classification that find the wrong rows of a table.

    Results go to standard output, messages and progress to standard error.
    """
    del debug
