"""The summary, the displays and the page; the page as a real browser shows it."""

import base64
import io
import json
import re
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import easyfirst
import hostile
from browser import Browser, Visit, chromium_or_skip
from easyfirst import SelfPacedRegressor
from easyfirst.datasets import make_corrupted_regression
from easyfirst.report import (
    ConvergenceDisplay,
    PacePathDisplay,
    ResidualDisplay,
    WeightDisplay,
)
from easyfirst.report.least_squares import least_squares
from easyfirst.report.wording import visible

plt.switch_backend("Agg")

STRUCTURE = """(() => {
    const walk = e => e.tagName + "[" + [...e.attributes].map(a => a.name).sort().join(" ") + "]"
        + "(" + [...e.children].map(walk).join("") + ")";
    return walk(document.documentElement);
})()"""

TABLE_TAGS = {"div", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"}


def texts(selector):
    return f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)"


@pytest.fixture(scope="module")
def rows():
    data = make_corrupted_regression(250, 4, 8, mode="batches", n_bad_batches=3, random_state=1)
    X = pd.DataFrame(data.X, columns=["rooms", "beds", "area", "age"])
    return X, data.y, np.array([f"sensor {batch}" for batch in data.batches])


@pytest.fixture(scope="module")
def model(rows):
    X, y, batches = rows
    return SelfPacedRegressor().fit(X, y, batches=batches)


@pytest.fixture(scope="module")
def uncalibrated(rows):
    return SelfPacedRegressor.paper(admm_on="driver").fit(rows[0], rows[1])


@pytest.fixture(scope="module")
def page(model, rows, tmp_path_factory):
    X, y, batches = rows
    path = tmp_path_factory.mktemp("report") / "page.html"
    return model.report(path, X, y, batches=batches).path


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    opened = Browser(chromium_or_skip(), tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


# The summary


def test_displays_and_judged_rows_are_short_to_read(model, rows):
    X, y, _ = rows
    for display in (
        PacePathDisplay.from_estimator(model),
        ConvergenceDisplay.from_estimator(model),
        WeightDisplay.from_estimator(model),
        ResidualDisplay.from_estimator(model, X, y),
    ):
        assert repr(display).startswith(type(display).__name__)
        assert len(repr(display)) < 200
    wrong = np.count_nonzero(~model.selected_)
    assert repr(model.judge(X, y)) == f"JudgedRows(2,000 rows, of which {wrong} look wrong)"


def test_the_summary_prints_what_the_model_holds(model):
    text = str(model.summary())
    assert f"{np.count_nonzero(~model.selected_):,} (" in text
    assert f"{100 * model.corrupted_fraction_:.1f} %" in text
    assert f"{model.coef_[0]:.4g}" in text
    assert f"{model.coef_standard_errors_[2]:.4g}" in text
    assert model.status_.message in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_the_summary_is_a_frame_of_any_library(model, backend):
    frame = model.summary().to_frame(backend=backend)
    assert type(frame).__module__.partition(".")[0] == backend
    columns = {name: list(np.asarray(frame[name])) for name in ("name", "coef", "std_err", "t")}
    assert columns["name"] == ["rooms", "beds", "area", "age", "(intercept)"]
    assert columns["coef"] == [*model.coef_, model.intercept_]
    np.testing.assert_allclose(columns["t"], np.divide(columns["coef"], columns["std_err"]))


def test_the_intervals_of_the_summary_are_those_of_the_model(model):
    frame = model.summary(level=0.8).to_frame()
    assert frame[["name", "coef", "lower", "upper"]].equals(model.confidence_intervals(0.8))
    inner = frame.iloc[-1]
    assert inner["lower"] < model.intercept_ < inner["upper"]


def test_a_model_without_a_calibrated_pace_says_that_it_has_no_standard_errors(uncalibrated):
    summary = uncalibrated.summary()
    assert "No standard errors" in str(summary)
    assert list(summary.to_frame().columns) == ["name", "coef"]
    assert "(intercept)" not in str(summary)


def two_models():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 2))
    y = np.where(np.arange(600) < 300, X @ [3.0, 1.0], X @ [-3.0, 1.0])
    return X, y + 0.1 * rng.standard_normal(600)


