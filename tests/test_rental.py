"""Listings of every schema, downloads that break, and the real files where they are."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import QuantileRegressor

from easyfirst import SelfPacedRegressor
from easyfirst.baselines.method import Coefficients
from easyfirst.baselines.methods import METHODS
from easyfirst.datasets.download import ChecksumError, RemoteFile, download
from easyfirst.datasets.rental import (
    DETAILED,
    SUMMARY,
    find_listings,
    parse_numbers,
    read_directory,
    read_listings,
    within,
)
from easyfirst.experiments.cities import BARCELONA, LA, NYC
from easyfirst.experiments.methods import run_method
from easyfirst.experiments.rental import Rental

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

DETAILED_TABLE = pd.DataFrame(
    {
        "id": [1, 2, 3],
        "neighbourhood": ["typed by the host", None, "x"],
        "neighbourhood_cleansed": ["Harlem", "SoHo", "Harlem"],
        "room_type": ["Private room", "Entire home/apt", "Shared room"],
        "accommodates": [2, 4, 1],
        "bathrooms_text": ["1 bath", "1.5 shared baths", "Half-bath"],
        "bedrooms": [1.0, None, 1.0],
        "beds": [1, 2, 1],
        "price": ["$85.00", "$1,250.00", None],
    }
)
SUMMARY_TABLE = pd.DataFrame(
    {
        "id": [1, 2],
        "name": ['Flat, "sunny",\nquiet', "Loft"],
        "neighbourhood": ["Harlem", "SoHo"],
        "room_type": ["Private room", "Entire home/apt"],
        "price": [85, 250],
        "minimum_nights": [1, 30],
        "number_of_reviews": [0, 7],
        "calculated_host_listings_count": [1, 2],
    }
)


def write(table, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        table.to_parquet(path)
    else:
        table.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("name", ["listings.csv", "listings.csv.gz", "listings.parquet"])
def test_every_format_gives_the_same_detailed_listings(tmp_path, name):
    table = read_listings(write(DETAILED_TABLE, tmp_path / "2015-01-01" / name))
    assert table["price"].tolist()[:2] == [85.0, 1250.0]
    assert np.isnan(table["price"][2])
    assert table["bathrooms"].tolist() == [1.0, 1.5, 0.5]
    assert table["neighbourhood"].tolist() == ["Harlem", "SoHo", "Harlem"]
    assert set(table["snapshot"]) == {"2015-01-01"}
    assert set(DETAILED) <= set(table.columns)


def test_a_summary_file_keeps_its_quoted_names_from_moving_columns(tmp_path):
    table = read_listings(write(SUMMARY_TABLE, tmp_path / "listings.csv"))
    assert table["price"].tolist() == [85.0, 250.0]
    assert table["host_listings"].tolist() == [1.0, 2.0]
    assert "name" not in table
    assert set(SUMMARY) <= set(table.columns)


def test_prices_are_read_in_every_notation():
    found = parse_numbers(["$1,250.00", "€85", "1 200", 80, "free"])
    assert found.tolist()[:2] == [1250.0, 85.0]
    assert found[3] == 80.0
    assert np.isnan(found[4])


def test_a_file_without_prices_is_refused_with_its_columns(tmp_path):
    path = write(SUMMARY_TABLE.drop(columns="price"), tmp_path / "listings.csv")
    with pytest.raises(ValueError, match="no column 'price'"):
        read_listings(path)


def test_a_directory_is_read_by_window_and_needed_columns(tmp_path):
    write(DETAILED_TABLE, tmp_path / "nyc_2015-03.csv.gz")
    write(DETAILED_TABLE, tmp_path / "nyc_2016-01.csv.gz")
    write(SUMMARY_TABLE, tmp_path / "nyc_2015-05.csv")
    detailed = read_directory(tmp_path, needs=DETAILED, first="2015", last="2015")
    assert set(detailed["snapshot"]) == {"2015-03"}
    assert len(find_listings(tmp_path)) == 3
    with pytest.raises(FileNotFoundError, match="between 2019 and 2020"):
        read_directory(tmp_path, needs=DETAILED, first="2019", last="2020")


def test_rows_of_a_panel_are_split_by_their_own_dates(tmp_path):
    panel = pd.concat([SUMMARY_TABLE.assign(snapshot=day) for day in ("2015-04-30", "2018-01-02")])
    write(panel, tmp_path / "panel_2015-04_to_2018-01.parquet")
    assert len(read_directory(tmp_path, first="2018", last="2019")) == 2


@pytest.mark.parametrize(
    ("date", "first", "last", "inside"),
    [
        ("2015-06", "2015", "2015", True),
        ("2015-06-30", "2015-07", None, False),
        ("2017", None, "2016-12", False),
        (None, None, None, False),
    ],
)
def test_a_window_may_end_with_a_year_a_month_or_a_day(date, first, last, inside):
    assert within(date, first, last) is inside


# Downloads, from a server on this machine.

BODY = bytes(range(256)) * 4096
SHA = hashlib.sha256(BODY).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Serves BODY; can ignore ranges, and can hang up after some bytes, a number of times."""

    def do_GET(self):
        self.server.requests.append(self.headers.get("Range"))
        start = 0
        if self.server.ranges and self.headers.get("Range"):
            start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
        if start >= len(BODY):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(BODY) - start))
        self.end_headers()
        rest = BODY[start:]
        if self.server.hang_ups:
            self.server.hang_ups -= 1
            rest = rest[: len(BODY) // 3]
        self.wfile.write(rest)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.requests, server.ranges, server.hang_ups = [], True, 0
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        server.file = RemoteFile(f"http://127.0.0.1:{server.server_port}/l.csv.gz", "l.csv.gz", SHA)
        yield server
        server.shutdown()
        thread.join()


def test_a_download_that_breaks_off_continues_where_it_was(server, tmp_path):
    server.hang_ups = 2
    path = download(server.file, tmp_path)
    assert path.read_bytes() == BODY
    third = len(BODY) // 3
    assert server.requests == [None, f"bytes={third}-", f"bytes={2 * third}-"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_later_call_continues_a_partial_file(server, tmp_path):
    server.hang_ups = 1
    with pytest.raises(ConnectionError, match="run again to continue"):
        download(server.file, tmp_path, attempts=1)
    assert not (tmp_path / "l.csv.gz").exists()
    sizes = []
    assert download(server.file, tmp_path, on_bytes=sizes.append).read_bytes() == BODY
    assert sum(sizes) == len(BODY) - len(BODY) // 3


def test_a_server_without_ranges_is_asked_for_the_whole_again(server, tmp_path):
    server.ranges, server.hang_ups = False, 1
    assert download(server.file, tmp_path).read_bytes() == BODY


def test_a_complete_partial_file_only_gets_its_name(server, tmp_path):
    (tmp_path / "l.csv.gz.partial").write_bytes(BODY)
    assert download(server.file, tmp_path).read_bytes() == BODY


def test_a_file_that_is_there_is_not_fetched(server, tmp_path):
    (tmp_path / "l.csv.gz").write_bytes(BODY)
    assert download(server.file, tmp_path) == tmp_path / "l.csv.gz"
    assert server.requests == []


def test_a_wrong_file_never_gets_its_name(server, tmp_path):
    wrong = RemoteFile(server.file.url, "l.csv.gz", "0" * 64)
    with pytest.raises(ChecksumError, match="expected 0000"):
        download(wrong, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "name", "message"),
    [
        ("file:///etc/hosts", "hosts", "http or https"),
        ("http://127.0.0.1/x", "../x", "must not contain a folder"),
    ],
)
def test_a_download_stays_on_the_web_and_in_its_directory(tmp_path, url, name, message):
    with pytest.raises(ValueError, match=message):
        download(RemoteFile(url, name, SHA), tmp_path)


# The real files.


@pytest.fixture(scope="module")
def listings():
    if not (DATA / "airbnb_nyc").exists():
        pytest.skip(f"the rental listings are not at {DATA}")
    return DATA


def error(spec, method, seed=0):
    return run_method(METHODS[method], spec.make(seed), None).figures["error"]


def test_the_published_figure_falls_out_of_the_leak_and_the_root(listings):
    spec = Rental(NYC, "as published", 0.1, listings)
    assert error(spec, "easyfirst") == pytest.approx(3.95, abs=0.05)
    assert error(spec, "drlr") == pytest.approx(3.95, abs=0.05)


@pytest.mark.parametrize("city", [NYC, LA, BARCELONA], ids=lambda city: city.name)
def test_the_honest_protocol_is_judged_in_money_on_later_snapshots(listings, city):
    spec = Rental(city, "honest", 0.5, listings, every=20)
    problem = spec.make(0)
    assert np.all(np.isfinite(problem.X))
    assert 0.3 < 1 - problem.clean.mean() < 0.7
    limit = run_method(METHODS["clean-labels"], problem, None).figures
    assert 20 < limit["median"] < limit["error"] < 120


@pytest.mark.parametrize("ratio", [0.1, 0.3])
def test_prices_whose_noise_depends_on_x_are_predicted_like_a_median_regression(listings, ratio):
    """Long tails above the line pull slopes, although wrong prices beside them are told."""
    problem = Rental(NYC, "honest", ratio, DATA, every=2).make(0)
    ours = SelfPacedRegressor().fit(problem.X, problem.y, batches=problem.batches)
    median = QuantileRegressor(alpha=0).fit(problem.X, problem.y)
    errors = [
        problem.measure(Coefficients(model.coef_, model.intercept_))["error"]
        for model in (ours, median)
    ]
    assert errors[0] < 1.005 * errors[1]


def test_a_city_without_a_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="New York City"):
        Rental(NYC, "honest", 0.1, tmp_path).make(0)
