"""The line style of each method in curves, and styles for further variants and for methods of the user.

All curves of a figure differ in colour and in dashes. Dashes differ in their rhythm, so that curves can be told apart
in gray. Colours are legible as text on light and on dark pages.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle


@dataclass(frozen=True, kw_only=True)
class CurveStyle:
    """Style of a curve.

    Args:
        name: The colour's CSS variable, without its prefix.
        light, dark: The colour on light and on dark pages.
        dashes: SVG's stroke-dasharray; empty for a solid line.
        width: In points.
    """

    name: str
    light: str
    dark: str
    dashes: str = ""
    width: float = 1.5

    @property
    def variable(self) -> str:
        """The CSS variable of the colour."""
        return f"--m-{self.name}"


def _style(light: str, dark: str, dashes: str = "", width: float = 1.5) -> CurveStyle:
    return CurveStyle(name="", light=light, dark=dark, dashes=dashes, width=width)


METHOD_STYLES = {
    name: replace(style, name=name.replace("+", "-"))
    for name, style in {
        "standard": _style("#b34700", "#f0883e", "7 2 1.5 2", width=2.2),
        "standard_2x": _style("#6b6f76", "#a9afb8", "7 2 1.5 2 1.5 2"),
        "coteaching": _style("#00755c", "#45c9a0", "10 3"),
        "coteaching_plus": _style("#4d7c00", "#a3cf52", "5 2.5"),
        "jocor": _style("#8e3a80", "#df93d2", "1.5 2"),
        "sigua": _style("#8a6500", "#e3b341", "1.5 4.5"),
        "cnlcu": _style("#b5175a", "#f58ab5", "12 2 4 2"),
        "cnlcu_hard": _style("#7a4f3a", "#cfa890", "12 2 4 2 4 2"),
        "adacorr": _style("#00707d", "#4fcfdd", "2.5 1.2"),
        "cdr": _style("#57578f", "#adade6", "5 5"),
        "decomposition": _style("#3848a8", "#a0a9ee", "16 3"),
        "decomposition+gamma": _style("#2e7031", "#86ca89", "9 7"),
        "self": _style("#7a3b12", "#e0a070", "16 5 1.5 5"),
        "self+tnlpad": _style("#5b3cc4", "#b9a6f7", "16 5 1.5 5 1.5 5"),
        "dividemix": _style("#c9211e", "#ff8a80", "2 2 2 2 2 7"),
        "dividemix+tnlpad": _style("#1f6f8b", "#7cc7e0", "5 2 5 2 1.5 2 1.5 2"),
        "tnlpad": _style("#0062a3", "#62b6f0", width=2.8),
    }.items()
}
METHOD_ALIASES = {"decomposition+gamma+sigma": "tnlpad"}
# Colours of further variants of a method, and of methods of the user. Their dashes are those that the figure leaves.
OTHER_STYLES = tuple(
    replace(_style(light, dark), name=f"other-{number}")
    for number, (light, dark) in enumerate(
        (
            ("#1c1f24", "#e8eaed"),
            ("#a3372a", "#f2a097"),
            ("#3f51b5", "#9fa8ff"),
            ("#33691e", "#aed581"),
            ("#9c27b0", "#e29af0"),
            ("#006f7a", "#80deea"),
            ("#ad1457", "#ff80ab"),
            ("#6b6200", "#dce775"),
            ("#455a64", "#b0bec5"),
            ("#01579b", "#81d4fa"),
            ("#5d4037", "#d7ccc8"),
            ("#6a1b9a", "#ce93d8"),
        ),
        start=1,
    )
)
ALL_STYLES = (*METHOD_STYLES.values(), *OTHER_STYLES)


def curve_styles(rows: Sequence[str]) -> list[CurveStyle]:
    """Return a style for each curve of a figure: the first curve of a method has the method's own.

    Styles are all different, until colours or dashes run out.
    """
    names = [METHOD_ALIASES.get(row, row) for row in rows]
    first = {name: names.index(name) for name in names if name in METHOD_STYLES}
    used = {METHOD_STYLES[name].dashes for name in first}
    free = [style.dashes for style in METHOD_STYLES.values() if style.dashes not in used] or ["3 3"]
    others = (replace(colour, dashes=dashes) for colour, dashes in zip(cycle(OTHER_STYLES), cycle(free), strict=False))
    return [METHOD_STYLES[name] if first.get(name) == k else next(others) for k, name in enumerate(names)]
