"""The review page: what it lets in, what it saves, and how it is used in a real browser."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib import resources
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from click.testing import CliRunner

import easyfirst
import hostile
import review_sessions
from browser import PATIENCE, Browser, chromium_or_skip
from easyfirst.cli.group import easyfirst as command
from easyfirst.review.session import ChangedError, View
from easyfirst.tables.decisions import read_decisions

SOURCE = os.fspath(resources.files(easyfirst).joinpath(".."))
CHOSEN = "document.querySelector('tr[aria-selected=true] td')?.textContent"
SAID = "document.getElementById('said').textContent"


@pytest.fixture(scope="module")
def table():
    return review_sessions.flats()


@pytest.fixture(scope="module")
def model(table):
    return review_sessions.fitted(table)


@pytest.fixture
def review(table, model, tmp_path):
    with review_sessions.served(table, model, tmp_path / "decisions.csv") as (url, session):
        yield url, session, tmp_path / "decisions.csv"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    opened = Browser(chromium_or_skip(), tmp_path_factory.mktemp("profile"), loopback=True)
    yield opened
    opened.close()


def asked(url, path="", body=None, method=None, **headers):
    """The status and content of one request; None as a header leaves it away."""
    place = urlsplit(url)
    own = {"Host": place.netloc, "Origin": f"http://{place.netloc}"}
    own |= {"Content-Type": "application/json"} if body is not None else {}
    own |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=PATIENCE)
    sent = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    target = path if path.startswith("/") else place.path + path
    connection.putrequest(method or ("GET" if body is None else "POST"), target, skip_host=True)
    for name, value in own.items():
        if value is not None:
            connection.putheader(name, value)
    if sent is not None and "Content_Length" not in headers:
        connection.putheader("Content-Length", str(len(sent)))
    connection.endheaders(sent)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content, dict(answer.getheaders())


# Who is let in


def test_the_page_is_found_at_its_whole_address_alone(review):
    url = review[0]
    assert asked(url)[0] == 200
    for path in ("/", "/review.js", "/wrong-token/", url.split("/")[3][:-1].join("//")):
        assert asked(url, path)[0] == 404
    assert asked(url, "no-such-file")[0] == 404
    assert asked(url, "../session.py")[0] == 404


def test_the_server_listens_on_the_loopback_address_alone(review):
    assert urlsplit(review[0]).hostname == "127.0.0.1"
    port = urlsplit(review[0]).port
    known = Path("/proc/net/tcp")
    sockets = known.read_text() if known.exists() else ""
    listening = re.findall(rf"\d+: (\w+):{port:04X} \w+:\w+ 0A", sockets)
    assert set(listening) <= {"0100007F"}


@pytest.mark.parametrize("host", ["attacker.example", "127.0.0.1", "127.0.0.1.attacker.example:1"])
def test_a_host_that_is_not_ours_is_refused(review, host):
    assert asked(review[0], Host=host)[0] == 421
    assert asked(review[0], Host=None)[0] in (400, 421)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://attacker.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": None}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content_Length": "99999999"}, 413),
    ],
)
def test_a_request_from_another_site_decides_nothing(review, headers, status):
    url, session, _ = review
    body = {"place": 0, "decision": "wrong"}
    assert asked(url, "api/decide", body, **headers)[0] == status
    assert asked(url, "api/end", {}, **headers)[0] == status
    assert session.counts()["wrong"] == 0
    assert asked(url, "api/decide", body)[0] == 200
    assert session.counts()["wrong"] == 1


def test_nothing_is_decided_by_a_link(review):
    url, session, _ = review
    for path in ("api/decide?place=0&decision=wrong", "api/undo", "api/end"):
        assert asked(url, path)[0] == 405
    assert session.counts()["wrong"] == 0


def test_every_answer_carries_the_policy_that_keeps_scripts_out(review):
    for path, status in (("", 200), ("api/state", 200), ("nothing", 404), ("/", 404)):
        found, _, headers = asked(review[0], path)
        assert found == status
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("api/rows?sort=secret", None, 400),
        ("api/rows?start=-1", None, 400),
        ("api/rows?count=100000", None, 400),
        ("api/rows?count=many", None, 400),
        ("api/row?place=1", None, 404),
        ("api/decide", {"place": 1, "decision": "wrong"}, 404),
        ("api/decide", {"place": 0, "decision": "maybe"}, 400),
        ("api/decide", {"expected": 3, "decision": "wrong"}, 409),
        ("api/decide", [], 400),
        ("api/decide", b"{", 400),
    ],
)
def test_a_question_without_sense_gets_a_reason(review, path, body, status):
    found, content, _ = asked(review[0], path, body)
    assert found == status
    assert json.loads(content)["error"]
    assert review[1].counts()["open"] == review[1].counts()["all"]


# The rows


def test_views_are_sorted_and_filtered(review):
    session = review[1]
    given = session.rows.given
    rising = session.select(View(sort="given"))
    assert list(given[rising]) == sorted(given)
    assert list(session.select(View(sort="given", descending=True))) == list(rising[::-1])
    name = session.rows.names[7]
    assert list(session.select(View(search=name.lower()))) == [7]
    assert len(session.select(View(group="pattern:about 10 times the prediction"))) == len(given)
    assert len(session.select(View(group="no such group"))) == 0
    session.decide([3], "right")
    assert list(session.select(View(state="right"))) == [3]
    assert 3 not in session.select(View(state="open"))


def test_a_group_is_decided_at_once_if_it_is_what_was_seen(review):
    _, session, path = review
    view = View(state="open", group="pattern:about 10 times the prediction")
    size = len(session.select(view))
    with pytest.raises(ChangedError, match=f"holds {size} rows now, not 1"):
        session.decide_view(view, "fix", 1)
    assert session.decide_view(view, "fix", size) == size
    found = read_decisions(path)
    assert {each.kind for each in found.values()} == {"fix"}
    assert all(each.fixed == pytest.approx(each.given / 10) for each in found.values())
    assert session.undo()
    assert read_decisions(path) == {}


def test_undo_gives_back_the_earlier_decision(review):
    _, session, path = review
    place = int(session.rows.places[0])
    session.decide([0], "wrong")
    session.decide([0], "right")
    assert session.undo() == [place]
    assert read_decisions(path)[place].kind == "wrong"
    assert session.undo() == [place]
    assert session.undo() == []
    assert session.counts()["open"] == len(session.rows)


def test_a_row_without_a_likely_fix_cannot_be_fixed(table, model, tmp_path):
    path = tmp_path / "decisions.csv"
    with review_sessions.served(table, model, path, fixes=False) as (url, session):
        place = int(session.rows.places[0])
        _, content, _ = asked(url, "api/decide", {"place": place, "decision": "fix"})
        assert json.loads(content)["decided"] == 0
    assert read_decisions(path) == {}


def test_the_good_rows_beside_are_the_nearest(review, table):
    url, session, _ = review
    place = int(session.rows.places[0])
    _, content, _ = asked(url, f"api/row?place={place}")
    found = json.loads(content)
    area = table["area"].to_numpy()
    good = np.setdiff1d(np.arange(len(area)), session.rows.places)
    nearest = good[np.argsort(np.abs(area[good] - area[place]), kind="stable")[:4]]
    assert {each["row"] for each in found["nearest"]} == {f"F{each:04d}" for each in nearest}
    assert [column["used"] for column in found["columns"]] == [True, False]


def test_a_target_that_is_no_number_is_shown_as_it_stands(tmp_path):
    rents = [f"{value:.2f}" for value in review_sessions.flats()["rent"].to_pylist()]
    rents[3] = rents[8] = "to be asked"
    table = review_sessions.flats().set_column(3, "rent", pa.array(rents))
    model = review_sessions.fitted(table)
    with review_sessions.served(table, model, tmp_path / "decisions.csv", fixes=False) as (
        url,
        session,
    ):
        shown = json.loads(asked(url, "api/rows?search=to be asked".replace(" ", "%20"))[1])
        assert [row["given"] for row in shown["rows"]] == ["to be asked"] * 2
        place = shown["rows"][0]["place"]
        beside = json.loads(asked(url, f"api/row?place={place}")[1])
        assert beside["given"] == "to be asked"
        assert asked(url, "api/decide", {"place": place, "decision": "wrong"})[0] == 200
        assert session.counts()["wrong"] == 1
    assert np.isnan(read_decisions(tmp_path / "decisions.csv")[place].given)


def test_decisions_of_an_earlier_review_are_there_again(table, model, tmp_path):
    path = tmp_path / "decisions.csv"
    with review_sessions.served(table, model, path) as (_, session):
        session.decide([0, 1], "wrong")
        session.decide([2], "right")
    with review_sessions.served(table, model, path) as (_, session):
        counts = session.counts()
    assert (counts["wrong"], counts["right"]) == (2, 1)


# In a browser


def opened(browser, url, width=1200, height=900):
    visit = browser.open(url, width, height)
    browser.until("document.querySelector('#beside table') !== null")
    return visit


def test_one_key_decides_a_row_and_goes_on_to_the_next(browser, review):
    url, session, path = review
    visit = opened(browser, url)
    names = session.rows.names
    assert browser.value(CHOSEN) == names[0]
    for key, kind in (("w", "wrong"), ("r", "right"), ("f", "fix")):
        before = len(read_decisions(path))
        browser.press(key)
        browser.until(f"{SAID}.includes('Saved')")
        browser.until(f"{CHOSEN} === {names[before + 1]!r}")
        assert read_decisions(path)[int(session.rows.places[before])].kind == kind
    browser.press("u")
    browser.until(f"{CHOSEN} === {names[2]!r}")
    assert len(read_decisions(path)) == 2
    assert f"2 of {len(names)} rows decided" in browser.value("document.body.textContent")
    assert visit.console == []
    assert visit.sent == []


def test_fast_keys_decide_the_rows_that_they_were_meant_for(browser, review):
    url, session, _ = review
    opened(browser, url)
    for key in "wrfwrfwrfw":
        browser.press(key)
    browser.until("document.getElementById('progress').textContent.startsWith('10 of')")
    kinds = [session.shown([index])[0]["state"] for index in range(11)]
    assert kinds == ["wrong", "right", "fix"] * 3 + ["wrong", "open"]


def test_a_pattern_is_decided_with_one_key_and_taken_back_with_another(browser, review):
    url, session, path = review
    opened(browser, url)
    browser.value("document.querySelectorAll('#groups button')[1].click()")
    browser.until("document.querySelectorAll('#groups button')[1].ariaPressed === 'true'")
    browser.press("f", shift=True)
    browser.until("document.getElementById('confirm').open")
    assert read_decisions(path) == {}
    browser.press("Enter")
    size = len(session.rows)
    browser.until(f"{SAID}.includes('{size} rows are fixed')")
    assert len(read_decisions(path)) == size
    browser.press("u")
    browser.until(f"{SAID}.includes('Taken back: {size} rows')")
    assert read_decisions(path) == {}
    browser.press("w", shift=True)
    browser.until("document.getElementById('confirm').open")
    browser.press("Escape")
    browser.until("!document.getElementById('confirm').open")
    assert read_decisions(path) == {}


def test_heads_sort_and_the_search_finds(browser, review):
    url, session, _ = review
    opened(browser, url)
    browser.value("document.querySelector('button[data-sort=given]').click()")
    smallest = session.rows.names[int(np.argmin(session.rows.given))]
    browser.until(f"{CHOSEN} === {smallest!r}")
    wanted = session.rows.names[9]
    browser.press("/")
    browser.ask("Input.insertText", text=wanted)
    browser.until("document.querySelectorAll('#rows tr').length === 1")
    assert browser.value(CHOSEN) == wanted


def test_the_end_button_ends_the_server_and_says_so(browser, table, model, tmp_path):
    with review_sessions.served(table, model, tmp_path / "decisions.csv") as (url, _):
        opened(browser, url)
        browser.press("w")
        browser.until(f"{SAID}.includes('Saved')")
        browser.value("document.getElementById('end').click()")
        browser.until("document.getElementById('lost').textContent.includes('has ended')")
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                asked(url)
            except OSError:
                break
        else:
            pytest.fail("the server still answers")


def test_a_page_whose_server_is_gone_says_so(browser, table, model, tmp_path):
    with review_sessions.served(table, model, tmp_path / "decisions.csv") as (url, _):
        opened(browser, url)
    browser.press("w")
    browser.until("!document.getElementById('lost').hidden")
    assert "What you decided is saved" in browser.value(
        "document.getElementById('lost').textContent"
    )


@pytest.mark.parametrize("width", [1200, 390])
def test_the_page_is_no_wider_than_the_window(browser, review, width):
    opened(browser, review[0], width)
    assert browser.value("document.documentElement.scrollWidth") <= width


def test_names_values_and_patterns_are_texts(browser, tmp_path):
    names = [f"{each} {place}" for place, each in enumerate(hostile.NAMES)]
    names = [name.encode("utf-8", "replace").decode() for name in names]
    n = 5 * len(names)
    odd = [names[i // 5] if i % 5 == 0 else f"row {i}" for i in range(n)]
    table = review_sessions.flats(n, names=odd, agents=names).rename_columns(
        ["flat", "area", "<img src=x onerror=window.owned=1>", "rent"]
    )
    model = easyfirst.tables.TableModel("rent", row_id="flat", features=("area",)).fit(table)
    places, found = model.suspects_with_places(table)
    found = review_sessions.with_fixes(found)
    for column in ("likely_fix", "patterns", "reason"):
        place = found.column_names.index(column)
        found = found.set_column(place, column, pa.array(names[: len(places)] * 1))
    model.suspects_with_places = lambda _: (places, found)
    with review_sessions.served(table, model, tmp_path / "decisions.csv") as (url, session):
        visit = opened(browser, url)
        for _ in range(len(session.rows) + 2):
            browser.press("w")
        browser.until(
            f"document.getElementById('progress').textContent.startsWith('{len(places)} of')"
        )
        browser.value("document.querySelector('[data-state=all]').click()")
        browser.until("document.querySelectorAll('#rows tr').length === 50")
        visit = browser.wait(0.5)
        assert browser.value("window.owned") is None
        assert (
            browser.value("document.querySelectorAll('img, iframe, svg, base, style').length") == 0
        )
        assert visit.console == []
        assert visit.dialogs == []
        assert visit.sent == []
        assert not [each for each in visit.requests if not each.startswith(url)]
    assert len(read_decisions(tmp_path / "decisions.csv")) == len(places)


def test_a_hundred_thousand_suspects_are_paged_sorted_and_decided(browser, model, tmp_path):
    n = 100_000
    table = review_sessions.flats(2 * n)
    places = np.arange(0, 2 * n, 2)
    given = table["rent"].to_numpy()[places]
    found = pa.table(
        {
            "row_id": table["flat"].take(pa.array(places)),
            "is_label_issue": np.ones(n, dtype=bool),
            "label_quality": np.linspace(0, 0.4, n),
            "given_label": given,
            "predicted_label": given + 1,
            "residual": np.linspace(100, 3, n),
            "weight": np.zeros(n),
            "entry_pace": np.ones(n),
            "reason": [f"reason {i}" for i in range(n)],
        }
    )
    large = review_sessions.fitted(table.slice(0, 500))
    large.suspects_with_places = lambda _: (places, found)
    path = tmp_path / "decisions.csv"
    with review_sessions.served(table, large, path) as (url, session):
        opened(browser, url)
        assert browser.value("document.querySelectorAll('#rows tr').length") == 50
        assert "1 to 50 of 100,000" in browser.value("document.getElementById('page').textContent")
        browser.value("document.getElementById('next').click()")
        browser.until("document.getElementById('page').textContent.startsWith('51 to 100')")
        browser.value("document.querySelector('button[data-sort=given]').click()")
        browser.until(f"{CHOSEN} === {session.rows.names[int(np.argmin(given))]!r}")
        browser.press("/")
        browser.ask("Input.insertText", text="reason 77777")
        browser.until("document.querySelectorAll('#rows tr').length === 1")
        browser.ask("Input.dispatchKeyEvent", type="keyDown", key="Escape")
        browser.value(
            "(() => { const box = document.getElementById('search'); box.value = ''; box.blur();"
            " box.dispatchEvent(new Event('input')); })()"
        )
        browser.until("document.querySelectorAll('#rows tr').length === 50")
        browser.press("w", shift=True)
        browser.until("document.getElementById('confirm').open")
        browser.press("Enter")
        browser.until(f"{SAID}.includes('100,000 rows are wrong')")
    assert len(read_decisions(path)) == n


# The command


def fitted_run(tmp_path):
    pa_csv.write_csv(review_sessions.flats(), tmp_path / "flats.csv")
    arguments = ["fit", tmp_path / "flats.csv", "-t", "rent", "--row-id", "flat", "--no-report"]
    arguments += ["-q", "-o", tmp_path / "run"]
    done = CliRunner().invoke(command, list(map(str, arguments)))
    assert done.exit_code == 0, done.output
    return tmp_path / "run"


def started(*arguments, cwd):
    """The real command, in a process of its own, and the address that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "easyfirst.cli.main", "review", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": SOURCE},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stdout:
        found = re.search(r"http://\S+", line)
        if found:
            return process, found.group()
    raise AssertionError(process.stderr.read())


