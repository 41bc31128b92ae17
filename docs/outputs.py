"""Run the code of a page and put what each block prints below it.

    python docs/outputs.py docs/guide/fit.md README.md

Blocks of Python share one namespace, from top to bottom. A block that prints something is
followed by a block of text with it; a test compares both, number by number.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
import types
import warnings
from pathlib import Path

# A block of Python, and the text that it printed when the page was written.
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")


def blocks(page: str) -> list[tuple[str, str]]:
    """Return the code of every block, and the output shown below it."""
    return [(match[1], match[2] or "") for match in BLOCK.finditer(page)]


def run(codes: list[str], name: str) -> list[str]:
    """Run blocks one after another in the current directory, and return what each prints."""
    module = types.ModuleType("page")
    sys.modules["page"] = module  # where dataclasses and pickle look for what a page defines
    printed = []
    for code in codes:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, name, "exec"), module.__dict__)
        printed.append("".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines()))
    return printed


def alike(shown: str, printed: str, tolerance: float = 0.02) -> bool:
    """Return whether two outputs have the same words, and numbers that are nearly the same.

    The last digits of a number depend on the machine.
    """
    if NUMBER.sub("#", shown).split() != NUMBER.sub("#", printed).split():
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    return all(_near(_value(one), _value(other), tolerance) for one, other in pairs)


def _value(text: str) -> float:
    return float(text.replace(",", "").rstrip("."))


def _near(one: float, other: float, tolerance: float) -> bool:
    return abs(one - other) <= tolerance * max(abs(one), abs(other)) + 1e-9


def refreshed(page: str, printed: list[str]) -> str:
    """Return the page with these outputs below its blocks."""
    outputs = iter(printed)

    def with_output(match: re.Match[str]) -> str:
        code, text = f"```python\n{match[1]}```\n", next(outputs, match[2] or "")
        return f"{code}\n```text\n{text}```\n" if text.strip() else code

    return BLOCK.sub(with_output, page)


def main() -> None:
    """Refresh the pages named."""
    warnings.simplefilter("error")  # a page shows code that gives no reason to worry
    for name in sys.argv[1:]:
        path = Path(name).resolve()
        page = path.read_text(encoding="utf-8")
        codes = [code for code, _ in blocks(page)]
        if path.name == "README.md":
            codes = codes[:1]  # the next one needs a cluster
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            printed = run(codes, name)
            os.chdir(before)
        path.write_text(refreshed(page, printed), encoding="utf-8")
        print(f"{name}: {sum(bool(text) for text in printed)} outputs")


if __name__ == "__main__":
    main()
