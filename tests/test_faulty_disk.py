"""Whichever call to the disk fails: a right result or one documented error."""

import shutil
import sys

import pytest

import faulty_disk

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="needs a C compiler on Linux"
)


@pytest.mark.parametrize("name", faulty_disk.SCENARIOS)
def test_a_failing_disk_gives_a_right_result_or_a_documented_error(name, tmp_path):
    found = faulty_disk.run_alone(tmp_path, most=4, scenarios=[name])
    assert faulty_disk.all_well(found), faulty_disk.table(found)
    kinds = found[name]
    assert all(kinds[kind]["failed"] > 0 for kind in ("open", "write", "fsync", "rename"))
    assert sum(each["refused"] for each in kinds.values()) > 0
