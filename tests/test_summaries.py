"""The histogram of residuals that schedules look at."""

import numpy as np
import pytest

from easyfirst.summaries import BINS_PER_OCTAVE, N_BINS, LossSummary, bin_edges, histogram

BIN = 2.0 ** (2.0 / BINS_PER_OCTAVE)  # the ratio of the losses at the two ends of a bin


def merged(*parts, anchor=1.0):
    counts = np.stack([histogram(part, None, anchor) for part in parts])
    return LossSummary(counts[:, None], anchor)  # one band


def test_every_row_is_counted_once_on_its_own_side():
    residuals = np.array([-3.0, -0.5, 0.0, 0.5, 1e-30, 1e30, -1e30])
    counts = histogram(residuals, None, 1.0)
    assert counts.shape == (2, N_BINS)
    assert counts.sum(axis=1).tolist() == [4, 3]


def test_a_residual_lies_between_the_edges_of_its_bin():
    edges = bin_edges(2.0)
    for residual in np.geomspace(1e-9, 1e4, 57):
        (index,) = np.flatnonzero(histogram(np.array([residual]), None, 2.0)[1])
        assert edges[index] <= residual * (1 + 1e-12)
        assert residual <= edges[index + 1] * (1 + 1e-12)


@pytest.mark.parametrize("share", [0.01, 0.25, 0.5, 0.9, 1.0])
def test_a_loss_quantile_is_exact_to_a_bin(share):
    residuals = np.random.default_rng(0).normal(size=2000)
    exact = np.quantile(residuals**2, share, method="inverted_cdf")
    assert exact / BIN <= merged(residuals).loss_quantile(share) <= exact * BIN * (1 + 1e-9)


def test_splitting_the_rows_into_batches_changes_no_quantile():
    residuals = np.random.default_rng(0).normal(size=999)
    parts = merged(*np.array_split(residuals, 7))
    assert parts.loss_quantile(0.6) == merged(residuals).loss_quantile(0.6)
    assert parts.total == 999


def test_a_weight_counts_as_repetition():
    rng = np.random.default_rng(0)
    residuals, weight = rng.normal(size=300), rng.integers(0, 4, size=300)
    weighted = histogram(residuals, weight.astype(float), 1.0)
    np.testing.assert_array_equal(weighted, histogram(np.repeat(residuals, weight), None, 1.0))


def test_exact_fits_have_a_tiny_positive_quantile():
    quantile = merged(np.zeros(10), anchor=3.0).loss_quantile(0.5)
    assert 0 < quantile < 1e-18


def test_rows_beyond_all_bins_have_an_infinite_quantile():
    assert merged(np.full(10, 1e9)).loss_quantile(0.5) == np.inf
