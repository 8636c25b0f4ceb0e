"""What the computed paths of w, σ and γ show, in sentences."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tnlpad.report.drawings.drawing import Extras, Records
from tnlpad.report.drawings.panels import departures_text, percent
from tnlpad.report.words import dataset_title, network_title, noise_title

NAME = "parameter_space"
JUDGED = ("plain", "w", "sigma")
IDLE = 0.05  # a γ smaller than this holds nothing
Found = Mapping[str, Any]


def findings(records: Records, extras: Extras) -> str:
    """What happens to σ here, whichever way it goes."""
    found = extras.get(NAME)
    if not found:
        return ""
    small, real = found["two_weights"], found["real_run"]
    network = (
        f"Network ({dataset_title(real['dataset'])}, {noise_title(real['noise'])}, {network_title(real['network'])}, "
        f"{real['weights']:,} weights, c2 = {real['c2']:g}, seed {real['seed']}{departures_text(real)}):"
    )
    return f"Two weights: {_ends(small)} {_radii(small)} {_c2_in_words(small)} {network} {_ends(real)}"


def _ends(found: Found) -> str:
    distance, accuracy, chosen = found["distance_to_clean"], found["test_accuracy"], found["chosen_epoch"]
    last = {name: f"{distance[name][-1]:.2f} ({percent(accuracy[name][-1])})" for name in JUDGED}
    best = {
        name: f"{distance[name][epoch]:.2f} ({percent(accuracy[name][epoch])}) in epoch {epoch}"
        for name, epoch in chosen.items()
    }
    stopped, end = distance["plain"][chosen["plain"]], distance["sigma"][-1]
    return (
        f"σ ends {_than(end, distance['w'][-1])} the clean optimum than w does, and "
        f"{_than(end, distance['plain'][-1])} it than plain training does; plain training stopped early was "
        f"{_than(stopped, end)} it than that. Distance (and test accuracy) in the last epoch: σ {last['sigma']}, w "
        f"{last['w']}, plain {last['plain']}; where chosen: σ {best['sigma']}, plain {best['plain']}."
    )


def _than(first: float, second: float) -> str:
    return "nearer to" if first < second else "no nearer to"


def _radii(found: Found) -> str:
    radii = {epoch: stage_radii(found, epoch) for epoch in found["problem"]["stages"]}
    moved, size = (", ".join(short(pair[k]) for pair in radii.values()) for k in (0, 1))
    return f"In epochs {', '.join(map(str, radii))} σ moves by {moved}, and ‖γ‖ is {size}."


def _c2_in_words(found: Found) -> str:
    tried = found["other_c2"]
    idle = [each["c2"] for each in tried if each["gamma_norm"] < IDLE]
    best, largest = max(tried, key=lambda each: float(each["sigma_accuracy"])), tried[-1]
    sentences = [
        f"With c2 up to {max(idle):g} γ ends near zero, and σ where w does." if idle else "",
        f"The last σ is most accurate with c2 = {best['c2']:g} ({percent(best['sigma_accuracy'])}).",
        f"With c2 = {largest['c2']:g} it is less so ({percent(largest['sigma_accuracy'])}): γ then takes part of "
        "what is right as well."
        if largest["sigma_accuracy"] < best["sigma_accuracy"]
        else "",
    ]
    return " ".join(filter(None, sentences))


def path_of(found: Found, name: str) -> NDArray[np.float64]:
    """A row for the start and one after every epoch."""
    return np.array(found["paths"][name], dtype=float)


def stage_radii(found: Found, epoch: int) -> tuple[float, float]:
    """How far σ has moved in an epoch, and how far w is from it at its end."""
    sigma, gamma = path_of(found, "sigma"), path_of(found, "gamma")
    return float(np.linalg.norm(sigma[epoch] - sigma[epoch - 1])), float(np.linalg.norm(gamma[epoch]))


def short(value: float) -> str:
    """A length with two digits that count."""
    return f"{value:.2g}" if value >= 0.001 else "below 0.001"
