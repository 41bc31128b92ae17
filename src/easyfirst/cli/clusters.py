"""Connecting to the cluster that a command names; the user started it, and it stays up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from easyfirst.cli.failures import Failure

LOCAL_ENGINES = ("threads", "inline")
CLUSTER_ENGINES = ("dask", "ray", "spark")
ENGINES = (*LOCAL_ENGINES, *CLUSTER_ENGINES)
PATIENCE = 10  # seconds to wait for a scheduler


@contextmanager
def connected(engine: str, address: str | None) -> Iterator[None]:
    """Hold a connection to the cluster while the block runs; local engines need none."""
    if engine in LOCAL_ENGINES:
        if address is not None:
            raise click.UsageError(f"--address has no meaning for --engine {engine}")
        yield
        return
    if address is None:
        raise click.UsageError(f"--engine {engine} needs the --address of a running cluster")
    connection = _connect(engine, address)
    try:
        yield
    finally:
        _leave(engine, connection)


def _connect(engine: str, address: str) -> Any:
    connect = {"dask": _dask, "ray": _ray, "spark": _spark}[engine]
    try:
        return connect(address)
    except ModuleNotFoundError:
        raise Failure(
            f"--engine {engine} needs the '{engine}' extra: pip install 'easyfirst[{engine}]'"
        ) from None
    except Exception as error:  # each library has its own kinds of failure
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Failure(f"no {engine} cluster answers at {address}: {reason}") from error


def _dask(address: str) -> Any:
    import distributed

    connect: Callable[..., Any] = distributed.Client
    return connect(address, timeout=PATIENCE)


def _ray(address: str) -> Any:
    import ray

    return ray.init(address=address, log_to_driver=False)


def _spark(address: str) -> Any:
    from pyspark.sql import SparkSession

    quiet: dict[str, Any] = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    return SparkSession.builder.master(address).config(map=quiet).getOrCreate()


def _leave(engine: str, connection: Any) -> None:
    if engine == "dask":
        connection.close()
    elif engine == "ray":
        import ray

        ray.shutdown()
    else:
        connection.stop()
