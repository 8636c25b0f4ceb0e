"""Groups of samples that are the same, or nearly so, and have different given labels: all but one label are wrong."""

from typing import TYPE_CHECKING

from tnlpad.suspects.listing import RankedRun

if TYPE_CHECKING:
    from tnlpad.data.own import OwnDataset


def contradicting_duplicates(run: RankedRun, data: "OwnDataset | None") -> list[list[int]]:
    """Return groups of positions whose given labels differ, the most suspicious first; none without the data."""
    from tnlpad.data.own.near_duplicates import near_duplicate_groups

    if data is None:
        return []
    given, positions = run.ranking.evidence.given, run.ranking.positions
    row_of = {name: row for row, name in enumerate(run.names.ids)}
    groups = []
    for group in near_duplicate_groups(data):
        rows = [row_of[name] for name in (data.ids[place] for place in group) if name in row_of]  # not the test part
        if len({int(given[row]) for row in rows}) > 1:
            groups.append(sorted(positions[rows].tolist()))
    return sorted(groups)