def test_doubts_stand_in_the_summary():
    X, y = two_models()
    with pytest.warns(easyfirst.errors.NoSingleModelWarning):
        fitted = SelfPacedRegressor().fit(X, y)
    assert len(fitted.doubts_) > 0
    one_line = " ".join(str(fitted.summary()).split())
    assert all(doubt in one_line for doubt in fitted.doubts_)


def test_a_level_that_is_no_probability_is_refused(model):
    with pytest.raises(ValueError, match=r"level must lie between 0 and 1, got 95"):
        model.summary(level=95)


def test_names_cannot_steer_the_terminal_or_the_notebook():
    X = pd.DataFrame(np.random.default_rng(0).standard_normal((400, len(hostile.NAMES))))
    X.columns = pd.Index(hostile.NAMES, dtype=object)
    summary = SelfPacedRegressor().fit(X, X.to_numpy().sum(axis=1) + X.iloc[:, 0]).summary()
    text = str(summary)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e\u2066\u2028\ud800]", text)
    assert len(text.splitlines()) < 90
    markup = summary._repr_html_()
    assert "<script" not in markup
    assert "<img" not in markup
    assert set(re.findall(r"<(\w+)", markup)) <= TABLE_TAGS


def test_a_long_summary_leaves_out_the_middle_and_says_so():
    X = np.random.default_rng(0).standard_normal((500, 90))
    text = str(SelfPacedRegressor().fit(X, X.sum(axis=1) + np.sin(1e3 * X[:, 0])).summary())
    assert "... 31 more" in text
    assert "(intercept)" in text


def test_steering_characters_become_codes_and_joiners_stay():
    assert visible("a\u202eb\x1b") == "a\\u202eb\\x1b"
    assert visible("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645") == (
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    )
    assert len(visible("x" * 1000)) == 60
    assert len(visible("\x00" * 1000)) == 60


# The displays


def test_the_pace_path_shows_the_history(model):
    display = PacePathDisplay.from_estimator(model)
    assert display.ax_.get_title(loc="left") == "Pace path"
    assert display.ax_.get_xlabel() == "round"
    assert "squared units of y" in display.ax_.get_ylabel()
    assert display.figure_ is display.ax_.figure
    (line,) = display.ax_.get_lines()
    shown = np.isfinite(line.get_ydata())
    paces = np.array([record.pace for record in model.history_.rounds])
    np.testing.assert_array_equal(line.get_ydata()[shown], paces[np.isfinite(paces)])
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert legend == ["pace (left axis)", "rows selected (right axis)", "rounds on a sample"]
    right = display.figure_.axes[1]
    assert "rows selected (%)" in right.get_ylabel()
    last = right.get_lines()[0].get_ydata()[-1]  # rows are judged once more when all is done
    assert last == pytest.approx(100 * np.mean(model.selected_), abs=1.0)
    plt.close(display.figure_)


def test_convergence_shows_consensus_only_where_there_was_one(model, uncalibrated):
    one_message = ConvergenceDisplay.from_estimator(model)
    iterated = ConvergenceDisplay.from_estimator(uncalibrated)
    assert len(one_message.ax_.get_lines()) == 2
    assert len(iterated.ax_.get_lines()) == 4
    assert iterated.ax_.get_yscale() == "log"
    changed = [record.changed for record in uncalibrated.history_.rounds]
    np.testing.assert_allclose(iterated.ax_.get_lines()[0].get_ydata()[:-1], changed[:-1])
    for display in (one_message, iterated):
        plt.close(display.figure_)


def test_the_parts_of_the_residuals_add_up_to_the_rows(model, rows):
    figure, ax = plt.subplots()
    display = ResidualDisplay.from_estimator(model, rows[0], rows[1], ax=ax)
    assert display.ax_ is ax
    assert np.sum(display.clean) == pytest.approx(np.sum(model.weights_))
    assert np.sum(display.clean + display.corrupted) == pytest.approx(len(rows[1]))
    # The fitted curve describes the bars.
    near = np.abs(display.edges[1:] + display.edges[:-1]) < 4
    assert np.sum(display.expected_clean[near]) == pytest.approx(
        np.sum(display.clean[near]), rel=0.1
    )
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[:2] == ["rows, clean part", "rows, corrupted part"]
    assert ax.get_xlabel() == "given minus predicted (standard deviations)"
    plt.close(figure)


