"""How to train on data that nobody has tuned for: defaults from their size alone, made for two CPU cores.

Nothing here assumes a share of wrong labels. Whoever knows more says so with `--network` and `--set`.
"""

from typing import Any

from tnlpad.data.own import DataShape

SMALLEST, LARGEST = 8, 64  # pixels to which image files are brought
STREAMED_BYTES = 1 << 32  # what takes more memory than this is read from its files again in every epoch
MARGIN = 8 / 7  # of a streamed image to the part cut out of it, as 256 to 224
SAMPLES_SEEN = 150_000  # over all epochs, between the fewest and the most of them
FEWEST_EPOCHS, MOST_EPOCHS = 20, 100
DECAY_AFTER = 0.75  # of all epochs
MOST_LOOKS = 50  # at every sample, about: more epochs than that are not all looked at
LEARNING_RATES = {"small_resnet": 0.05, "small_cnn": 0.03, "mlp": 0.03}
# γ is released in the epoch t at which its penalty t^(−c2) falls below ‖ḡ‖, the norm of the averaged gradient.
# benchmarks/own_defaults.py chose this and the rates above by noisy validation accuracy. c2 by that release time, by an
# estimated noise rate, or by both, was no better there than a constant by more than chance, and would cost a first
# training; docs/own_data.md has the numbers.
C2 = 0.3


def own_recipe(shape: DataShape) -> dict[str, Any]:
    """What `tnlpad.experiments.recipes` has for published datasets."""
    epochs = min(MOST_EPOCHS, max(FEWEST_EPOCHS, round(SAMPLES_SEEN / max(1, shape.samples))))
    size, streamed = image_size(shape), _streamed(shape)
    network = _network(shape, size)
    # What is gray may be writing, where a mirrored letter is another one.
    photographs = shape.kind != "features" and shape.channels == 3
    return {
        "network": network,
        "epochs": epochs,
        "batch_size": 32 if shape.samples < 5000 else 64,
        "learning_rate": LEARNING_RATES[network],
        "milestones": (max(1, round(DECAY_AFTER * epochs)),),
        "decay": 0.1,
        "momentum": 0.9,
        "weight_decay": 1e-3,
        "resize": (round(size * MARGIN) if streamed else size) if shape.kind == "files" else None,
        "crop": size if streamed else None,
        "crop_padding": size // 8 if photographs and not streamed else 0,
        "flip": photographs,
    }


def looks_every(epochs: int) -> int:
    """After how many epochs every sample is looked at, for its scores."""
    return max(1, epochs // MOST_LOOKS)


def image_size(shape: DataShape) -> int:
    """Pixels of the square that a network sees: as they are in memory, up to 64 from files."""
    if shape.kind != "files":
        return shape.height
    return min(LARGEST, max(SMALLEST, shape.height))


def _streamed(shape: DataShape) -> bool:
    return shape.kind == "files" and shape.samples * shape.channels * image_size(shape) ** 2 > STREAMED_BYTES


def _network(shape: DataShape, size: int) -> str:
    if shape.kind == "features":
        return "mlp"
    sides = (shape.height, shape.width) if shape.kind == "images" else (size, size)
    return "small_cnn" if all(SMALLEST // 2 < side <= SMALLEST for side in sides) else "small_resnet"
