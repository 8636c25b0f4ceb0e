"""The strengths of the two penalties over the epochs: formulas alone."""

import matplotlib as mpl
from matplotlib.figure import Figure

from tnlpad.paper.cells import FIGURES
from tnlpad.report.drawings.drawing import Drawing, Extras, Records
from tnlpad.report.drawings.strengths import C1, beta1, power
from tnlpad.report.style import GAMMA, SIGMA, STYLE, label_ends, new_figure

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