def test_residuals_without_rows_are_those_of_the_noise_model(model, uncalibrated, rows):
    display = ResidualDisplay.from_estimator(model)
    assert display.clean is None
    assert np.sum(display.expected_clean) == pytest.approx(model._calibration.noise.clean, rel=1e-3)
    plt.close(display.figure_)
    with pytest.raises(ValueError, match="give the rows, X and y"):
        ResidualDisplay.from_estimator(uncalibrated)
    with pytest.raises(ValueError, match="both X and y"):
        ResidualDisplay.from_estimator(model, rows[0])


def test_the_weights_are_counted_on_both_sides_of_one_half(model, rows):
    display = WeightDisplay.from_estimator(model)
    wrong = np.count_nonzero(~model.selected_)
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert f"({wrong:,} rows)" in labels[0]
    assert f"({len(rows[1]) - wrong:,} rows)" in labels[1]
    again = display.plot()
    assert again.ax_.get_xlabel() == "weight (probability that the row is clean)"
    plt.close("all")


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_a_missing_package_is_named_with_what_to_install(model, tmp_path, monkeypatch, package):
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    extra = {"matplotlib": "plot", "jinja2": "tool"}[package]
    with pytest.raises(ModuleNotFoundError, match=rf"pip install 'easyfirst\[{extra}\]'") as caught:
        model.report(tmp_path / "page.html")
    assert caught.value.name == package
    assert list(tmp_path.iterdir()) == []


# The file


def test_an_existing_file_is_replaced_only_when_asked(model, tmp_path):
    path = tmp_path / "page.html"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        model.report(path)
    assert path.read_text() == "mine"
    assert model.report(path, overwrite=True).path == path
    assert path.read_text().startswith("<!DOCTYPE html>")
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


def test_a_page_cannot_replace_a_directory_or_appear_where_none_exists(model, tmp_path):
    with pytest.raises(IsADirectoryError, match="give the path of a file"):
        model.report(tmp_path, overwrite=True)
    with pytest.raises(FileNotFoundError, match="nowhere is not a directory: create it first"):
        model.report(tmp_path / "nowhere" / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_the_same_fit_gives_the_same_bytes(model, rows, page, tmp_path):
    X, y, batches = rows
    again = model.report(tmp_path / "again.html", X, y, batches=batches)
    assert again.path.read_bytes() == page.read_bytes()


def test_no_value_of_a_row_stands_in_the_page_unless_asked_for(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((300, 2)), columns=["a", "b"])
    y = X["a"].to_numpy() + 0.1 * rng.standard_normal(300)
    X.loc[7, "b"], y[7] = 1.23454321, 987654.0
    fitted = SelfPacedRegressor().fit(X, y)
    hidden = fitted.report(None, X, y, show_target=False).html
    shown = fitted.report(None, X, y, show_rows=True).html
    for value in ("987,654", "1.235"):
        assert value not in hidden
        assert value in shown
    table = pd.DataFrame({"town": [f"town {i}" for i in range(300)]})
    instead = fitted.report(None, X, y, show_rows=table).html
    assert "town 7" in instead
    assert "1.235" not in instead
    with pytest.raises(ValueError, match="show_rows has 5 lines for 300 rows"):
        fitted.report(tmp_path / "other.html", X, y, show_rows=table[:5])


def test_a_report_needs_both_x_and_y_and_the_batches_of_the_fit(model, rows, tmp_path):
    X, y, _ = rows
    with pytest.raises(ValueError, match="both X and y"):
        model.report(tmp_path / "page.html", X)
    with pytest.raises(ValueError, match="names 2 batches, but the fit had 8"):
        model.report(tmp_path / "page.html", X, y, batches=np.arange(len(y)) % 2)
    assert list(tmp_path.iterdir()) == []


def test_least_squares_beside_the_model_is_least_squares():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 5)) * [1, 1e4, 1e-4, 1, 1] + [0, 1e5, 0, 3, 0]
    X[:, 4] = X[:, 3]  # determined only together
    y = X @ [1.0, 1e-4, 1e4, 1.0, 1.0] + rng.standard_normal(20_000)
    expected = np.linalg.lstsq(np.column_stack([X, np.ones(len(X))]), y, rcond=None)[0]
    found = least_squares(X, y, with_intercept=True)
    np.testing.assert_allclose(found[:3], expected[:3], rtol=1e-6)
    np.testing.assert_allclose(found[3] + found[4], expected[3] + expected[4], rtol=1e-6)
    np.testing.assert_allclose(found[3], found[4], rtol=1e-6)
    through_zero = least_squares(X[:, :4], y, with_intercept=False)
    np.testing.assert_allclose(through_zero, np.linalg.lstsq(X[:, :4], y, rcond=None)[0], rtol=1e-5)


