"""Settings of the whole suite."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# --doctest-modules imports whatever it collects, and a helper may need what is not installed.
HERE = Path(__file__).parent
collect_ignore = [p.name for p in HERE.glob("*.py") if not p.name.startswith("test_")]

# Derandomized: a property fails for everybody or for nobody. No deadline: cores may be busy.
settings.register_profile("easyfirst", derandomize=True, deadline=None, max_examples=25)
settings.load_profile("easyfirst")

# Where CI is true, everything that a test may ask for is there, and a skip is a failure. These
# may be skipped all the same: scikit-learn's own checks of inputs that are off by default.
MAY_BE_SKIPPED = ("SCIPY_ARRAY_API is not set",)
if os.environ.get("EASYFIRST_WITHOUT_LISTINGS"):  # for machines that have only the repository
    MAY_BE_SKIPPED += ("the rental listings are not at",)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the tests that open a page."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")


def _kept_promise(report):
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        if not any(text in str(reason) for text in MAY_BE_SKIPPED):
            report.outcome = "failed"
            report.longrepr = f"{report.nodeid}: no test may be skipped in CI. {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Turn a skipped test into a failed one, where CI promised what it needs."""
    return _kept_promise((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Turn a skipped module into a failed one, where CI promised what it needs."""
    return _kept_promise((yield))
