"""The group of commands. It knows their names and one line about each, and imports none."""

from __future__ import annotations

import importlib

import click

# Name: (module, attribute, one line for --help).
COMMANDS: dict[str, tuple[str, str, str]] = {
    "reproduce": (
        "easyfirst.cli.reproduce",
        "reproduce",
        "Run the paper's experiments and write the report.",
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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in sorted(COMMANDS.items())])


def _print_version(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    del parameter
    if not wanted or ctx.resilient_parsing:
        return
    from easyfirst import __version__

    click.echo(f"easyfirst {__version__}")
    ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print the version and exit.",
)
def easyfirst() -> None:
    """Learn from data in which many rows are wrong, easy rows first."""
