"""A hundred and twenty messy tables through the real entry point: what has to be understood."""

import bz2
import gzip
import io
import json
import shlex
import sqlite3
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pytest
from click.testing import CliRunner

from easyfirst.cli.group import easyfirst as command
from messy import csv, flats, written

FRAME, WRONG = flats()
N = len(FRAME)
FIT = "fit data.csv -t rent"
FULL_WIDTH = str.maketrans(
    "0123456789.", "\uff10\uff11\uff12\uff13\uff14\uff15\uff16\uff17\uff18\uff19\uff0e"
)
ARABIC = str.maketrans(
    "0123456789.", "\u0660\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668\u0669\u066b"
)


@dataclass(frozen=True)
class Messy:
    """Files to make, the command, and what must be said, used and left out.

    `same`: the rows that look wrong are those of the clean table, one for one.
    """

    make: Callable
    command: str = FIT
    says: tuple[str, ...] = ()
    used: dict = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    same: bool = True
    stdin: str | None = None


def changed(**columns):
    """The flats with other columns, as CSV."""

    def make(folder):
        (folder / "data.csv").write_bytes(csv(FRAME.assign(**columns)))

    return make


def content(name, make):
    """A file made from the flats."""
    return lambda folder: (folder / name).write_bytes(make(FRAME))


def rent(*marks, **options):
    """The flats with their rent written in some notation."""
    return changed(rent=written(FRAME["rent"], *marks, **options))


def codes(column, code, places):
    """The flats with a code in some rows of a column."""
    values = FRAME[column].astype(float).copy()
    values[places] = code
    return changed(**{column: values})


def dates(form, name="built"):
    return changed(**{name: FRAME["built"].dt.strftime(form)})


def german(frame):
    """As a German spreadsheet exports it."""
    table = frame.assign(
        area=written(frame["area"], ",", ".", digits=1),
        rent=written(frame["rent"], ",", ".", after=" €"),
        built=frame["built"].dt.strftime("%d.%m.%Y"),
        lift=np.where(frame["lift"], "ja", "nein"),
    )
    return table.to_csv(index=False, sep=";").encode()


def workbook(frame, sheet="Tabelle1", above=(), more=()):
    sink = io.BytesIO()
    with pd.ExcelWriter(sink, engine="openpyxl") as writer:
        frame.to_excel(writer, sheet_name=sheet, index=False, startrow=len(above))
        for row, text in enumerate(above, start=1):
            writer.sheets[sheet].cell(row, 1, text)
        for name in more:
            pd.DataFrame({"note": ["nothing"]}).to_excel(writer, sheet_name=name, index=False)
    return sink.getvalue()


def records(frame, **options):
    return frame.to_json(orient="records", date_format="iso", **options).encode()


def zipped(frame):
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("flats/data.csv", csv(frame))
    return sink.getvalue()


def zstd(raw):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as file:
        file.write(raw)
    return sink.getvalue().to_pybytes()


def sqlite(folder, more=False):
    with sqlite3.connect(folder / "data.sqlite") as database:
        table = FRAME.assign(built=FRAME["built"].dt.strftime("%Y-%m-%d"))
        table.to_sql("flats", database, index=False)
        if more:
            database.execute("CREATE TABLE owners (name TEXT)")
    database.close()


def duck(folder):
    duckdb = pytest.importorskip("duckdb", reason="the extra 'duckdb' is not installed")
    with duckdb.connect(str(folder / "data.duckdb")) as database:
        frame = pa.Table.from_pandas(FRAME, preserve_index=False)  # noqa: F841  # found by name
        database.execute("CREATE TABLE flats AS SELECT * FROM frame")
        database.execute("CREATE TABLE owners (name TEXT)")


def hive(folder):
    """Parquet files by city and year, which their folders alone name."""
    for (city, year), part in FRAME.groupby(["city", FRAME["built"].dt.year]):
        place = folder / "flats" / f"city={city}" / f"year={year}"
        place.mkdir(parents=True)
        part.drop(columns="city").to_parquet(place / "part-0.parquet")


def pieces(folder, name="part-{}.csv", size=100):
    (folder / "flats").mkdir()
    for number, start in enumerate(range(0, len(FRAME), size)):
        part = FRAME.iloc[start : start + size]
        (folder / "flats" / name.format(number)).write_bytes(csv(part))