# The page, in a browser


def test_the_page_loads_without_an_error_and_without_a_request(browser, page):
    visit = browser.open(page.as_uri())
    assert visit == Visit()
    assert browser.value("document.scripts.length") == 0
    elsewhere = '[...document.querySelectorAll("[src],[href]")].map(e => e.src || e.href)'
    assert all(url.startswith("data:") for url in browser.value(elsewhere))


LEAKS = {
    "an image": "<img src='http://attacker.example/a.png'>",
    "a stylesheet": "<style>body { background: url(http://attacker.example/b) }</style>",
    "a redirection": "<meta http-equiv=refresh content='0;url=http://attacker.example/c'>",
    "a frame": "<iframe src='http://attacker.example/d'></iframe>",
    "an icon": "<link rel=icon href='http://attacker.example/e.ico'>",
    "a socket": "<script>new WebSocket('ws://attacker.example/f')</script>",
    "this machine": "<img src='http://127.0.0.1:8000/g'>",
    "another file": "<img src='file:///etc/hostname'>",
}


def test_the_policy_stops_what_would_slip_in(browser, page):
    browser.open(page.as_uri())
    for harm in [LEAKS[name] for name in LEAKS if name != "a redirection"]:
        browser.value(f"document.body.insertAdjacentHTML('beforeend', {json.dumps(harm)})")
    handler = "<img src='data:,x' onerror='window.owned = 1'>"
    browser.value(f"document.body.insertAdjacentHTML('beforeend', {json.dumps(handler)})")
    visit = browser.wait(1.0)
    assert visit.sent == []
    assert sum("Content Security Policy" in line for line in visit.console) >= 4
    assert browser.value("window.owned") is None


@pytest.mark.parametrize("leak", LEAKS)
def test_the_browser_notices_a_request(browser, tmp_path, leak):
    (tmp_path / "leak.html").write_text(f"<!DOCTYPE html><title>x</title>{LEAKS[leak]}")
    visit = browser.open((tmp_path / "leak.html").as_uri())
    assert visit.requests + visit.sent != []
    if leak not in ("another file", "a socket"):
        assert any("GET http://" in line for line in visit.sent)


POLICY = "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'\">"


@pytest.mark.parametrize(
    "fault",
    [
        "<script>console.error('wrong')</script>",
        "<script>throw new Error('wrong')</script>",
        f"{POLICY}<b style='color: red'>b</b>",
        f"{POLICY}<script>1</script>",
    ],
)
def test_the_browser_notices_an_error(browser, tmp_path, fault):
    (tmp_path / "fault.html").write_text(f"<!DOCTYPE html><title>x</title>{fault}")
    assert browser.open((tmp_path / "fault.html").as_uri()).console != []


def test_the_browser_notices_a_dialog(browser, tmp_path):
    (tmp_path / "page.html").write_text("<!DOCTYPE html><script>alert(1)</script>")
    assert browser.open((tmp_path / "page.html").as_uri()).dialogs == ["1"]


