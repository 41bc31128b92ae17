"""The encoding of a text file, where nobody named it."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import IO

BLOCK_BYTES = 1 << 22
UNICODE, WINDOWS, ANY_BYTES = "utf-8", "cp1252", "latin-1"
SHOWN = {WINDOWS: "Windows-1252 (Latin-1)", ANY_BYTES: "Latin-1", "utf-16": "UTF-16"}


def encoding_of(blocks: Iterable[bytes]) -> str:
    r"""Return the encoding of text that comes in blocks.

    UTF-16 begins with a mark. Text in another encoding that is valid UTF-8 by chance is rare, so
    what is valid is UTF-8. What is not is taken for Windows-1252, which spreadsheets of western
    languages write; it has Latin-1 in it.

    Examples
    --------
    >>> encoding_of([b"gr", b"\xc3", b"\xb6\xc3\x9fe"]), encoding_of(["größe".encode("latin-1")])
    ('utf-8', 'cp1252')
    """
    decoders = {name: codecs.getincrementaldecoder(name)() for name in (UNICODE, WINDOWS)}
    for place, block in enumerate(blocks):
        if place == 0 and block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        for name in [*decoders]:
            if not _goes_on(decoders[name], block):
                del decoders[name]
    if UNICODE in decoders and not _goes_on(decoders[UNICODE], b"", final=True):
        del decoders[UNICODE]
    return next(iter(decoders), ANY_BYTES)


def blocks_of(file: IO[bytes]) -> Iterable[bytes]:
    """Yield what a file holds, block by block."""
    while block := file.read(BLOCK_BYTES):
        yield bytes(block)


def note_on(name: str, encoding: str) -> str | None:
    """Return what to say of an encoding that was told from the file; nothing of UTF-8."""
    if encoding == UNICODE:
        return None
    return f"{name}: read as {SHOWN[encoding]}, as it is not UTF-8; --encoding names another"


def _goes_on(decoder: codecs.IncrementalDecoder, block: bytes, final: bool = False) -> bool:
    try:
        decoder.decode(block, final)
    except UnicodeDecodeError:
        return False
    return True
