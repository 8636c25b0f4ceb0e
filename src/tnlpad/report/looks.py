"""How each method's curve looks, everywhere the same: colour on light and on dark pages, dashes, width.

TNLPAD and standard training stand out; the others are thinner. Hues are far apart for colour-blind eyes as well, as far
as thirteen can be; dashes and the label at a curve's end tell apart what hues cannot.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Look:
    """Of one method; `dashes` as SVG writes them."""

    light: str
    dark: str
    dashes: str = ""
    width: float = 1.5


LOOKS = {
    "standard": Look(light="#b34700", dark="#f0883e", dashes="7 2 1.5 2", width=2.2),
    "standard_2x": Look(light="#6b6f76", dark="#a9afb8", dashes="7 2 1.5 2"),
    "coteaching": Look(light="#00755c", dark="#45c9a0", dashes="5 2"),
    "coteaching_plus": Look(light="#4d7c00", dark="#a3cf52", dashes="2 2"),
    "jocor": Look(light="#8e3a80", dark="#df93d2", dashes="8 2.5"),
    "sigua": Look(light="#8a6500", dark="#e3b341", dashes="1.5 1.5"),
    "cnlcu": Look(light="#b5175a", dark="#f58ab5", dashes="4 1.5 1 1.5"),
    "cnlcu_hard": Look(light="#7a4f3a", dark="#cfa890", dashes="4 1.5"),
    "adacorr": Look(light="#00707d", dark="#4fcfdd", dashes="10 2"),
    "cdr": Look(light="#57578f", dark="#adade6", dashes="3 1.5"),
    "decomposition": Look(light="#3848a8", dark="#a0a9ee", dashes="6 3"),
    "decomposition+gamma": Look(light="#2e7031", dark="#86ca89", dashes="2.5 2"),
    "self": Look(light="#7a3b12", dark="#e0a070", dashes="9 2 2 2"),
    "self+tnlpad": Look(light="#5b3cc4", dark="#b9a6f7", dashes="9 2"),
    "dividemix": Look(light="#c9211e", dark="#ff8a80", dashes="12 2.5"),
    "dividemix+tnlpad": Look(light="#1f6f8b", dark="#7cc7e0", dashes="6 2"),
    "tnlpad": Look(light="#0062a3", dark="#62b6f0", width=2.8),
}
ALIASES = {"decomposition+gamma+sigma": "tnlpad"}
OTHER = Look(light="#1c1f24", dark="#e8eaed", dashes="3 3")


def look(row: str) -> Look:
    """Of a row of a table."""
    return LOOKS.get(ALIASES.get(row, row), OTHER)


def variable(row: str) -> str:
    """The CSS variable of a method's colour."""
    name = ALIASES.get(row, row)
    return f"--m-{name.replace('+', '-')}" if name in LOOKS else "--m-other"


def stylesheet() -> str:
    """The variables' values for light pages, dark ones and print."""
    looks = {variable(name): each for name, each in LOOKS.items()} | {"--m-other": OTHER}
    light = " ".join(f"{name}: {each.light};" for name, each in looks.items())
    dark = " ".join(f"{name}: {each.dark};" for name, each in looks.items())
    return (
        f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
        f"@media print {{ :root {{ {light} }} }}\n"
    )