ROWS = np.arange(len(FRAME))
SOME = (ROWS % 12 == 5) & ~WRONG

NUMBERS = {
    "dollars": Messy(rent(".", ",", before="$"), says=("thousands mark ',', unit 'usd'",)),
    "euros behind": Messy(rent(".", "", after=" €"), says=("unit 'eur'",)),
    "euros as a word": Messy(rent(".", "", after=" EUR"), says=("unit 'eur'",)),
    "points and commas": Messy(rent(",", "."), says=("decimal mark ',', thousands mark '.'",)),
    "decimal commas": Messy(rent(",", ""), says=("(decimal mark ',')",)),
    "blanks between thousands": Messy(rent(",", " "), says=("thousands mark ' '",)),
    "narrow blanks": Messy(rent(",", "\u202f"), says=("thousands mark ' '",)),
    "Swiss apostrophes": Messy(rent(".", "\u2019"), says=('thousands mark "\'"',)),
    "exponents": Messy(changed(rent=[f"{v:.5e}" for v in FRAME["rent"]]), same=False),
    "accounting parentheses": Messy(
        changed(
            rooms=[f"({v:,.1f})" if v % 2 else f"{v:,.1f}" for v in 1000.5 * FRAME["rooms"]],
        ),
        says=("thousands mark ','",),
        same=False,
    ),
    "square metres": Messy(
        changed(area=written(FRAME["area"], after=" m²", digits=1)), says=("unit 'm²'",)
    ),
    "units left away now and then": Messy(
        changed(area=[f"{v} m2" if i % 3 else f"{v}" for i, v in enumerate(FRAME["area"])]),
        says=("unit 'm²'",),
        used={"area": "number"},
    ),
    "two units in one column": Messy(
        changed(shop=[f"{i % 97} {'km' if i % 2 else 'mi'}" for i in ROWS]), left_out=("shop",)
    ),
    "percent": Messy(changed(area=written(FRAME["area"], after="%", digits=1)), says=("unit '%'",)),
    "thousands as k": Messy(
        changed(rent=[f"{v / 1000:.5f}k" if v > 5000 else f"{v}" for v in FRAME["rent"]]),
        says=("magnitude 'k'",),
    ),
    "whole thousands with points": Messy(
        changed(
            area=written(np.rint(FRAME["area"] * 20), thousands=".", digits=0),
            rent=np.rint(FRAME["rent"]).astype(int),
        ),
        says=("thousands mark '.'", "if that is wrong, say so with"),
        same=False,
    ),
    "a comma that could be either": Messy(
        changed(area=written(np.rint(FRAME["area"] * 100), thousands=",", digits=0)),
        says=("thousands mark ','", "say so with --decimal ,"),
        same=False,
    ),
    "marks that the user names": Messy(
        changed(
            area=[f"{v:.3f}".replace(".", ",") for v in FRAME["area"]],
            rent=written(FRAME["rent"], ","),
        ),
        command=FIT + " --decimal ,",
        says=("decimal mark ','",),
    ),
    "a decimal comma decided by another column": Messy(
        changed(
            rent=written(FRAME["rent"], ",", "."),
            area=[f"{1 + v / 100:.3f}".replace(".", ",") for v in FRAME["area"]],
        ),
        says=("column 'area'", "decimal mark ','"),
        same=False,
    ),
    "a German export": Messy(
        content("data.csv", german),
        says=("decimal mark ','", "dates as dd.mm.yyyy"),
        used={"area": "number", "built": "date", "lift": "boolean"},
    ),
    "signs and spaces": Messy(changed(area=[f"  +{v} " for v in FRAME["area"]])),
}

