import pytest

from tests.suspects.made import made_run
from tnlpad.records.store import RecordError, RunFolder
from tnlpad.suspects.judged import judged
from tnlpad.suspects.ranking import rank


def test_a_folder_is_read_and_ranked(tmp_path):
    scores, _ = made_run(tmp_path / "run")
    found = judged(RunFolder(tmp_path / "run"))
    assert found.ranking.order.tolist() == rank(scores).order.tolist()
    assert [each.id for each in found.suspects(3)] == [str(place) for place in found.ranking.order[:3]]
    assert len(found.suspects()) == found.ranking.suspects
    assert len(found.suspects(len(found.scores))) == len(scores)


def test_a_folder_without_scores_is_told(tmp_path):
    with pytest.raises(RecordError, match="kept no scores"):
        judged(RunFolder(tmp_path))
