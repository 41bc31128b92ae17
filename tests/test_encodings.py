"""The encoding of a text file where nobody named it, and that names, values and lines follow."""

import pytest

from easyfirst.tables.encodings import encoding_of
from easyfirst.tables.origins import Origins
from easyfirst.tables.reading import TableFormat, open_table

ROWS = [f"Köln {i},{i}.5,{3 * i}" for i in range(40)]
TEXT = "\n".join(["straße,größe,preis", *ROWS, ""])


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("utf-8", "utf-8"),
        ("utf-8-sig", "utf-8"),
        ("latin-1", "cp1252"),
        ("cp1252", "cp1252"),
        ("utf-16", "utf-16"),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_the_encoding_is_told_whatever_the_blocks(written, told, size):
    raw = TEXT.encode(written)
    first = [raw[:2]] if size == 1 else []  # a mark is not cut
    blocks = [raw[i : i + size] for i in range(2 if first else 0, len(raw), size)]
    assert encoding_of(first + blocks) == told


def test_a_character_cut_off_at_the_end_is_not_utf_8():
    assert encoding_of(["größ".encode()[:-1]]) == "cp1252"


def test_bytes_that_windows_does_not_have_are_latin_1():
    assert encoding_of([b"gr\xf6\x81e"]) == "latin-1"


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8"])
def test_names_and_values_are_read_as_they_were_written(tmp_path, encoding):
    path = tmp_path / "data.csv"
    path.write_bytes(TEXT.encode(encoding))
    opened = open_table(path)
    assert opened.table.column_names == ["straße", "größe", "preis"]
    assert opened.table["straße"][3].as_py() == "Köln 3"
    assert any("--encoding" in note for note in opened.notes) == (encoding != "utf-8")


def test_a_mark_far_down_the_file_tells_the_encoding_too(tmp_path):
    path = tmp_path / "data.csv"
    rows = [f"{i},{2 * i},Ulm" for i in range(200_000)]
    path.write_bytes("\n".join(["a,b,c", *rows, "1,2,Köln", ""]).encode("latin-1"))
    assert open_table(path).table["c"][-1].as_py() == "Köln"


def test_lines_are_counted_in_another_encoding(tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes(TEXT.replace("Köln 5", "\nKöln 5").encode("latin-1"))
    table = open_table(path, TableFormat()).table
    assert Origins.of(path, table, None).lines[[4, 5]].tolist() == [6, 8]
