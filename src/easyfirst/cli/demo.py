"""`easyfirst demo`: the main job in a minute."""

from __future__ import annotations

import click

from easyfirst.cli.failures import EXIT_CODES


@click.command(epilog=EXIT_CODES)
def demo() -> None:
    """Fit 100,000 rows of which 40 % are corrupted, beside other methods."""
    from easyfirst.demo import main

    main()