def test_the_verdict_comes_first_and_every_part_is_there(browser, page, model, rows):
    browser.open(page.as_uri())
    wrong = np.count_nonzero(~model.selected_)
    (headline,) = browser.value(texts("h1"))
    assert headline.startswith(f"{wrong:,} of {len(rows[1]):,} rows look wrong")
    assert browser.value(texts("h2")) == ["Suspicious rows", "Batches", "The model", "Diagnostics"]
    lead = " ".join(browser.value(texts(".lead"))).replace("\N{NO-BREAK SPACE}", " ")
    low, high = (f"{100 * bound:.1f} %" for bound in model.corrupted_interval_)
    assert f"between {low} and {high}" in lead
    assert "least squares on all rows would be off by" in lead
    assert browser.value("document.images.length") == 4
    sizes = browser.value("[...document.images].map(i => [i.complete, i.naturalWidth, i.alt])")
    assert all(complete and width > 300 and alt for complete, width, alt in sizes)
    bad = browser.value(texts("[aria-label=Batches] tbody tr"))[:3]
    assert all(line.endswith("bad") for line in bad)
    first = browser.value(texts("[aria-label='Suspicious rows'] tbody th"))[0]
    assert first == str(model.suspects(*rows[:2], top=1)["row_id"].iloc[0])


def test_what_the_fit_knows_alone_makes_a_page_too(browser, model, uncalibrated, tmp_path):
    for fitted, figures in ((model, 4), (uncalibrated, 3)):
        path = fitted.report(tmp_path / f"{figures}.html").path
        visit = browser.open(path.as_uri())
        assert visit == Visit()
        assert browser.value("document.images.length") == figures
        assert "Give the rows (X and y)" in browser.value("document.body.textContent")


def test_doubts_stand_above_everything_else(browser, tmp_path):
    X, y = two_models()
    with pytest.warns(easyfirst.errors.NoSingleModelWarning):
        fitted = SelfPacedRegressor().fit(X, y)
    browser.open(fitted.report(tmp_path / "page.html", X, y).path.as_uri())
    assert browser.value(texts("h2"))[0] == "Read this first"
    assert browser.value(texts(".doubts li")) == list(fitted.doubts_)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_a_phone_and_a_desk(browser, page, width):
    browser.open(page.as_uri(), width=width, height=844)
    assert browser.value("document.documentElement.scrollWidth") <= width
    # Wide tables scroll inside their box.
    assert browser.value(
        "[...document.querySelectorAll('.scroll')].every(e => e.clientWidth < innerWidth)"
    )
    smallest = "Math.min(...[...document.querySelectorAll('p, td, th')]"
    assert browser.value(f"{smallest}.map(e => parseFloat(getComputedStyle(e).fontSize)))") >= 12


def test_the_page_prints_whole(browser, page):
    browser.open(page.as_uri())
    browser.ask("Emulation.setEmulatedMedia", media="print")
    assert (
        browser.value("getComputedStyle(document.querySelector('.scroll')).overflowX") == "visible"
    )
    assert browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert len(browser.ask("Page.printToPDF")["data"]) > 10_000


def test_charts_are_dark_on_a_dark_page(browser, page):
    browser.open(page.as_uri())
    for scheme, is_light in (("light", True), ("dark", False)):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.ask("Emulation.setEmulatedMedia", features=[feature])
        browser.wait(0.5)
        box = browser.value(
            "(b => ({x: b.x, y: b.y + scrollY, width: b.width, height: b.height, scale: 1}))"
            "(document.images[0].getBoundingClientRect())"
        )
        shot = browser.ask("Page.captureScreenshot", clip=box, captureBeyondViewport=True)["data"]
        pixels = plt.imread(io.BytesIO(base64.b64decode(shot)), format="png")[..., :3]
        brightness = pixels.mean(axis=2)
        assert (np.median(brightness) > 0.5) == is_light
        # Axes and text stand out from the paper.
        ink = brightness.min() if is_light else brightness.max()
        assert abs(ink - np.median(brightness)) > 0.5


