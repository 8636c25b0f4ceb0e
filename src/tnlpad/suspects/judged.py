"""A finished run with the label of every sample judged: what its folder holds, read and ranked."""

from dataclasses import dataclass

from tnlpad.records.scores import SampleNames, SampleScores, read_names, read_scores
from tnlpad.records.store import RunFolder
from tnlpad.suspects.caution import caution_of_run
from tnlpad.suspects.listing import Suspect, suspects
from tnlpad.suspects.ranking import Ranking, rank


@dataclass(frozen=True, kw_only=True, eq=False)
class JudgedSamples:
    """The run, its samples' scores and names, and the judgement."""

    folder: RunFolder
    scores: SampleScores
    names: SampleNames
    ranking: Ranking

    @property
    def caution(self) -> str | None:
        """Why the estimates should not be believed, if so."""
        return caution_of_run(self.folder, self.scores)

    def suspects(self, top: int | None = None) -> list[Suspect]:
        """The most suspicious first; by default all that are more likely wrong than right."""
        return suspects(self.ranking, self.scores, self.names, top)


def judged(folder: RunFolder) -> JudgedSamples:
    """Read a run's scores and rank its samples."""
    scores = read_scores(folder.path)
    names = read_names(folder.path, scores.columns["index"])
    return JudgedSamples(folder=folder, scores=scores, names=names, ranking=rank(scores))