MISSING = {
    "NA, n/a and ? among numbers": Messy(
        changed(
            area=[
                ["NA", "n/a", "?", "-"][i // 12 % 4] if s else v
                for i, (s, v) in enumerate(zip(SOME, FRAME["area"], strict=True))
            ]
        ),
        says=("missing values replaced by the median",),
        used={"area": "number"},
        same=False,
    ),
    "-200 in a feature": Messy(
        codes("area", -200, SOME), says=("column 'area': -200 (",), same=False
    ),
    "999 in a feature": Messy(codes("area", 999, SOME), says=("column 'area': 999 (",), same=False),
    "9999 in a feature": Messy(
        codes("area", 9999, SOME), says=("column 'area': 9999 (",), same=False
    ),
    "-1 beside positive numbers": Messy(
        codes("area", -1, SOME), says=("column 'area': -1 (",), same=False
    ),
    "-200 in the target": Messy(
        codes("rent", -200, SOME), says=("target 'rent': -200 (", "listed as wrong"), same=False
    ),
    "a word in the target": Messy(
        changed(rent=["sold" if i == 7 else v for i, v in enumerate(FRAME["rent"])]),
        says=("the first 'sold' in row 7",),
        same=False,
    ),
    "a word that stands for missing again and again": Messy(
        changed(area=np.where(SOME, "(weiß nicht)", FRAME["area"].astype(str))),
        says=("the first '(weiß nicht)' in row 5; taken as missing",),
        used={"area": "number"},
        same=False,
    ),
    "words that the user names": Messy(
        changed(rent=np.where(SOME, "sold", FRAME["rent"].astype(str))),
        command=FIT + " --na sold",
        says=("rows without a value of 'rent' left out",),
        same=False,
    ),
    "the year 9999": Messy(
        changed(
            built=np.where(SOME, "9999-12-31", FRAME["built"].dt.strftime("%Y-%m-%d")),
        ),
        says=("9999-12-31 (",),
        used={"built": "date"},
        same=False,
    ),
    "many genuine zeros": Messy(
        changed(balconies=np.where(ROWS % 3, 0, ROWS % 7)), used={"balconies": "number"}, same=False
    ),
    "a capped column": Messy(
        changed(score=np.minimum(ROWS % 150, 99)), used={"score": "number"}, same=False
    ),
}

KINDS = {
    "postcodes with leading zeros": Messy(
        changed(postcode=[["01085", "89073", "53111"][i % 3] for i in ROWS]),
        says=("leading zeros, such as '01085', are text",),
        used={"postcode": "category"},
        same=False,
    ),
    "ids": Messy(changed(flat_id=7000 + ROWS * 3), left_out=("flat_id",)),
    "unique numbers without a name for it": Messy(
        changed(contract=np.random.default_rng(3).permutation(90000)[: len(FRAME)]),
        left_out=("contract",),
    ),
    "unique texts": Messy(changed(key=[f"F{i:05d}" for i in ROWS]), left_out=("key",)),
    "ids of twenty digits": Messy(changed(key=[f"9{i:019d}" for i in ROWS]), left_out=("key",)),
    "d.m.Y": Messy(dates("%d.%m.%Y"), says=("dates as dd.mm.yyyy",), used={"built": "date"}),
    "d/m/Y": Messy(dates("%d/%m/%Y"), says=("dates as dd/mm/yyyy",), used={"built": "date"}),
    "m/d/Y": Messy(dates("%m/%d/%Y"), says=("dates as mm/dd/yyyy",), used={"built": "date"}),
    "months in words": Messy(dates("%d %b %Y"), says=("dd mon yyyy",), used={"built": "date"}),
    "American dates in words": Messy(dates("%B %d, %Y"), used={"built": "date"}),
    "digits only": Messy(dates("%Y%m%d"), says=("taken as dates",), used={"built": "date"}),
    "dates with times": Messy(dates("%Y-%m-%d 00:00:00"), used={"built": "date"}),
    "seconds since 1970": Messy(
        changed(built=(FRAME["built"] - pd.Timestamp(0)) // pd.Timedelta("1s")),
        command=FIT,
        used={"built": "date"},
        same=False,
    ),
    "milliseconds since 1970 under a name that says so": Messy(
        lambda folder: (folder / "data.csv").write_bytes(
            csv(
                FRAME.assign(
                    built_at=(FRAME["built"] - pd.Timestamp(0)) // pd.Timedelta("1ms")
                ).drop(columns="built")
            )
        ),
        says=("milliseconds since 1970",),
        used={"built_at": "date"},
    ),
    "times as 18.00.00": Messy(
        changed(seen=[f"{i % 24:02d}.{i % 60:02d}.00" for i in ROWS]),
        says=("HH.MM.SS",),
        used={"seen": "date"},
        same=False,
    ),
    "yes and no": Messy(
        changed(lift=np.where(FRAME["lift"], "Yes", "no")), used={"lift": "boolean"}
    ),
    "ja und nein, with gaps": Messy(
        changed(lift=np.where(SOME, "?", np.where(FRAME["lift"], "ja", "nein"))),
        used={"lift": "boolean"},
        same=False,
    ),
    "a copy of the target": Messy(
        changed(rent2=FRAME["rent"] * 1.19),
        says=("'rent2' reproduces 'rent' exactly: leakage?",),
        same=False,
    ),
    "a target of two values": Messy(
        changed(rent=np.where(FRAME["area"] > 80, 1, 0)),
        says=("holds 2 classes, 1 (161), 0 (79)", "--task regression"),
        same=False,
    ),
}

FORMATS = {
    "Excel": Messy(content("data.xlsx", workbook), "fit data.xlsx -t rent"),
    "Excel with a title and more sheets": Messy(
        content("data.xlsx", lambda f: workbook(f, above=("Flats in 2024", ""), more=("Notes",))),
        "fit data.xlsx -t rent",
        says=("1 line before the names", "sheet 'Tabelle1' of 2"),
    ),
    "a sheet by name": Messy(
        content("data.xlsx", lambda f: workbook(f, sheet="Flats", more=("Notes",))),
        "fit data.xlsx -t rent --table Flats",
    ),
    "JSON lines": Messy(
        content(
            "data.jsonl",
            lambda f: f.to_json(orient="records", lines=True, date_format="iso").encode(),
        ),
        "fit data.jsonl -t rent",
    ),
    "JSON records": Messy(
        content("data.json", records),
        "fit data.json -t rent",
        used={"built": "date"},
    ),
    "JSON by column": Messy(
        content("data.json", lambda f: f.to_json(date_format="iso").encode()),
        "fit data.json -t rent",
    ),
    "JSON from an API": Messy(
        content(
            "data.json",
            lambda f: json.dumps(
                {"status": "ok", "data": [{"flat": r} for r in f.astype(str).to_dict("records")]}
            ).encode(),
        ),
        "fit data.json -t flat.rent",
    ),
    "Feather": Messy(
        lambda folder: feather.write_feather(FRAME, folder / "data.feather"),
        "fit data.feather -t rent",
    ),
    "gzip": Messy(
        content("data.csv.gz", lambda f: gzip.compress(csv(f))), "fit data.csv.gz -t rent"
    ),
    "bzip2": Messy(
        content("data.csv.bz2", lambda f: bz2.compress(csv(f))), "fit data.csv.bz2 -t rent"
    ),
    "Zstandard": Messy(content("data.csv.zst", lambda f: zstd(csv(f))), "fit data.csv.zst -t rent"),
    "zip": Messy(content("data.zip", zipped), "fit data.zip -t rent"),
    "a pattern": Messy(pieces, "fit flats/part-*.csv -t rent", says=("3 files read",)),
    "a directory of CSV": Messy(pieces, "fit flats -t rent", says=("3 files read",)),
    "Hive directories": Messy(
        hive, "fit flats -t rent", used={"city": "category", "year": "number"}, same=False
    ),
    "standard input": Messy(lambda folder: None, "fit - -t rent", stdin=csv(FRAME).decode()),
    "SQLite": Messy(sqlite, "fit data.sqlite -t rent"),
    "SQLite by table": Messy(
        lambda folder: sqlite(folder, more=True), "fit data.sqlite -t rent --table flats"
    ),
    "SQLite by query": Messy(
        lambda folder: sqlite(folder, more=True),
        "fit data.sqlite -t rent --sql 'SELECT * FROM flats'",
    ),
    "DuckDB by table": Messy(duck, "fit data.duckdb -t rent --table flats"),
    "tabs and quotes": Messy(
        content("data.tsv", lambda f: csv(f, sep="\t", quoting=1)), "fit data.tsv -t rent"
    ),
    "a title before the heading": Messy(
        content("data.csv", lambda f: b"Flats 2024\nsource: the office\n\n" + csv(f)),
        says=("3 lines before the names of the columns skipped",),
    ),
    "a title in the first cell, and empty lines at the end": Messy(
        content("data.csv", lambda f: b"Flats;;;;;\n;;;;;\n" + csv(f, sep=";") + b";;;;;\n"),
        says=("2 lines before the names", "1 row without a value of 'rent' left out"),
        same=False,
    ),
    "blanks before quotes": Messy(
        content("data.csv", lambda f: csv(f, quoting=1).replace(b'","', b'", "')),
    ),
    "a line that names the delimiter": Messy(
        content("data.csv", lambda f: b"sep=;\n" + csv(f, sep=";"))
    ),
    "Latin 1 from a spreadsheet": Messy(
        content("data.csv", lambda f: csv(f.replace("Ulm", "Köln")).decode().encode("latin-1")),
        says=("read as Windows-1252 (Latin-1)",),
    ),
    "a euro sign of Windows": Messy(
        content(
            "data.csv",
            lambda f: csv(f.assign(rent=written(f["rent"], after=" €"))).decode().encode("cp1252"),
        ),
        says=("read as Windows-1252 (Latin-1)", "unit 'eur'"),
    ),
    "UTF-16 with its mark": Messy(
        content("data.csv", lambda f: csv(f, sep="\t").decode().encode("utf-16")),
        says=("read as UTF-16",),
    ),
    "Latin 1, compressed": Messy(
        content(
            "data.csv.gz",
            lambda f: gzip.compress(csv(f.replace("Ulm", "Köln")).decode().encode("latin-1")),
        ),
        "fit data.csv.gz -t rent",
        says=("read as Windows-1252 (Latin-1)",),
    ),
    "a byte-order mark and spaces in the heading": Messy(
        content(
            "data.csv",
            lambda f: b"\xef\xbb\xbf" + csv(f).replace(b"area,rooms,", b" area, rooms ,"),
        ),
        used={"area": "number", "rooms": "number"},
    ),
    "an address": Messy(
        lambda folder: remember("memory://flats/data.csv", csv(FRAME)),
        "fit memory://flats/data.csv -t rent",
    ),
}

RNG = np.random.default_rng(7)
LINES = csv(FRAME).decode().splitlines()
TOTAL = f"Total,,,,,{FRAME['rent'].sum():.2f}"
TOTAL_OF_ALL = f"{FRAME['area'].sum():.1f},700,Total,True,2020-01-01,{FRAME['rent'].sum():.2f}"
VALUES = [
    [row.area, row.rooms, row.city, bool(row.lift), row.built.to_pydatetime(), row.rent]
    for row in FRAME.itertuples()
]


def lines(*parts):
    """A CSV file of these lines."""
    return content("data.csv", lambda _: "\n".join([*parts, ""]).encode())


def sheet(fill):
    """A workbook that a function fills."""

    def make(folder):
        openpyxl = pytest.importorskip("openpyxl", reason="the extra 'excel' is not installed")
        book = openpyxl.Workbook()
        fill(book.active)
        book.save(folder / "data.xlsx")

    return make


def rows_of(page, *above, values=VALUES):
    for row in (*above, *values):
        page.append(row)


GERMAN = "Januar Februar März April Mai Juni Juli August September Oktober November Dezember"
SPANISH = "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"


def in_words(day, months, form):
    return form.format(day.day, months.split()[day.month - 1], day.year)


def lakhs(value):
    """A number as it is grouped in India: 12,34,567.00."""
    whole, cents = f"{value:.2f}".split(".")
    groups = [whole[-3:]]
    for end in range(len(whole) - 3, 0, -2):
        groups.insert(0, whole[max(end - 2, 0) : end])
    return f"{','.join(groups)}.{cents}"


def with_subtotals(frame):
    """The flats by city, each followed by its total, and a grand total."""
    parts = []
    for city, flats_there in frame.groupby("city"):
        sums = flats_there[["area", "rooms", "rent"]].sum()
        parts += [flats_there, pd.DataFrame([{**sums, "city": f"{city} Total"}])]
    sums = frame[["area", "rooms", "rent"]].sum()
    parts.append(pd.DataFrame([{**sums, "city": "Grand Total"}]))
    return csv(pd.concat(parts))


def merged_title(page):
    rows_of(page, ["Flats 2024"], [], list(FRAME.columns))
    page.merge_cells("A1:F1")


def two_cells_above(page):
    rows_of(page, ["Flats", 2024], ["Author", "Jane"], [], list(FRAME.columns))


def grouped_heading(page):
    rows_of(page, ["Flat", None, None, None, None, "Money"], list(FRAME.columns))
    page.merge_cells("A1:E1")


def repeated_names(page):
    groups = ["Area", None, "Rooms", None, "Money", None]
    values = [[row[0], "ok", row[1], "ok", row[5], "ok"] for row in VALUES]
    rows_of(page, groups, ["value", "remark"] * 3, values=values)
    for area in ("A1:B1", "C1:D1", "E1:F1"):
        page.merge_cells(area)


def merged_rows(page):
    """Cities that a merged cell names once for each two flats."""
    rows_of(page, list(FRAME.columns))
    for line in range(2, 2 + 2 * (len(VALUES) // 2), 2):
        page.cell(line + 1, 3).value = page.cell(line, 3).value
        page.merge_cells(start_row=line, end_row=line + 1, start_column=3, end_column=3)


def total_below(page):
    rows_of(page, list(FRAME.columns), values=[*VALUES, ["Total", *[None] * 4, 1e6]])


AS_FOUND = {
    "marks that fit one column only": Messy(
        rent(",", "."),
        FIT + " --decimal , --thousands .",
        left_out=("area",),
        same=False,
    ),
    "a minus behind the number": Messy(
        changed(
            balance=[
                text[1:] + "-" if text.startswith("-") else text
                for text in written(RNG.normal(0, 2000, len(FRAME)), ",", ".")
            ]
        ),
        used={"balance": "number"},
        same=False,
    ),
    "footnote marks": Messy(
        changed(area=[f"{v}{'*' if i % 9 == 0 else ''}" for i, v in enumerate(FRAME["area"])]),
        says=("' read as ", "without its footnote mark"),
        used={"area": "number"},
    ),
    "footnotes in brackets": Messy(
        changed(area=[f"{v}{' [1]' if i % 9 == 0 else ''}" for i, v in enumerate(FRAME["area"])]),
        used={"area": "number"},
    ),
    "full-width digits": Messy(
        changed(area=[str(v).translate(FULL_WIDTH) for v in FRAME["area"]]),
        used={"area": "number"},
    ),
    "Arabic digits": Messy(
        changed(area=[str(v).translate(ARABIC) for v in FRAME["area"]]), used={"area": "number"}
    ),
    "no-break spaces around numbers": Messy(
        changed(area=[f"\u00a0{v}\u00a0" for v in FRAME["area"]]), used={"area": "number"}
    ),
    "a currency before the number": Messy(
        changed(rent=[f"EUR {text}" for text in written(FRAME["rent"], ".", ",")]),
        says=("unit 'eur'",),
    ),
    "k and M in one column": Messy(
        changed(
            income=[
                f"{v / 1e3:.0f}k" if v < 1e6 else f"{v / 1e6:.1f}M"
                for v in RNG.lognormal(13, 1, len(FRAME))
            ]
        ),
        says=("magnitude",),
        used={"income": "number"},
        same=False,
    ),
    "Y, N and blank": Messy(
        changed(
            garden=np.where(ROWS % 5 == 0, "", np.where(RNG.random(ROWS.size) < 0.5, "Y", "N"))
        ),
        used={"garden": "boolean"},
        same=False,
    ),
    "dates in two formats": Messy(
        changed(
            built=[
                f"{day:%d.%m.%Y}" if i % 3 else f"{day:%Y-%m-%d}"
                for i, day in enumerate(FRAME["built"])
            ]
        ),
        says=("dd.mm.yyyy or yyyy-mm-dd",),
        used={"built": "date"},
    ),
    "times of the day with AM and PM": Messy(
        changed(at=[f"{1 + i % 12}:{i % 60:02d} {'AP'[i % 2]}M" for i in ROWS * 7]),
        used={"at": "date"},
        same=False,
    ),
    "days as Excel counts them": Messy(
        changed(
            built=FRAME["built"],
            start_date=(FRAME["built"] - pd.Timestamp("1899-12-30")).dt.days + RNG.integers(0, 9),
        ),
        says=("days as Excel counts them",),
        used={"start_date": "date"},
        same=False,
    ),
    "percent beside fractions": Messy(
        changed(share=[f"{v:.1%}" if i % 2 else f"{v:.3f}" for i, v in enumerate(RNG.random(N))]),
        left_out=("share",),
    ),
    "99 beside ages": Messy(
        changed(age=np.where(ROWS % 16 == 3, 99, RNG.integers(18, 90, N))),
        says=("column 'age': 99 (",),
        same=False,
    ),
    "-1 in the target": Messy(
        codes("rent", -1, SOME), says=("target 'rent': -1 (", "taken as a missing code"), same=False
    ),
    "inhabitants that say nothing about the target": Messy(
        changed(inhabitants=np.round(RNG.lognormal(9, 1.5, N)).astype(int)),
        used={"inhabitants": "number"},
        same=False,
    ),
    "a shuffled sequence": Messy(changed(ref=RNG.permutation(N) + 1), left_out=("ref",)),
    "a title with commas": Messy(
        lines("Export of flats, 2024", "Created by: Jane Doe, Ulm", "", *LINES),
        says=("3 lines before the names of the columns skipped",),
    ),
    "rows that end in a delimiter": Messy(lines(LINES[0], *(f"{line}," for line in LINES[1:]))),
    "a dash for no cents": Messy(
        changed(rent=[f"{value:.0f},-" for value in FRAME["rent"]]),
        says=("such as '6179,-' read as 6179, no cents",),
    ),
    "Indian lakhs": Messy(
        changed(rent=[f"₹ {lakhs(100 * value)}" for value in FRAME["rent"]]),
        says=("thousands mark ',', unit 'inr'",),
    ),
    "months in German": Messy(
        changed(built=[in_words(day, GERMAN, "{}. {} {}") for day in FRAME["built"]]),
        says=("dates as dd. mon yyyy",),
        used={"built": "date"},
    ),
    "months in Spanish": Messy(
        changed(built=[in_words(day, SPANISH, "{} de {} de {}") for day in FRAME["built"]]),
        used={"built": "date"},
    ),
    "subtotals of cities": Messy(
        content("data.csv", with_subtotals), says=("4 rows look like totals",), same=False
    ),
    "a complete total": Messy(
        lines(*LINES, TOTAL_OF_ALL), says=("row 240 looks like a total",), same=False
    ),
    "a remark after the rows": Messy(
        lines(*LINES, "(240 rows affected)"),
        says=("1 line after the rows skipped, the first '(240 rows affected)'",),
    ),
    "comments before the heading": Messy(lines("# sensor 12", "# unit: EUR", *LINES)),
    "values with line breaks": Messy(
        changed(note=np.where(ROWS % 7 == 0, "one\nline, two", "x")), same=False
    ),
    "a total below the rows": Messy(
        lines(*LINES, TOTAL), says=("looks like a total of others",), same=False
    ),
    "units below the heading": Messy(
        lines(LINES[0], "m²,count,,,date,EUR", *LINES[1:]),
        says=("the first 'EUR' in row 0",),
        used={"area": "number", "built": "date"},
        same=False,
    ),
    "the heading again": Messy(
        lines(*LINES[:150], LINES[0], *LINES[150:]), used={"area": "number"}, same=False
    ),
    "JSON with nested objects": Messy(
        content(
            "data.json",
            lambda f: json.dumps(
                [
                    {"flat": {"area": row[0], "rooms": int(row[1])}, "rent": row[5]}
                    for row in VALUES[: len(f)]
                ]
            ).encode(),
        ),
        "fit data.json -t rent",
        used={"flat.area": "number", "flat.rooms": "number"},
        same=False,
    ),
    "JSON lines that lack keys": Messy(
        content(
            "data.jsonl",
            lambda f: "\n".join(
                json.dumps(
                    {"area": row[0], "rent": row[5]} | ({"rooms": int(row[1])} if i % 9 else {})
                )
                for i, row in enumerate(VALUES[: len(f)])
            ).encode(),
        ),
        "fit data.jsonl -t rent",
        used={"area": "number", "rooms": "number"},
        same=False,
    ),
    "Excel with a merged title": Messy(
        sheet(merged_title), "fit data.xlsx -t rent", says=("1 line before the names",)
    ),
    "Excel with remarks of two cells above": Messy(
        sheet(two_cells_above), "fit data.xlsx -t rent", says=("2 lines before the names",)
    ),
    "Excel with groups of columns": Messy(
        sheet(grouped_heading), "fit data.xlsx -t rent", says=("lines 1 and 2 name the columns",)
    ),
    "Excel with the same names in each group": Messy(
        sheet(repeated_names),
        "fit data.xlsx -t 'Money value'",
        used={"Area value": "number", "Rooms value": "number"},
        left_out=("Area remark",),
        same=False,
    ),
    "Excel with merged rows": Messy(
        sheet(merged_rows), "fit data.xlsx -t rent", used={"city": "category"}, same=False
    ),
    "Excel with a total below": Messy(
        sheet(total_below), "fit data.xlsx -t rent", says=("looks like a total",), same=False
    ),
}

MESSY = NUMBERS | MISSING | KINDS | FORMATS | AS_FOUND


def remember(address, raw):
    """Put bytes where fsspec finds them, in this process."""
    fsspec = pytest.importorskip("fsspec", reason="the extra 'remote' is not installed")
    with fsspec.open(address, "wb") as file:
        file.write(raw)


def fitted(arguments, stdin=None):
    """The summary of a run, and which rows look wrong."""
    done = CliRunner().invoke(command, [*arguments, "--no-report", "--json"], input=stdin)
    assert done.exit_code == 0, done.stderr
    rows = pd.read_parquet("run/rows.parquet")
    return json.loads(done.stdout), rows


@pytest.fixture(scope="module")
def clean_run(tmp_path_factory):
    """Which rows of the clean table look wrong."""
    folder = tmp_path_factory.mktemp("clean")
    FRAME.to_parquet(folder / "data.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        _, rows = fitted(["fit", "data.parquet", "-t", "rent"])
    return rows["is_label_issue"].to_numpy()


def test_the_table_of_messy_inputs_is_long_enough():
    assert len(MESSY) >= 120


@pytest.mark.parametrize("name", MESSY)
def test_a_messy_table_is_understood(name, tmp_path, monkeypatch, clean_run):
    case = MESSY[name]
    monkeypatch.chdir(tmp_path)
    case.make(tmp_path)
    summary, rows = fitted(shlex.split(case.command), case.stdin)
    said = "\n".join([*summary["notes"], *summary["warnings"]])
    for text in case.says:
        assert text in said
    for column, kind in case.used.items():
        assert summary["columns"]["used"].get(column) == kind
    for column in case.left_out:
        assert column in summary["columns"]["left_out"]
    if case.same:
        assert np.array_equal(rows["is_label_issue"].to_numpy(bool), clean_run)


def recall_and_precision(flagged, wrong):
    hits = np.sum(flagged & wrong)
    return hits / wrong.sum(), hits / flagged.sum()


@pytest.mark.parametrize("code", ["", "-999", "n/a"])
def test_mess_costs_neither_recall_nor_precision(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame, wrong = flats(1500, seed=4)
    frame = frame.assign(noise=np.random.default_rng(1).normal(50, 9, 1500).round(2))
    gone = np.random.default_rng(2).random(1500) < 0.06
    messy = frame.assign(
        rent=written(frame["rent"], ",", ".", after=" €"),
        area=written(frame["area"], ",", "", after=" m²", digits=1),
        built=frame["built"].dt.strftime("%d.%m.%Y"),
        lift=np.where(frame["lift"], "ja", "nein"),
        key=[f"K{i}" for i in range(1500)],
    )
    if code:
        frame["noise"] = frame["noise"].mask(gone)
        messy["noise"] = np.where(gone, code, messy["noise"].astype(str))
    found = []
    for name, table in (("clean", frame), ("messy", messy)):
        (tmp_path / f"{name}.csv").write_bytes(csv(table, sep=";"))
        _, rows = fitted(["fit", f"{name}.csv", "-t", "rent", "-o", "run", "--force"])
        found.append(recall_and_precision(rows["is_label_issue"].to_numpy(bool), wrong))
    assert found[0][0] > 0.9
    np.testing.assert_allclose(found[1], found[0], atol=0.02)
