"""Find and correct wrong labels in a folder of images, 30 % of which lie in the wrong class folder.

python examples/image_folder.py
"""

import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

import tnlpad

WRONG = 0.3


def make_folder(folder: Path) -> dict[str, int]:
    """Write handwritten digits into one folder per class; return the true class of every file."""
    generator, truth = np.random.default_rng(0), {}
    for number, (pixels, digit) in enumerate(zip(*load_digits(return_X_y=True), strict=True)):
        given = generator.choice([other for other in range(10) if other != digit])
        path = folder / str(given if generator.random() < WRONG else digit) / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels.reshape(8, 8) * 15).astype(np.uint8)).save(path)
        truth[str(path)] = int(digit)
    return truth


with tempfile.TemporaryDirectory() as temporary:
    photos = Path(temporary) / "photos"
    truth = make_folder(photos)

    # On the command line: `tnlpad train photos` and `tnlpad suspects RUN`. Fewer epochs than the default, to be quick.
    result = tnlpad.fit(photos, settings={"epochs": 20, "milestones": "15"})
    low, high = result.noise_rate_interval
    print(f"estimated wrong labels: {result.noise_rate:.1%} ({low:.1%} to {high:.1%})")
    for suspect in result.suspects[:3]:
        print(f"  {Path(suspect.path).relative_to(photos)} is probably a {suspect.suggested_name}: {suspect.why}")

    # Check the first suspects against the truth, then accept all suggestions.
    found = np.mean([int(suspect.given_name) != truth[suspect.path] for suspect in result.suspects[:100]])
    print(f"{found:.0%} of the first 100 suspects are wrong")
    labels = {str(path): int(path.parent.name) for path in photos.rglob("*.png")}
    print(f"right labels before: {np.mean([labels[path] == truth[path] for path in truth]):.1%}")
    labels |= {suspect.path: int(suspect.suggested_name) for suspect in result.suspects}
    print(f"right labels after:  {np.mean([labels[path] == truth[path] for path in truth]):.1%}")
