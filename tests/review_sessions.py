"""Reviews to test: suspicious rows with fixes and patterns, served in a thread of this process."""

import threading
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from easyfirst import SelfPacedRegressor
from easyfirst.review.app import Review
from easyfirst.review.neighbours import Neighbours
from easyfirst.review.rows import SuspectRows
from easyfirst.review.serving import LoopbackServer
from easyfirst.review.session import ReviewSession
from easyfirst.tables import TableModel
from easyfirst.tables.decisions import DecisionLog


def flats(n=200, seed=0, names=None, agents=("Kaya", "Ernst")):
    """A table of flats with every fifth rent ten times too high."""
    rng = np.random.default_rng(seed)
    area = rng.uniform(20, 120, n).round(1)
    rent = (9 * area + rng.normal(0, 10, n)).round(2)
    rent[::5] *= 10
    return pa.table(
        {
            "flat": names or [f"F{i:04d}" for i in range(n)],
            "area": area,
            "agent": [agents[i % len(agents)] for i in range(n)],
            "rent": rent,
        }
    )


def fitted(table):
    """A model of the table, with the agents left out."""
    regressor = SelfPacedRegressor(engine="inline")
    return TableModel("rent", row_id="flat", exclude=("agent",), regressor=regressor).fit(table)


def with_fixes(found):
    """Suspicious rows with the columns that say how to fix them, the same for every row."""
    given = found["given_label"].to_numpy()
    columns = {
        "likely_fix": ["divided by 10"] * len(given),
        "fixed_value": given / 10,
        "fix_probability": np.full(len(given), 0.97),
        "patterns": ["about 10 times the prediction"] * len(given),
    }
    found = without_fixes(found)
    for name, values in columns.items():
        found = found.append_column(name, pa.array(values))
    return found


def without_fixes(found):
    """Suspicious rows without the columns that say how to fix them."""
    more = ("likely_fix", "fixed_value", "fix_probability", "patterns")
    return found.drop_columns([name for name in more if name in found.column_names])


@contextmanager
def served(table, model, path, fixes=True):
    """A review of the table's suspicious rows; yields its address and the session."""
    places, found = model.suspects_with_places(table)
    found = with_fixes(found) if fixes else without_fixes(found)
    rows = SuspectRows(found, places, table, model.target)
    server = LoopbackServer()
    ready, addresses = threading.Event(), []

    def tell(address):
        addresses.append(address)
        ready.set()

    with DecisionLog(path) as log:
        session = ReviewSession(rows, log)
        details = {"file": "flats.csv", "target": model.target, "decisions": str(path)}
        page = Review(session, Neighbours(model, rows), details, server.end)
        thread = threading.Thread(target=server.run, args=(page.application(), tell), daemon=True)
        thread.start()
        assert ready.wait(60)
        try:
            yield addresses[0], session
        finally:
            server.end()
            thread.join(60)
            assert not thread.is_alive()
