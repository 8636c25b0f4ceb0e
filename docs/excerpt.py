"""Write the terminal excerpt and the screenshot of README.md from a real training.

    python docs/excerpt.py

The data are scikit-learn's handwritten digits as image files, of which a fifth lie in a wrong folder. The screenshot
needs Chromium; without it, only the excerpt is written.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

ROOT = Path(__file__).parents[1]
README, SCREENSHOT = ROOT / "README.md", ROOT / "docs" / "suspects.png"
BEGIN, END = "<!-- excerpt:begin -->\n", "<!-- excerpt:end -->"
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
NEWLINE = "\n"
SHARE_WRONG, SEED, SHOWN = 0.2, 1, 4
BROWSER = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --hide-scrollbars"


def write_digits(folder: Path) -> str:
    """Write the digits as image files, a folder for each class, some of them in a wrong one; return how many."""
    digits, stream = load_digits(), np.random.default_rng(SEED)
    moved = stream.random(len(digits.target)) < SHARE_WRONG
    labels = np.where(moved, (digits.target + stream.integers(1, 10, len(moved))) % 10, digits.target)
    for number, (pixels, label) in enumerate(zip(digits.images, labels, strict=True)):
        place = folder / NAMES[label]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels * 15.9).astype("uint8")).save(place / f"{number:04}.png")
    return f"Here, `scans` holds {len(moved):,} handwritten digits, of which {moved.sum():,} lie in a wrong folder:"


def output(command: str, folder: Path) -> list[str]:
    """Run a command of tnlpad, and return the lines of its output."""
    words = [sys.executable, "-m", *command.split()]
    result = subprocess.run(words, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    return [line.rstrip() for line in result.stdout.splitlines()]


def screenshot(page: Path) -> None:
    """Take a picture of the top of the page of suspects."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        return
    with tempfile.TemporaryDirectory() as profile:
        options = [
            *BROWSER.split(),
            f"--user-data-dir={profile}",
            "--window-size=1000,740",
            f"--screenshot={SCREENSHOT}",
        ]
        subprocess.run([browser, *options, page.as_uri()], check=True, capture_output=True)


def main() -> None:
    """Train, and write the excerpt and the screenshot."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        about = write_digits(folder / "scans")
        trained = output("tnlpad train scans", folder)
        (run,) = (folder / "runs").iterdir()
        list_them = f"tnlpad suspects {run.name.partition('_')[0]} --top {SHOWN}"  # the start of a name is enough
        listed = output(list_them, folder)
        screenshot(run / "suspects" / "index.html")
    text = README.read_text()
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    picture = "![The page of suspects](docs/suspects.png)\n\n" if SCREENSHOT.exists() else ""
    verdict = next(number for number, line in enumerate(trained) if line.startswith("Run:")) + 1
    rows = [line for line in listed if line.startswith(tuple("┏┃┡│└"))]
    lines = ["$ tnlpad train scans", "…", *trained[verdict:], f"$ {list_them}", *rows]
    README.write_text(f"{before}{about}\n\n```console\n{NEWLINE.join(lines)}\n```\n\n{picture}{after}")


if __name__ == "__main__":
    main()
