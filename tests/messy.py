"""Flats with a linear rent, some of it nonsense, and the ways in which people write such tables."""

from __future__ import annotations

import numpy as np
import pandas as pd

N = 240


def flats(n=N, seed=0, corrupted=0.1):
    """Clean columns and a rent, some of it wrong: (frame, which rows are wrong)."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "area": np.round(rng.uniform(20, 180, n), 1),
            "rooms": rng.integers(1, 6, n),
            "city": rng.choice(["Ulm", "Bonn", "Kiel"], n, p=[0.5, 0.3, 0.2]),
            "lift": rng.random(n) < 0.4,
            "built": pd.Timestamp("2001-02-03") + pd.to_timedelta(rng.integers(0, 8000, n), "D"),
        }
    )
    days = (frame["built"] - pd.Timestamp(0)).dt.days
    rent = 40 * frame["area"] + 300 * frame["rooms"] + 900 * (frame["city"] == "Bonn")
    rent += 200 * frame["lift"] + 0.1 * (days - 14000) + rng.normal(0, 40, n)
    wrong = rng.random(n) < corrupted
    rent[wrong] *= rng.choice([0.1, 10.0], wrong.sum())
    frame["rent"] = np.round(rent, 2)
    return frame, wrong


def written(values, decimal=".", thousands="", before="", after="", digits=2):
    """Numbers as text, with the marks and units asked for."""
    texts = []
    for value in values:
        text = f"{abs(value):,.{digits}f}"
        text = text.translate(str.maketrans({",": thousands, ".": decimal}))
        texts.append(f"{'-' if value < 0 else ''}{before}{text}{after}")
    return texts


def csv(frame, **options):
    """The frame as the bytes of a CSV file."""
    return frame.to_csv(index=False, date_format="%Y-%m-%d", **options).encode()
