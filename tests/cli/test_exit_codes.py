import pytest
import typer

from tnlpad.cli.exit_codes import ending_early, exit_codes
from tnlpad.data.errors import DataError
from tnlpad.noise.errors import NoiseDataError
from tnlpad.records.store import RecordError
from tnlpad.training.loop import Diverged

KEPT = {"kept": "Finished runs are", "kept_of_interrupted": "Checkpoints are"}


def ended(block, error, capsys):
    """Exit code and message of a block in which this is raised."""
    with pytest.raises(typer.Exit) as caught, block:
        raise error
    return caught.value.exit_code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"), [(DataError, 3), (RecordError, 3), (NoiseDataError, 3), (ValueError, 2)], ids=lambda each: each
)
def test_what_a_person_can_do_something_about(capsys, error, code):
    assert ended(exit_codes(), error("the reason."), capsys) == (code, "Error: the reason.\n")


def test_a_bug_is_none_of_these():
    with pytest.raises(ZeroDivisionError), exit_codes(), ending_early(**KEPT):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (Diverged("It grew."), 1, "Error: It grew. Leave it out.\n"),
        (OSError("no space"), 1, "Error: no space. Finished runs are kept: free the disk"),
        (KeyboardInterrupt(), 130, "Interrupted. Checkpoints are kept: run the command again"),
    ],
)
def test_what_is_kept_is_said(capsys, error, code, said):
    found, message = ended(ending_early(**KEPT, if_diverged=" Leave it out."), error, capsys)
    assert (found, message[: len(said)]) == (code, said)


def test_when_interrupted_the_same_is_kept_unless_more_is(capsys):
    _, message = ended(ending_early(kept="All of it is"), KeyboardInterrupt(), capsys)
    assert message.startswith("Interrupted. All of it is kept")