def first_place(url):
    return json.loads(asked(url, "api/rows?count=1")[1])["rows"][0]["place"]


def test_a_killed_review_has_saved_every_decision(tmp_path):
    run = fitted_run(tmp_path)
    process, url = started("run", cwd=tmp_path)
    with process:
        place = first_place(url)
        assert asked(url, "api/decide", {"place": place, "decision": "wrong"})[0] == 200
        process.send_signal(signal.SIGKILL)
    assert read_decisions(run / "decisions.csv")[place].kind == "wrong"
    process, url = started("run", cwd=tmp_path)
    with process:
        state = json.loads(asked(url, "api/state")[1])
        assert state["counts"]["wrong"] == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        assert re.search(r"1 of \d+ rows decided: 1 wrong", process.stdout.read())


def test_a_review_that_nobody_uses_ends_by_itself(tmp_path):
    fitted_run(tmp_path)
    process, url = started("run", "--idle", "0.01", cwd=tmp_path)
    with process:
        assert process.wait(PATIENCE) == 0
        assert re.search(r"0 of \d+ rows decided", process.stdout.read())
    with pytest.raises(OSError, match="refused"):
        asked(url)


def test_a_run_whose_table_is_gone_asks_for_it(tmp_path):
    run = fitted_run(tmp_path)
    (tmp_path / "flats.csv").rename(tmp_path / "moved.csv")
    done = CliRunner().invoke(command, ["review", str(run)])
    assert done.exit_code == 3
    assert "name the table after" in done.stderr
    process, _ = started("run", "moved.csv", "--idle", "0.01", cwd=tmp_path)
    with process:
        assert process.wait(PATIENCE) == 0


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    done = CliRunner().invoke(command, ["review", str(tmp_path)])
    assert done.exit_code == 4
    assert "holds no model.safetensors" in done.stderr


def test_a_port_that_is_taken_is_refused(table, model, tmp_path):
    run = fitted_run(tmp_path)
    with review_sessions.served(table, model, tmp_path / "decisions.csv") as (url, _):
        port = str(urlsplit(url).port)
        done = CliRunner().invoke(command, ["review", str(run), "--port", port])
    assert done.exit_code == 5
    assert f"port {port} cannot be used" in done.stderr


def test_a_table_without_suspects_needs_no_page(tmp_path):
    x = np.sin(np.arange(100.0))
    pa_csv.write_csv(pa.table({"x": x, "y": 2 * x}), tmp_path / "good.csv")
    run = ["fit", tmp_path / "good.csv", "-t", "y", "--no-report", "-q", "-o", tmp_path / "run"]
    assert CliRunner().invoke(command, list(map(str, run))).exit_code == 0
    done = CliRunner().invoke(command, ["review", str(tmp_path / "run")])
    assert done.exit_code == 0
    assert "None of the 100 rows looks wrong" in done.output
    assert not (tmp_path / "run" / "decisions.csv").exists()
