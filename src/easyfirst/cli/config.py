"""A command's options from a TOML file; what the command line says comes first."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import click

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def config_option() -> Callable[[Decorated], Decorated]:
    """Return the option `--config`, which must be parsed before all others."""
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        is_eager=True,
        expose_value=False,
        callback=_use,
        metavar="FILE.toml",
        help="Read options from a TOML file; options on the command line take precedence.",
    )


def _use(ctx: click.Context, parameter: click.Parameter, path: Path | None) -> None:
    del parameter
    if path is not None and not ctx.resilient_parsing:
        ctx.default_map = {**(ctx.default_map or {}), **_settings(ctx.command, path)}


def _settings(command: click.Command, path: Path) -> dict[str, Any]:
    """Return the file's settings by the names that click knows them by."""
    known = {_key(each): each for each in command.params if each.expose_value}
    settings = {}
    for key, value in _read(path).items():
        parameter = known.get(key.replace("_", "-"))
        if parameter is None:
            raise click.UsageError(f"Unknown option {key!r} in {path}: {_hint(key, known)}")
        settings[str(parameter.name)] = _checked(path, key, value, parameter)
    return settings


def _read(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise click.UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path} is not TOML: {error}") from None


def _key(parameter: click.Parameter) -> str:
    """Return the long name of an option, or the name of an argument."""
    longest = max(parameter.opts, key=len)
    return longest.lstrip("-").replace("_", "-").lower()


def _hint(key: str, known: dict[str, click.Parameter]) -> str:
    near = get_close_matches(key, known, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"the options are {', '.join(sorted(known))}"


def _checked(path: Path, key: str, value: Any, parameter: click.Parameter) -> Any:
    """Refuse a value of the wrong kind, which click would take letter by letter or not at all."""
    many = bool(getattr(parameter, "multiple", False))
    is_flag = bool(getattr(parameter, "is_flag", False))
    if is_flag and not isinstance(value, bool):
        raise click.UsageError(f"{path}: {key} must be true or false, got {value!r}")
    if many:
        value = [value] if isinstance(value, str) else value
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise click.UsageError(f"{path}: {key} must be a list of strings, got {value!r}")
        return value
    if isinstance(value, dict | list) or (isinstance(value, bool) and not is_flag):
        raise click.UsageError(f"{path}: {key} must be a single value, got {value!r}")
    return value
