"""Coverage-guided fuzzing of the loader: whatever a file holds, it loads or is refused.

    make fuzz                      # twenty minutes
    make fuzz FUZZ_SECONDS=60      # one minute

Every input is tried as it is, and again with the digest and the length that fit it, as an attacker
would compute them, because damage alone never gets past the digest. Any exception but
`ModelFileError`, and any loaded model with senseless coefficients, ends the run; the input is then
kept beside this script, and `python fuzz/fuzz_model_files.py THAT-FILE` repeats it.
"""

import hashlib
import os
import sys
import tempfile
import warnings
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["easyfirst"]):
    from easyfirst import SelfPacedRegressor, load
    from easyfirst.errors import ModelFileError
    from easyfirst.files import layout
    from easyfirst.tables import TableModel

import numpy as np
import pandas as pd


def with_fitting_digest(content: bytes) -> bytes:
    """Return the content signed again, if it has a place for a digest."""
    blank = layout.with_digest(content, layout.NO_DIGEST)
    digest = hashlib.blake2b(blank, digest_size=32).hexdigest().encode()
    return layout.with_digest(content, digest)


def with_fitting_length(content: bytes) -> bytes:
    """Return the content with the header's true length, if the end of a header can be seen."""
    end = content.find(b"}}", 8) + 2
    while end > 1 and content[end : end + 1] == b" ":
        end += 1
    return (end - 8).to_bytes(8, "little") + content[8:] if end > 10 else content


class Target:
    """Tries every input as a file in memory, where the system has such a thing."""

    def __init__(self, folder: str) -> None:
        self.path = Path(folder) / "model.safetensors"

    def __call__(self, content: bytes) -> None:
        """Try one input as it is, and again as an attacker would repair it."""
        self.attempt(content)
        if content[8:].startswith(layout.BEFORE_DIGEST):
            self.attempt(with_fitting_digest(content))
            self.attempt(with_fitting_digest(with_fitting_length(content)))

    def attempt(self, content: bytes) -> None:
        """Load the content; what loads has to have numbers for coefficients."""
        self.path.write_bytes(content)
        try:
            model = load(self.path)
        except ModelFileError:
            return
        fitted = getattr(model, "regressor_", model)
        plain = fitted.to_sklearn()
        assert np.isfinite(plain.coef_).all()
        assert np.isfinite(plain.intercept_)


def write_seeds(folder: Path) -> None:
    """Save small models of several kinds, for the fuzzer to begin with."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = X @ [1.0, -2.0] + 0.1 * rng.normal(size=40)
    SelfPacedRegressor().fit(X, y).save(folder / "calibrated")
    SelfPacedRegressor.paper().fit(X, y).save(folder / "paper", weights=False)
    table = pd.DataFrame(X, columns=["a", "b"]).assign(kind=list("xy") * 20, y=y)
    TableModel("y").fit(table).save(folder / "table")


def main() -> None:
    """Fuzz with libFuzzer's own options; seeds are made when no corpus is given."""
    warnings.simplefilter("ignore")
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        arguments = list(sys.argv)
        if all(argument.startswith("-") for argument in arguments[1:]):
            write_seeds(corpus)
            arguments.append(os.fspath(corpus))
        atheris.Setup(arguments, Target(folder))
        atheris.Fuzz()


if __name__ == "__main__":
    main()
