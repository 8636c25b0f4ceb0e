import pytest

from tests.methods.problems import blobs, build, setup_for
from tnlpad.core.penalties import PowerDecay
from tnlpad.methods.dividemix_config import DividemixTnlpadConfig, Faster


def test_the_penalty_runs_by_the_clock_of_the_warm_up():
    """After 10 epochs as after 40 of the paper's."""
    config = DividemixTnlpadConfig(warmup_epochs=10, c2=0.6)
    penalty = config.penalty(100)
    assert penalty == Faster(PowerDecay(0.6), 4.0)
    assert penalty(10) == pytest.approx(40**-0.6)
    assert penalty(1) == pytest.approx(4**-0.6)
    assert DividemixTnlpadConfig(decompose_in="all", c2=0.6).penalty(100) == PowerDecay(0.6)
    assert DividemixTnlpadConfig(gamma_constraint=False).penalty(100) is None


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"warmup_epochs": -1}, "warmup_epochs=-1: must be at least 0"),
        ({"rampup_epochs": -1}, "rampup_epochs=-1: must be at least 0"),
        ({"averaged_losses": 0}, "averaged_losses=0: must be at least 1"),
        ({"threshold": 1.0}, r"threshold=1.0: must lie in \[0, 1\)"),
        ({"temperature": 0.0}, "temperature=0.0: must be > 0"),
        ({"mixing_alpha": 0.0}, "mixing_alpha=0.0: must be > 0"),
        ({"lambda_u": -1.0}, "lambda_u=-1.0: must be >= 0"),
    ],
)
def test_settings_that_cannot_work_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        build("dividemix", setup_for(blobs()), **setting)


def test_a_clock_that_stands_still_is_refused():
    with pytest.raises(ValueError, match="warmup_clock=0: must be at least 1"):
        build("dividemix+tnlpad", setup_for(blobs()), warmup_clock=0)


def test_what_would_do_nothing_is_refused():
    for name in ("split_with", "guess_with"):
        with pytest.raises(ValueError, match=f'{name}="w": with decompose_in="warmup" γ is dropped'):
            build("dividemix+tnlpad", setup_for(blobs()), **{name: "w"})
    with pytest.raises(ValueError, match="warmup_epochs=8: a run of 8 epochs would warm up and never divide"):
        build("dividemix", setup_for(blobs()), warmup_epochs=8)
