"""A finished run with the label of every sample judged: what its folder holds, read and ranked."""

from dataclasses import dataclass
from pathlib import Path

from tnlpad.records.scores import SampleNames, SampleScores, read_names, read_scores
from tnlpad.suspects.listing import Suspect, suspects
from tnlpad.suspects.ranking import Ranking, rank


@dataclass(frozen=True, kw_only=True, eq=False)
class JudgedSamples:
    """The samples' scores and names, and the judgement."""

    scores: SampleScores
    names: SampleNames
    ranking: Ranking

    def suspects(self, top: int | None = None) -> list[Suspect]:
        """The most suspicious first; by default all that are more likely wrong than right."""
        return suspects(self.ranking, self.scores, self.names, top)


def judged(folder: Path) -> JudgedSamples:
    """Read a run's scores and rank its samples."""
    scores = read_scores(folder)
    return JudgedSamples(scores=scores, names=read_names(folder, scores.columns["index"]), ranking=rank(scores))
