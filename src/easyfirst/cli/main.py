"""Entry point of the command `easyfirst`; commands are imported when they are called."""

from __future__ import annotations

import signal
import sys
from types import FrameType

# Which extra a missing module belongs to.
EXTRAS = {
    "click": "tool",
    "jinja2": "tool",
    "pandas": "tool",
    "pyarrow": "tool",
    "rich": "tool",
    "starlette": "review",
    "uvicorn": "review",
    "matplotlib": "tool,plot",
}


def main() -> None:
    """Run the command line; say what to install where an optional package is missing."""
    signal.signal(signal.SIGTERM, _end)
    try:
        from easyfirst.cli.group import easyfirst

        easyfirst(prog_name="easyfirst")
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        print(
            f"easyfirst needs {error.name} for this: pip install 'easyfirst[{extra}]'",
            file=sys.stderr,
        )
        sys.exit(1)
    except KeyboardInterrupt:  # while modules were loading; a running command says more
        sys.exit(130)


def _end(number: int, frame: FrameType | None) -> None:
    """Leave by an exception, so that what was begun is cleaned up."""
    del frame
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
