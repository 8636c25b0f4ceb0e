import errno
from pathlib import Path

import pytest

from tnlpad.data.errors import DataError
from tnlpad.experiments.executors import Outcome
from tnlpad.experiments.failures import DiskFull, Failure, Result, answer_of, failed, kept
from tnlpad.noise.errors import NoiseDataError
from tnlpad.records.store import RecordError
from tnlpad.training.loop import Diverged


def answered(error, **options):
    try:
        raise error
    except Exception as raised:
        return failed(raised, **options)


@pytest.mark.parametrize("kind", [DataError, NoiseDataError, RecordError, Diverged, ValueError, PermissionError])
def test_what_a_person_can_mend_is_told_in_words(kind):
    assert answered(kind("no luck")) == Result("failed", error="no luck")
    assert answered(kind()) == Result("failed", error=kind.__name__)


def test_where_it_came_from_is_said_if_asked():
    assert "in answered" in answered(ValueError("no luck"), expected=False).traceback


def test_a_bug_is_raised_again():
    with pytest.raises(ZeroDivisionError, match="a bug"):
        answered(ZeroDivisionError("a bug"))


def test_a_full_disk_is_the_end():
    result = answered(OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(DiskFull, match=r"No space left.*free some space"):
        answer_of(Outcome(job=1, value=result, error=None, attempts=1))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_the_end_whatever_was_made_of_it(code):
    error = RecordError("cannot be written")
    error.__cause__ = OSError(code, "no space")
    assert answered(error) == Result("disk full", error="cannot be written")


def test_a_worker_without_an_answer_has_failed():
    outcome = Outcome(job=1, value=None, error="killed", attempts=3, traceback="where")
    assert answer_of(outcome) == Result("failed", error="killed", traceback="where")


def test_a_failure_in_a_line():
    assert str(Failure(error="no luck")) == "no luck"
    assert str(Failure(error="no luck", traceback=Path("runs/a/error.txt"))) == "no luck (traceback: runs/a/error.txt)"


def test_a_traceback_is_kept_where_there_is_one_and_it_can_be_written():
    def full(text):
        raise OSError(errno.ENOSPC, "No space left on device")

    def in_the_way(text):
        raise RecordError("a file is in the way")

    assert kept(None, full) is None
    assert kept("where", full) is None
    assert kept("where", in_the_way) is None
    assert kept("where", Path) == Path("where")
