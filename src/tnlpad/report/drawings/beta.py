"""β1 and β2 in closed form, as the report needs them: it reads records and does not load what trained them.

The same formulas as in `tnlpad.core.penalties`, to which a test holds them.

The strengths of the two penalties over the epochs: formulas alone.
"""

from collections.abc import Callable, Mapping
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from tnlpad.paper.cells import FIGURES
from tnlpad.report.drawings.panels import Drawing, Extras, Records
from tnlpad.report.style import GAMMA, SIGMA, STYLE, label_ends, new_figure

C1 = 1e-4
FACTORS = {"exponential": 0.95, "step": 0.6}
STEP_EPOCHS = 10


def beta1(epoch: int, c1: float = C1) -> float:
    """c1·t."""
    return c1 * epoch


def power(epoch: int, c2: float) -> float:
    """t^(−c2)."""
    return float(epoch**-c2)


def beta2(family: str, epoch: int, *, c2: float, epochs: int) -> float:
    """Of one of the families; all of them are 1 in the first epoch."""
    forms: dict[str, Callable[[], float]] = {
        "constant": lambda: 1.0,
        "linear": lambda: max(0.0, 1.0 - (epoch - 1) / epochs),
        "power": lambda: power(epoch, c2),
        "exponential": lambda: float(FACTORS["exponential"] ** (epoch - 1)),
        "step": lambda: float(FACTORS["step"] ** ((epoch - 1) // STEP_EPOCHS)),
    }
    if family not in forms:
        raise ValueError(f"family={family!r}: there are {', '.join(forms)}.")
    return forms[family]()


def beta2_of_run(config: Mapping[str, Any], epoch: int) -> float | None:
    """β2 of a recorded run of the decomposition; None where γ was not constrained."""
    options = config["options"]
    if not options["gamma_constraint"]:
        return None
    return beta2(options["gamma_family"], epoch, c2=options["c2"], epochs=config["epochs"])


EPOCHS = 100
C2_VALUES = {0.2: "-", 0.6: (0, (5, 1.5)), 0.8: "-.", 1.5: (0, (2.5, 1.2)), 2.0: ":"}


def draw(records: Records, extras: Extras) -> Figure:
    """Both on one logarithmic axis."""
    epochs = range(1, EPOCHS + 1)
    with mpl.rc_context(STYLE):
        figure = new_figure(4.2)
        axes = figure.add_subplot()
        labels = []
        for c2, dashes in C2_VALUES.items():
            axes.plot(epochs, [power(t, c2) for t in epochs], color=GAMMA, linestyle=dashes)
            labels.append((f"β2, c2 = {c2:.1f}", power(EPOCHS, c2), GAMMA))
        axes.plot(epochs, [beta1(t) for t in epochs], color=SIGMA, linewidth=2.6)
        labels.append(("β1", beta1(EPOCHS), SIGMA))
        axes.set(yscale="log", xlabel="epoch t", ylabel="strength", xlim=(1, EPOCHS), ylim=(7e-5, 1.3))
        axes.set_xticks([1, 20, 40, 60, 80, 100])
        label_ends(axes, labels)
    return figure


DRAWING = Drawing(
    title=FIGURES["beta"],
    caption=(
        "How strongly each part of the weights is held in epoch t: σ near its value of an epoch ago with β1 = c1·t, "
        f"c1 = {C1:g}, and γ near zero with β2 = t^(−c2), for the values of c2 that the paper uses on one dataset or "
        "another. Drawn from the formulas, on a logarithmic axis. At first γ is held ten thousand times as strongly "
        "as σ; where a curve of β2 crosses that of β1 this turns round."
    ),
    needs="Nothing: it is drawn from formulas.",
    draw=draw,
)
