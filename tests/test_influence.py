"""How fast a row's pull on the fit changes with its residual: what standard errors rest on."""

import numpy as np
import pytest

from easyfirst.local.weighing import NoiseRule
from easyfirst.noise import NoiseModel, influence_slope

MODELS = {
    "normal": NoiseModel(100.0, 0.8, 0.0, 1.5, 1.5, np.inf, (-9.0, 0.0), (0.02, 0.05)),
    "tails": NoiseModel(100.0, 0.7, 0.0, 0.8, 0.8, 3.0, (-9.0,), (0.03,)),
    "skew": NoiseModel(100.0, 0.7, 0.3, 0.4, 2.0, 6.0, (-9.0, 4.0), (0.03, 0.2)),
}
AT = np.linspace(-7.0, 7.0, 141) + 0.0123  # off the steps of the corrupted part and the knees


@pytest.mark.parametrize("noise", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("knee", [np.inf, 1.7])
@pytest.mark.parametrize("is_precise", [False, True])
def test_the_slope_of_the_pull_is_that_of_central_differences(noise, knee, is_precise):
    scale = np.linspace(0.5, 2.0, AT.size)
    rule = NoiseRule(noise, (noise.share,), knee=knee, is_precise=is_precise)

    def pull(residual):
        return noise.posterior(residual) * rule.pull(residual, scale) * residual

    near = 1e-6
    expected = (pull(AT + near) - pull(AT - near)) / (2.0 * near)
    found = rule.slope(noise.posterior(AT), AT, scale)
    np.testing.assert_allclose(found, expected, atol=1e-7 * np.abs(expected).max(), rtol=1e-6)


def test_rows_known_for_certain_pull_with_their_own_slope():
    known = np.array([0.0, 1.0])
    np.testing.assert_array_equal(influence_slope(known, np.array([5.0, 5.0])), known)


def test_rows_beyond_any_number_do_not_overflow():
    assert influence_slope(np.zeros(1), np.array([np.inf]))[0] == 0.0
