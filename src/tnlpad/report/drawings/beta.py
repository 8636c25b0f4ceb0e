"""The penalty strengths β1 and β2 over the epochs, drawn from their formulas."""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from tnlpad.core.penalties import Constant, ExponentialDecay, LinearDecay, LinearGrowth, Penalty, PowerDecay, StepDecay
from tnlpad.paper.cells import FIGURES
from tnlpad.report.drawings.panels import Drawing
from tnlpad.report.style import GAMMA, SIGMA, label_ends, new_figure

EPOCHS = 100
BETA1 = LinearGrowth()
C2_DASHES = {0.2: "-", 0.6: (0, (5, 1.5)), 0.8: "-.", 1.5: (0, (2.5, 1.2)), 2.0: ":"}


def gamma_penalty(family: str, *, c2: float, epochs: int) -> Penalty:
    """Return β2 of a family; all of them are 1 in the first epoch."""
    families: dict[str, Penalty] = {
        "constant": Constant(),
        "linear": LinearDecay(epochs),
        "power": PowerDecay(c2),
        "exponential": ExponentialDecay(),
        "step": StepDecay(),
    }
    return families[family]


def gamma_penalty_of_run(config: Mapping[str, Any]) -> Penalty | None:
    """Return β2 of a recorded run; None where γ was not constrained."""
    options = config["options"]
    if not options["gamma_constraint"]:
        return None
    return gamma_penalty(options["gamma_family"], c2=options["c2"], epochs=config["epochs"])


def _plot(found: object) -> Figure:
    """Draw both on one logarithmic axis."""
    epochs = range(1, EPOCHS + 1)
    figure = new_figure(4.2)
    axes = figure.add_subplot()
    labels = []
    for c2, dashes in C2_DASHES.items():
        beta2 = PowerDecay(c2)
        axes.plot(epochs, [beta2(t) for t in epochs], color=GAMMA, linestyle=dashes)
        labels.append((f"β2, c2 = {c2:.1f}", beta2(EPOCHS), GAMMA))
    axes.plot(epochs, [BETA1(t) for t in epochs], color=SIGMA, linewidth=2.6)
    labels.append(("β1", BETA1(EPOCHS), SIGMA))
    axes.set(yscale="log", xlabel="epoch t", ylabel="strength", xlim=(1, EPOCHS), ylim=(7e-5, 1.3))
    axes.set_xticks([1, 20, 40, 60, 80, 100])
    label_ends(axes, labels)
    return figure


DRAWING = Drawing(
    title=FIGURES["beta"],
    caption=(
        "Strength of the two penalties in epoch t, from their formulas, on a logarithmic axis. β1 = c1·t, with c1 = "
        f"{BETA1.c1:g}, holds σ near its value of the previous epoch. β2 = t^(−c2) holds γ near zero, for the values "
        "of c2 that the paper uses. At the start γ is held ten thousand times as strongly as σ; this reverses where a "
        "curve of β2 crosses that of β1."
    ),
    needs="Nothing: it is drawn from formulas.",
    collect=lambda records, extras: True,
    plot=_plot,
)
