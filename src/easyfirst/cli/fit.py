"""`easyfirst fit`: a table in, a folder with model, rows, report and summary out."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from easyfirst.cli.clusters import ENGINES, connected
from easyfirst.cli.config import config_option
from easyfirst.cli.failures import EXIT_CODES
from easyfirst.cli.options import (
    FILE,
    Size,
    check_share,
    data_argument,
    fail_above_option,
    feature_options,
    force_option,
    names,
    quiet_option,
    reading_choices,
    reading_options,
)

if TYPE_CHECKING:
    from easyfirst.cli.progress import LiveProgress
    from easyfirst.tables import TableFormat, TableModel
    from easyfirst.tables.runs import Run


@click.command(epilog=EXIT_CODES)
@data_argument
@feature_options
@click.option(
    "-o",
    "--output",
    type=FILE,
    default=Path("run"),
    show_default=True,
    help="Directory for the results.",
)
@click.option(
    "--row-id", metavar="NAME", help="Column that identifies the rows [default: count from 0]."
)
@click.option(
    "--batches", metavar="NAME", help="Column of batch ids; rows with the same id form a batch."
)
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="threads",
    show_default=True,
    help="Where the fit runs.",
)
@click.option("--address", help="Address of the running cluster, for dask, ray and spark.")
@click.option("--jobs", type=click.IntRange(min=1), help="Number of threads [default: all cores].")
@click.option(
    "--model",
    "model_kind",
    type=click.Choice(["linear", "boosting", "auto"]),
    default="linear",
    show_default=True,
    help="Linear; gradient boosting, for curves; or the better of the two.",
)
@click.option(
    "--task",
    type=click.Choice(["auto", "regression", "classification"]),
    default="auto",
    show_default=True,
    help="What to fit; auto classifies a target of words or of two values.",
)
@click.option("--ridge", type=click.FloatRange(min=0.0), help="Penalty on large coefficients.")
@click.option("--no-intercept", is_flag=True, help="Fit without an intercept.")
@click.option(
    "--target-transform",
    type=click.Choice(["auto", "log", "sqrt", "none"]),
    default="auto",
    show_default=True,
    help="Transform a positive target first; auto takes what describes clean rows best.",
)
@click.option("--log-target", is_flag=True, help="The same as --target-transform log.")
@click.option(
    "--max-rounds",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    help="Maximum number of rounds.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), help="Seed of the sample on which the fit starts."
)
@click.option(
    "--decisions",
    type=FILE,
    metavar="FILE",
    help="Decisions made with 'easyfirst review': rows of DATA to trust, reject or fix.",
)
@click.option(
    "--memory-limit",
    type=Size(),
    metavar="SIZE",
    help="Memory to take, such as 2GB; a larger table is read in pieces [default: half of what "
    "is free].",
)
@click.option("--no-report", is_flag=True, help="Write no report.html.")
@click.option(
    "--show-rows", is_flag=True, help="Show all columns of suspicious rows in the report."
)
@click.option("--no-values", is_flag=True, help="Show no values from the table in the report.")
@click.option(
    "--clean",
    type=click.Choice(["csv", "parquet", "none"]),
    help="Format of the table without suspicious rows [default: that of DATA].",
)
@fail_above_option
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@quiet_option
@force_option
@reading_options
@config_option()
def fit(
    data: str,
    output: Path,
    decisions: Path | None,
    memory_limit: int | None,
    no_report: bool,
    show_rows: bool,
    no_values: bool,
    clean: str | None,
    fail_above: float | None,
    as_json: bool,
    quiet: bool,
    force: bool,
    **choices: Any,
) -> None:
    """Fit the table DATA and find the rows that look wrong.

    DATA is a file (Parquet, Feather, CSV, JSON, Excel, SQLite, DuckDB), a directory or a quoted
    pattern of files, - for standard input, or a URL such as s3://bucket/file.parquet.
    Numbers, categories, dates and yes/no are recognised, missing values and codes for them filled
    in; the notes say what was understood. Parquet, Feather and CSV may be larger than memory.

    OUTPUT receives report.html, suspects.csv (the rows that look wrong, why, and the likely fix),
    clean.csv or clean.parquet (the table without them), rows.parquet (what the fit thinks of
    every row), model.safetensors (for linear models) and summary.json.
    """
    from easyfirst.cli.progress import LiveProgress
    from easyfirst.tables.decisions import read_decisions
    from easyfirst.tables.large_runs import fit_large_run, too_large
    from easyfirst.tables.outputs import new_directory
    from easyfirst.tables.runs import RUN_FILES, FitRequest, fit_run

    if show_rows and no_values:
        raise click.UsageError(
            "--show-rows and --no-values contradict each other; give one of them"
        )
    if decisions is not None:
        read_decisions(decisions, of_labels=True)  # refused now rather than after the table is read
    form = reading_choices(choices)
    progress = LiveProgress(quiet)
    report = not no_report and _can_draw(progress)
    model = _model(choices, form, progress)
    request = FitRequest(
        data,
        model,
        form,
        report,
        show_rows,
        not no_values,
        clean,
        decisions,
        choices["task"],
        memory_limit,
    )
    with (
        new_directory(output, RUN_FILES, force) as folder,
        connected(choices["engine"], choices["address"]),
        progress,
    ):
        large = too_large(request)
        if large is None:
            run = fit_run(request, folder, progress.stage)
        else:
            run = fit_large_run(request, large, folder, progress.stage, progress.share)
    _explain(run, progress)
    _print(run, output, as_json, quiet)
    check_share(run.n_flagged + run.n_wrong, run.n_judged, fail_above)


def _can_draw(progress: LiveProgress) -> bool:
    """Whether a report can be written; its pictures need a package that fits do not."""
    found = importlib.util.find_spec("matplotlib") is not None
    if not found:
        progress.say("Note: no report.html; it needs: pip install 'easyfirst[tool,plot]'")
    return found


def _model(choices: dict[str, Any], form: TableFormat, progress: LiveProgress) -> TableModel:
    from easyfirst.estimators import SelfPacedRegressor
    from easyfirst.penalties import Ridge
    from easyfirst.tables import TableModel

    if choices["model_kind"] == "boosting" and (choices["ridge"] or choices["no_intercept"]):
        raise click.UsageError("--ridge and --no-intercept are for linear models, not for boosting")
    regressor = SelfPacedRegressor(
        engine=choices["engine"],
        n_jobs=choices["jobs"],
        penalty=Ridge(choices["ridge"]) if choices["ridge"] else None,
        target_transform=_target_transform(choices),
        fit_intercept=not choices["no_intercept"],
        max_rounds=choices["max_rounds"],
        random_state=choices["seed"],
        callbacks=[progress],  # type: ignore[list-item]  # any object with these methods will do
    )
    return TableModel(
        choices["target"],
        features=names(choices["features"]) or None,
        exclude=names(choices["exclude"]),
        row_id=choices["row_id"],
        batches=choices["batches"],
        regressor=regressor,
        decimal=form.decimal,
        thousands=form.thousands,
        model=choices["model_kind"],
    )


def _target_transform(choices: dict[str, Any]) -> Any:
    asked = choices["target_transform"]
    if choices["log_target"] and asked not in ("auto", "log"):
        raise click.UsageError(f"--log-target and --target-transform {asked} differ: give one")
    return "log" if choices["log_target"] else None if asked == "none" else asked


def _explain(run: Run, progress: LiveProgress) -> None:
    """Say what happened to the table, and what the fit warns of."""
    for note in run.model.notes_:
        progress.say(f"Note: {note}")
    for each in run.model.recipe_.left_out:
        progress.say(f"Note: column {each.name!r} {each.reason}: left out")
    for doubt in run.doubts:
        click.echo(f"Warning: {doubt}", err=True)


def _print(run: Run, output: Path, as_json: bool, quiet: bool) -> None:
    from easyfirst.tables.outputs import to_json

    summary = run.summary()
    if as_json:
        click.echo(to_json(summary))
    elif not quiet:
        _print_summary(summary, output)


def _noise_scale(summary: dict[str, Any]) -> str:
    from easyfirst.report.wording import number, visible

    scale, transform = number(summary["noise_scale"]), summary["target_transform"]
    if transform is None:
        return scale
    return f"{scale} of {transform}({visible(summary['target'])})"


def _print_summary(summary: dict[str, Any], output: Path) -> None:
    from easyfirst.cli.printing import (
        console,
        print_coefficients,
        print_fact,
        print_label_noise,
        print_suspects,
        print_table,
    )
    from easyfirst.report.wording import share_in_words

    out = console()
    rows = summary["rows"]
    print_coefficients(out, summary["coefficients"])
    is_regression = summary["task"] == "regression"
    if not is_regression:
        print_label_noise(out, summary["classes"], summary["label_noise"])
    lines = [
        (
            "rows that look wrong" if is_regression else "labels that look wrong",
            f"{rows['look_wrong']:,} of {rows['fitted']:,}",
        ),
        *(
            [("rows with a wrong target", f"{rows['with_wrong_target']:,}, not fitted (see notes)")]
            if rows["with_wrong_target"]
            else []
        ),
        (
            "estimated corrupted share" if is_regression else "estimated wrong labels",
            share_in_words(
                summary["corrupted_share"], summary["corrupted_interval"], "95 % interval"
            ),
        ),
        *([("noise scale", _noise_scale(summary))] if is_regression else []),
        ("fit", summary["status"]["message"]),
        (
            "seconds",
            ", ".join(f"{name} {value:.1f}" for name, value in summary["seconds"].items()),
        ),
        ("written to", str(output)),
    ]
    if summary["suspects"]:
        count = len(summary["suspects"])
        print_suspects(out, summary["suspects"], f"The {count} most suspicious rows")
    if summary["batches"]:
        worst = [(each["batch"], each["clean_share"]) for each in summary["batches"][:5]]
        print_table(out, "Worst batches", ("batch", "clean share"), worst, left=("batch",))
    for pattern in summary["patterns"]:
        print_fact(out, "pattern", pattern["words"])
    for name, value in lines:
        print_fact(out, name, value)