def test_a_notebook_shows_the_page_in_place(browser, model, rows, tmp_path):
    X, y, _ = rows
    shown = model.report(None, X, y)
    assert shown.path is None
    assert "not saved" in repr(shown)
    cell = f"<!DOCTYPE html><title>notebook</title>{shown._repr_html_()}"
    (tmp_path / "notebook.html").write_text(cell)
    visit = browser.open((tmp_path / "notebook.html").as_uri())
    assert visit == Visit()
    box = browser.value(
        "(b => [b.width, b.height])(document.querySelector('iframe').getBoundingClientRect())"
    )
    assert box[0] > 1000
    assert box[1] > 500
    saved = shown.save(tmp_path / "page.html")
    assert saved.path.read_text() == shown.html


def test_no_column_is_cut_in_print(browser, tmp_path):
    """Also with many columns, long names and long values."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((300, 25)), columns=[f"column_{i}" * 4 for i in range(25)])
    y = X.sum(axis=1).to_numpy() + 0.1 * rng.standard_normal(300)
    y[:30] *= 1e7
    names = [f"a_very_long_name_without_any_space_{i}" for i in range(300)]
    fitted = SelfPacedRegressor().fit(X, y)
    path = fitted.report(tmp_path / "page.html", X, y, row_ids=names, show_rows=True).path
    browser.open(path.as_uri(), width=688)  # A4 without its margins
    browser.ask("Emulation.setEmulatedMedia", media="print")
    browser.wait(0.3)
    right = "Math.max(...[...document.querySelectorAll('td, th, img, p, li, dd')]"
    assert browser.value(f"{right}.map(e => e.getBoundingClientRect().right))") <= 689


def report_with_names(path, columns, batch_ids, row_ids, categories):
    data = make_corrupted_regression(30, 100, 50, corruption_ratio=0.2, random_state=0)
    X = pd.DataFrame(data.X)
    X.columns = pd.Index(columns, dtype=object)
    # Ids in this order whatever they say, so that the batches are the same.
    ids = np.array([f"{i:03d}{name}" for i, name in enumerate(batch_ids)], dtype=object)
    batches = ids[data.batches]
    fitted = SelfPacedRegressor().fit(X, data.y, batches=batches)
    worst = fitted.suspects(X, data.y, top=50).index
    names = np.array([f"row {i}" for i in range(len(X))], dtype=object)
    names[worst] = row_ids
    texts_of_rows = np.array(["plain"] * len(X), dtype=object)
    texts_of_rows[worst] = categories
    table = pd.DataFrame({"category": pd.Series(texts_of_rows, dtype=object)})
    table["one"] = 1.0
    page = fitted.report(path, X, data.y, row_ids=names, batches=batches, show_rows=table)
    return page.path, [visible(each) for each in ids]


@pytest.fixture(scope="module")
def harmless_structure(browser, tmp_path_factory):
    plain = [f"name {i}" for i in range(100)]
    path = tmp_path_factory.mktemp("harmless") / "page.html"
    report_with_names(path, plain, plain[:50], plain[:50], plain[50:])
    browser.open(path.as_uri())
    return browser.value(STRUCTURE)


@pytest.mark.parametrize("half", [0, 1])
def test_a_hundred_hostile_names_change_nothing(browser, harmless_structure, tmp_path, half):
    assert len(set(hostile.NAMES)) == 100
    mine, others = hostile.NAMES[50 * half :][:50], hostile.NAMES[50 * (1 - half) :][:50]
    columns = hostile.NAMES[half:] + hostile.NAMES[:half]
    path, batches = report_with_names(tmp_path / "page.html", columns, mine, mine, others)
    visit = browser.open(path.as_uri(), width=390)
    assert visit == Visit()
    assert browser.value("window.owned") is None
    assert browser.value(STRUCTURE) == harmless_structure
    assert browser.value("document.documentElement.scrollWidth") <= 390
    # Every name is shown as what it is.
    shown = browser.value(texts("[aria-label=Coefficients] tbody th"))
    assert shown == [*map(visible, columns), "(intercept)"]
    shown = browser.value(texts("[aria-label='Suspicious rows'] tbody th"))
    assert shown == [*map(visible, mine)]
    shown = browser.value(texts(".values li:first-child bdi:last-child"))
    assert shown == [*map(visible, others)]
    shown = browser.value(texts("[aria-label=Batches] tbody th"))
    assert sorted(shown) == sorted(batches)
