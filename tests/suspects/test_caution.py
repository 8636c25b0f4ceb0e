import pytest

from tnlpad.suspects.caution import caution


@pytest.mark.parametrize("agreement", [None, 0.5, 0.93])
def test_a_network_that_knows_its_data_needs_no_caution(agreement):
    assert caution(agreement) is None


def test_a_network_that_guesses_is_not_to_be_believed():
    assert "only 16 %" in caution(0.155)
