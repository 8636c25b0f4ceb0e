"""Synthetic scores of a run: probabilities clustered around the truth, and some wrong labels."""

from dataclasses import replace

import numpy as np

from tnlpad.records.scores import SampleScores, write_scores
from tnlpad.records.store import RunFolder

NAMES = ("ant", "bee", "<cat>")


def made(samples=600, rate=0.3, classes=3, seed=0, held_out=0.2, sharpness=4.0, names=None):
    """Return scores, which labels are wrong, and the clean labels."""
    generator = np.random.default_rng(seed)
    clean = generator.integers(classes, size=samples)
    wrong = generator.random(samples) < rate
    given = np.where(wrong, (clean + generator.integers(1, classes, size=samples)) % classes, clean)
    logits = generator.normal(size=(samples, classes))
    logits[np.arange(samples), clean] += sharpness
    parts = np.where(generator.random(samples) < held_out, "validation", "train")
    # Training moves samples towards their given labels.
    logits[np.arange(samples), given] += np.where(parts == "train", 1.0, 0.0)
    odds = np.exp(logits - logits.max(1, keepdims=True))
    probabilities = (odds / odds.sum(1, keepdims=True)).astype(np.float32)
    agreed = (probabilities.argmax(1) == given).astype(np.float32)
    scores = SampleScores(
        columns={
            "index": np.arange(samples),
            "part": parts,
            "given": given,
            "agreed_sigma": agreed,
            "margin_sigma_to_end": np.zeros(samples, dtype=np.float32),
            "margin_w_to_end": np.where(agreed == 0, 2.0, 0.0).astype(np.float32),
        },
        probabilities=probabilities,
        class_names=names or tuple(NAMES[:classes]) + tuple(f"class {k}" for k in range(len(NAMES), classes)),
        views=("sigma", "w"),
        facts={"run_id": "made", "epochs_until_chosen": 10, "epochs_to_end": 20, "chosen_epoch": 10, "every": 1},
    )
    return scores, wrong, clean


def made_run(folder, **options):
    """Write the folder of a finished run with such scores."""
    scores, wrong, _ = made(**options)
    scores = replace(scores, facts={**scores.facts, "run_id": folder.name})
    run = RunFolder(folder)
    run.begin({"dataset": "somewhere", "noise": "none", "method": "tnlpad", "network": "lenet"})
    write_scores(folder, scores)
    run.finish({"run_id": folder.name, "chosen": {"epoch": 10, "validation_accuracy": 0.9}})
    return scores, wrong
