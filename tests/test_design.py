"""The design matrix does what plain arithmetic on its dense form does, whatever its columns are."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from easyfirst.local import design as designs
from easyfirst.local.design import Coordinates, Design

N, P = 57, 4
KINDS = {
    "dense": np.asarray,
    "float32": lambda X: X.astype(np.float32),
    "columns first": np.asfortranarray,
    "sparse": sp.csr_array,
}


@pytest.fixture(params=itertools.product(KINDS, ["as given", "intercept", "shifted"]), ids=str)
def case(request, monkeypatch):
    """A design of several pieces, and the same as one dense array."""
    kind, where = request.param
    monkeypatch.setattr(designs, "PIECE_ENTRIES", 10 * P)
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, P)).astype(np.float32).astype(np.float64)
    X[rng.random((N, P)) < 0.3] = 0.0
    shift = np.arange(1.0, P + 1) if where == "shifted" else None
    plain = X if shift is None else X - shift
    if where != "as given":
        plain = np.column_stack([plain, np.ones(N)])
    return Design(KINDS[kind](X), Coordinates(where != "as given", shift)), plain


def test_products_and_sums_are_those_of_the_dense_array(case):
    design, plain = case
    rng = np.random.default_rng(0)
    coef, values, weights = rng.normal(size=design.n_coef), rng.normal(size=N), rng.random(N)
    weights[::4] = 0.0
    some = np.array([3, 50, 7])
    weighted = weights[:, None] * plain

    def same(found, expected):
        np.testing.assert_allclose(np.asarray(found, dtype=float), expected, atol=1e-10, rtol=1e-10)

    assert (design.n_samples, design.n_coef) == plain.shape
    same(design.dense(), plain)
    same(design.rows(some).dense(), plain[some])
    same(design.times(coef), plain @ coef)
    same(design.times_of(some, coef), (plain @ coef)[some])
    same(design.times_by_column(some, coef, values[some]), (values - plain @ coef)[some])
    same(design.transposed_times(values), plain.T @ values)
    same(design.squares(weights), np.diagonal(plain.T @ weighted))
    same(design.curve(weights, coef), weighted.T @ (plain @ coef))
    gram, rhs = design.gram(weights, values)
    same(gram, plain.T @ weighted)
    same(rhs, weighted.T @ values)
    same(design.outer(some, np.abs(coef)), (plain[some] * np.abs(coef)) @ plain[some].T)
    same(design.extended_pull(weights, values, coef), weighted.T @ (values - plain @ coef))


def test_norms_are_bounds_and_leverages_add_up_to_the_rank(case):
    design, plain = case
    assert np.all(design.norms() >= np.linalg.norm(plain, axis=1))
    root = np.linalg.inv(np.linalg.cholesky(plain.T @ plain)).T
    leverage = design.leverage(root)
    np.testing.assert_allclose(leverage, np.sum(np.square(np.linalg.qr(plain)[0]), axis=1))
    assert leverage.sum() == pytest.approx(design.n_coef)


def test_the_triangle_gives_the_least_squares_fit(case):
    design, plain = case
    rng = np.random.default_rng(1)
    y, weights = rng.normal(size=N), rng.random(N)
    triangle, q = design.triangle(weights, y), design.n_coef
    coef = np.linalg.solve(triangle[:q, :q], triangle[:q, q])
    root = np.sqrt(weights)
    expected = np.linalg.lstsq(plain * root[:, None], root * y, rcond=None)[0]
    np.testing.assert_allclose(coef, expected)


def test_coordinates_change_the_intercept_alone():
    there = Coordinates(True, shift=np.array([10.0, 20.0]))
    coef = there.from_user(np.array([1.0, 2.0]), 3.0)
    np.testing.assert_array_equal(coef, [1.0, 2.0, 53.0])
    slopes, intercept = there.to_user(coef)
    np.testing.assert_array_equal(slopes, [1.0, 2.0])
    assert intercept == 3.0
