"""The file that the figure is drawn from."""

from pathlib import Path

from tnlpad.data.catalogue import find
from tnlpad.experiments.config import command, departures
from tnlpad.experiments.tsne.features import COMPONENTS, Tell, collect, read_features
from tnlpad.experiments.tsne.panels import NEIGHBOURS, PERPLEXITY, compact, embed, shown_images
from tnlpad.experiments.tsne.shown import Shown, configurations
from tnlpad.records.store import RunFolder, write_by_rename

NAME = "tsne"


def compute(
    out: Path,
    shown: Shown,
    *,
    root: Path | None = None,
    device: str = "cpu",
    samples: int | None = None,
    tell: Tell | None = None,
) -> Path:
    """Make `OUT/tsne.json`, from wherever it stands.

    Args:
        out: The folder of all runs.
        shown: What to look at.
        root: Where datasets lie.
        device: Where to train.
        samples: How many of the test images to show, drawn once; all by default.
        tell: Told in words what is being done.
    """
    configs = configurations(shown, device)
    say = tell or (lambda words: None)
    epochs = sorted({*shown.epochs})
    folders = [RunFolder(out / NAME / config.run_id) for config in configs]
    # All that needs the device first: with the features at hand the rest can be done anywhere.
    for config, folder in zip(configs, folders, strict=True):
        collect(config, folder, epochs, root, device, say)
    panels = []
    for config, folder in zip(configs, folders, strict=True):
        panels += embed(config, folder, epochs, samples, say)
    labels = read_features(folders[0], epochs[0])["labels"]
    document = {
        "kind": NAME,
        "dataset": configs[0].dataset,
        "class_names": list(find(shown.dataset).class_names),
        "epochs": epochs,
        "seed": shown.seed,
        "protocol": shown.protocol,
        "settings": departures(configs[0]),
        "test_images": len(labels),
        "recipe": {"components": COMPONENTS, "perplexity": PERPLEXITY, "neighbours": NEIGHBOURS, "init": "pca"},
        "runs": {c.run_id: {"config": c.to_json(), "command": command(c), "up_to_epoch": epochs[-1]} for c in configs},
        "labels": labels[shown_images(len(labels), samples, shown.seed)].tolist(),
        "panels": panels,
    }
    path = out / f"{NAME}.json"
    write_by_rename(path, compact(document))
    return path
