"""A Ray of one's own for tests and measurements: on loopback, guarded, quiet, gone afterwards."""

import importlib
import os
import secrets
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from clusters import require, wait_until

# Ray reads these when it is imported. The first makes every server listen on loopback alone, as
# on other systems than Linux; the token keeps Ray from writing one into the home directory.
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(16))
os.environ.setdefault("RAY_usage_stats_enabled", "0")
require("ray")
ray = importlib.import_module("ray")


@contextmanager
def local_ray(n_cpus, store=256 * 2**20):
    """Start a Ray with this many CPUs, and see to it that none of its processes is left."""
    # A short path: sockets lie below it, and their names may not be long.
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        others = descendants()
        ray.init(
            num_cpus=n_cpus,
            include_dashboard=False,
            object_store_memory=store,
            log_to_driver=False,
            configure_logging=False,
            _temp_dir=folder,
        )
        try:
            assert ray.get_runtime_context().gcs_address.startswith("127.0.0.1:")
            yield
        finally:
            started = {pid: title for pid, title in descendants().items() if pid not in others}
            ray.shutdown()
            await_the_end_of(started)


def processes():
    """Every process: its number, its parent's number and what it calls itself."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state = (entry / "stat").read_text().rpartition(")")[2].split()
                title = (entry / "cmdline").read_text().partition("\0")[0]
            except OSError:  # it has just ended
                continue
            if state[0] != "Z":
                yield int(entry.name), int(state[1]), title


def descendants(root=None):
    """The processes that this one has started, and those that they have: number to name."""
    table = list(processes())
    family, found = {root or os.getpid()}, {}
    while True:
        more = {pid: title for pid, parent, title in table if parent in family and pid not in found}
        if not more:
            return found
        found |= more
        family |= more.keys()


def named(ending):
    """The processes of this test's Ray whose program or title ends so."""
    return [pid for pid, title in descendants().items() if title.endswith(ending)]


def at_work(n_workers=2):
    """The workers in the middle of a step, if all have started.

    On a busy machine a start can take longer than the time between two kills, and workers that
    are killed before they are up could do nothing but start.
    """
    for _ in range(10):
        crew = own_workers()
        busy = [pid for pid, title in crew.items() if title.endswith(".work")]
        starting = [title for title in crew.values() if title.endswith(("__init__", ".equip"))]
        if busy and len(crew) >= n_workers and not starting:
            return busy
        time.sleep(0.05)  # a look takes milliseconds that the fit's process lacks
    return []


def started_workers():
    """The workers of this process's fit, busy or not, if all have started."""
    crew = own_workers()
    starting = [title for title in crew.values() if title.endswith(("__init__", ".equip"))]
    return [] if starting else list(crew)


def own_workers():
    """The workers of this process's fit: number to name."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has just ended
            title = entry.read_text().partition("\0")[0]
            if (
                title.startswith("ray::_Worker")
                and _parent(_parent(entry.parent.name)) == os.getpid()
            ):
                found[int(entry.parent.name)] = title
    return found


def _parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def await_the_end_of(started):
    """Fail if one of these processes goes on."""

    def left():
        return {pid: started[pid] for pid, _, _ in processes() if pid in started}

    wait_until(lambda: not left(), explain=left)
