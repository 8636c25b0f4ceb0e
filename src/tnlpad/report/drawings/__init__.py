"""The paper's figures and some of our own, drawn from records and from computed data."""

from collections.abc import Mapping
from types import MappingProxyType

from tnlpad.report.drawings import beta, beta2_families, c2_noise, memorisation, norms, parameter_space, selection, tsne
from tnlpad.report.drawings.panels import Drawing

DRAWINGS: Mapping[str, Drawing] = MappingProxyType(
    {
        "beta": beta.DRAWING,
        "c2_noise": c2_noise.DRAWING,
        "beta2_families": beta2_families.DRAWING,
        "tsne": tsne.DRAWING,
        "parameter_space": parameter_space.DRAWING,
        "memorisation": memorisation.DRAWING,
        "norms": norms.DRAWING,
        "selection": selection.DRAWING,
    }
)
