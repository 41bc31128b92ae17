"""
Rental prices
=============

Asking prices of holiday flats are dirty: forgotten zeros, monthly prices, prices meant to keep
guests away. Give a directory with listings as Inside Airbnb publishes them, and this script
reads them; without one it draws a similar table.

    python examples/plot_rental_prices.py DIRECTORY
"""

import os
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from easyfirst import SelfPacedRegressor
from easyfirst.datasets.rental import DETAILED, read_directory

NUMBERS, WORDS = ["accommodates", "bathrooms", "bedrooms", "beds"], ["neighbourhood", "room_type"]


def drawn_listings(n=6000):
    """A table with the columns of the real one, and one price in ten that means nothing."""
    rng = np.random.default_rng(4)
    table = pd.DataFrame({name: 1.0 + rng.poisson(1.5, n) for name in NUMBERS})
    table["neighbourhood"] = rng.choice(["Harbour", "Old town", "Hill", "Station"], n)
    table["room_type"] = rng.choice(["Entire home/apt", "Private room"], n, p=[0.7, 0.3])
    logs = 3.5 + 0.12 * table[NUMBERS].sum(axis=1) - 0.6 * (table["room_type"] == "Private room")
    price = np.exp(logs + rng.normal(scale=0.25, size=n))
    return table.assign(price=np.where(rng.random(n) < 0.1, rng.choice([1, 999, 9999], n), price))


directory = (sys.argv[1:] or [os.environ.get("EASYFIRST_RENTAL_DATA", "")])[0]
table = read_directory(directory, needs=DETAILED) if directory else drawn_listings()
table = table[[*NUMBERS, *WORDS, "price"]].dropna().query("price > 0").head(20_000)

# %%
# The logarithm of the price, because listings differ by factors.
words = OneHotEncoder(min_frequency=30, drop="first", handle_unknown="infrequent_if_exist")
encode = make_column_transformer((words, WORDS), remainder="passthrough")
model = make_pipeline(encode, SelfPacedRegressor())
model.fit(table.drop(columns="price"), np.log(table["price"]))
fitted = model[-1]
print(f"{fitted.corrupted_fraction_:.0%} of {len(table):,} prices say little about the flat")

# %%
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
predicted = np.exp(model.predict(table.drop(columns="price")))
points = ax.scatter(predicted, table["price"], c=fitted.weights_, cmap="cividis", s=4)
ax.set(xscale="log", yscale="log", xlabel="predicted price", ylabel="asked price")
ax.xaxis.set_minor_formatter("")
figure.colorbar(points, label="probability that the price is meant")
plt.show()
