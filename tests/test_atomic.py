"""Files and folders appear whole or not at all, whatever happens while they are written."""

import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import easyfirst
from easyfirst.atomic import atomic_write, move_into_place, unfinished

SOURCE = Path(easyfirst.__file__).parent


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_new_file_appears_whole_and_nothing_beside_it(overwrite, tmp_path):
    with atomic_write(tmp_path / "a", overwrite=overwrite) as path:
        path.write_bytes(b"half")
        assert not (tmp_path / "a").exists()
        path.write_bytes(b"whole")
    assert (tmp_path / "a").read_bytes() == b"whole"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt, OSError])
def test_an_error_in_the_middle_leaves_the_old_file(kind, tmp_path):
    (tmp_path / "a").write_bytes(b"old")

    def write():
        with atomic_write(tmp_path / "a") as path:
            path.write_bytes(b"half")
            raise kind

    with pytest.raises(kind):
        write()
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_disk_that_fails_at_the_end_leaves_the_old_file(call, tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"old")

    def fails(*given, **options):
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(os if call == "fsync" else Path, call, fails)
    with pytest.raises(OSError, match="the disk is broken"), atomic_write(tmp_path / "a") as path:
        path.write_bytes(b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_the_bytes_are_on_the_disk_before_the_name_is_taken(tmp_path, monkeypatch):
    done, fsync, replace = [], os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (done.append("sync"), fsync(handle))[1])
    monkeypatch.setattr(
        Path, "replace", lambda path, target: (done.append("name"), replace(path, target))[1]
    )
    with atomic_write(tmp_path / "a") as path:
        path.write_bytes(b"new")
    assert done == ["sync", "name", "sync"]
    done.clear()
    with atomic_write(tmp_path / "a", durable=False) as path:
        path.write_bytes(b"newer")
    assert done == ["name"]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_a_kill_in_the_middle_leaves_the_old_file(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from easyfirst.atomic import atomic_write\n"
        "with atomic_write(Path(sys.argv[1])) as path:\n"
        "    path.write_bytes(b'half')\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(tmp_path / "a")], timeout=600)
    assert ended.returncode == -signal.SIGKILL
    assert (tmp_path / "a").read_bytes() == b"old"


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_came_meanwhile_is_kept(links, tmp_path, monkeypatch):
    if not links:

        def link(*given):
            raise OSError(errno.EPERM, "no links here")

        monkeypatch.setattr(os, "link", link)

    def write():
        with atomic_write(tmp_path / "a", overwrite=False) as path:
            path.write_bytes(b"ours")
            (tmp_path / "a").write_bytes(b"theirs")

    with pytest.raises(FileExistsError, match="written by somebody else"):
        write()
    assert (tmp_path / "a").read_bytes() == b"theirs"
    assert names(tmp_path) == ["a"]


def test_a_folder_appears_whole_and_replaces_none(tmp_path):
    def write():
        with atomic_write(tmp_path / "run") as folder:
            folder.mkdir()
            (folder / "x").write_bytes(b"1")
            assert "run" not in names(tmp_path) or names(tmp_path / "run") == ["x"]

    write()
    with pytest.raises(OSError, match=re.escape("run")):
        write()
    assert names(tmp_path) == ["run"]
    assert names(tmp_path / "run") == ["x"]


def test_a_long_name_has_room_for_its_unfinished_one(tmp_path):
    target = tmp_path / ("n" * 255)
    with atomic_write(target) as path:
        path.write_bytes(b"x")
    assert target.read_bytes() == b"x"


def test_two_writers_do_not_meet(tmp_path):
    assert unfinished(tmp_path / "a") != unfinished(tmp_path / "a")


def test_a_finished_file_takes_its_name(tmp_path):
    (tmp_path / "part").write_bytes(b"x")
    move_into_place(tmp_path / "part", tmp_path / "a")
    assert names(tmp_path) == ["a"]


def test_nobody_else_renames_or_syncs():
    """Decisions are appended to a log, which only asks for its own bytes to be on the disk.

    Rows of a query are kept in a temporary file, which nobody else looks for.
    """
    pattern = re.compile(r"\bos\.(replace|rename|link|fsync)\b|\.rename\(|mkstemp|NamedTemporary")
    found = {
        path.relative_to(SOURCE).as_posix(): len(pattern.findall(path.read_text("utf-8")))
        for path in SOURCE.rglob("*.py")
    }
    others = {"tables/decisions.py", "sources/duckdb.py"}
    assert {name for name, count in found.items() if count} == {"atomic.py", *others}
    assert all(found[name] == 1 for name in others)
