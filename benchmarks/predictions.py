"""Suspects from the predictions of other models: votes of the nearest samples, and predictions made in training.

*votes*: a model predicts out of fold, and `tnlpad.find_suspects` ranks its labels with and without the features that it
was trained on, and with features of random numbers. The models are logistic regression with the C of the highest
out-of-fold likelihood of the noisy labels, a random forest and a small network, all of scikit-learn. The numbers of
neighbours, distances and exponents are chosen by the labels alone. The design was chosen with other seeds (1, 2, 3, 5,
6, 11 and 12) of the same data.

*training*: the order of labels by the mean predictions of a network during its training, as the callbacks for Lightning
and the Hugging Face Trainer collect them, beside that of five folds of `TnlpadClassifier`.

    python -m benchmarks.predictions [--root FOLDER] [--photos FOLDER] [--texts FOLDER] [--seeds 4 7]
        [--only NAME ...] [--save record.json]

The folders are those of `benchmarks.rates`; data without a folder are left out.
"""

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F

import tnlpad
from benchmarks.machine import leave, machine, versions
from benchmarks.rates import Places, content
from tnlpad import Decomposition, parameter_groups
from tnlpad.features.text import TextEncoder
from tnlpad.integrations.judging import TrainedLabels
from tnlpad.integrations.sklearn import TnlpadClassifier
from tnlpad.noise import make_noisy_labels, parse_noise
from tnlpad.suspects.from_probabilities import Found
from tnlpad.suspects.ranking import rank

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
TABLES, PIXELS, TEXTS = ("digits", "wine", "breast_cancer"), ("mnist", "fashion_mnist"), ("youtube", "sms", "semeval")
NOISES = ("symmetric:0.1", "symmetric:0.3", "pairflip:0.3")
GRID = (0.0003, 0.001, 0.003, 0.01, 0.1)
FOLDS, EPOCHS, WIDTH, BATCH = 5, 20, 128, 64
RANDOM_COLUMNS = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("root", "photos", "texts"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--seeds", nargs="+", type=int, default=[4, 7])
    parser.add_argument("--only", nargs="+", help="names of data")
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    began, votes, trainings = time.perf_counter(), [], []
    for cell, samples, clean, given in cells(options):
        for model, rows in predictions(samples, given, cell["seed"]):
            votes.append({**cell, "model": model, **voted(rows, samples, clean, given)})
            print(line(votes[-1], ("plain", "voted", "random")), flush=True)
        trainings.append({**cell, **judged(samples, clean, given, cell["seed"])})
        print(line(trainings[-1], ("in_training", "out_of_fold")), flush=True)
    record = {"benchmark": "predictions", "machine": machine("cpu"), "versions": versions()}
    leave(record | {"seconds": time.perf_counter() - began, "votes": votes, "trainings": trainings}, options.save)


def cells(options: argparse.Namespace) -> Iterator[tuple[dict[str, Any], Any, Labels, Labels]]:
    """Yield data with wrong labels: a description, samples, right and given labels."""
    places = Places(root=options.root, photos=options.photos, texts=options.texts)
    names = (*TABLES, *(PIXELS if options.root else ()), *(TEXTS if options.texts else ()))
    names += ("photos",) if options.photos else ()
    for name in options.only or names:
        samples, clean, made = content(name, "heads", places)
        if name in TEXTS:
            samples = TextEncoder.fit(samples).transform(samples)
        # With two classes, pairflip is symmetric.
        noises = [noise for noise in NOISES if clean.max() > 1 or not noise.startswith("pairflip")]
        for noise in (*noises, *(("rules",) if name in TEXTS else ())):
            for seed in options.seeds if noise != "rules" else options.seeds[:1]:
                given = made
                if noise != "rules":
                    given = make_noisy_labels(
                        parse_noise(noise), dataset=name, labels=clean, num_classes=int(clean.max()) + 1, seed=seed
                    ).given
                cell = {"data": name, "noise": noise, "seed": seed, "samples": len(clean)}
                yield cell | {"wrong": float((given != clean).mean())}, samples, clean, given


def predictions(samples: Any, given: Labels, seed: int) -> Iterator[tuple[str, Floats]]:
    """Yield out-of-fold probabilities of each model."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def out_of_fold(model: Any) -> Floats:
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
        rows: Floats = cross_val_predict(model, samples, given, cv=folds, method="predict_proba")
        return rows

    def likelihood(rows: Floats) -> float:
        return float(np.log(rows[np.arange(len(given)), given] + 1e-12).mean())

    strengths = (LogisticRegression(C=strength, max_iter=200, tol=1e-3) for strength in GRID)
    yield "regression", max((out_of_fold(make_pipeline(StandardScaler(), each)) for each in strengths), key=likelihood)
    yield "forest", out_of_fold(RandomForestClassifier(100, random_state=seed))
    network = MLPClassifier((64,), max_iter=20, random_state=seed)
    yield "network", out_of_fold(make_pipeline(StandardScaler(), network))


def voted(rows: Floats, samples: Any, clean: Labels, given: Labels) -> dict[str, Any]:
    """Return the measures without features, with them, and with random numbers for features."""
    random = np.random.default_rng(0).normal(size=(len(given), RANDOM_COLUMNS))
    features = {"plain": None, "voted": samples, "random": random}
    return {
        name: measures(tnlpad.find_suspects(given, probabilities=rows, features=each), given != clean)
        for name, each in features.items()
    }


def measures(found: Found, wrong: NDArray[np.bool_]) -> dict[str, Any]:
    rate, interval = found.noise_rate, found.noise_rate_interval
    return {
        **order(found.ranking.score, wrong),
        "rate": rate,
        "covered": None if interval is None else bool(interval[0] <= wrong.mean() <= interval[1]),
    }


def order(score: Floats, wrong: NDArray[np.bool_]) -> dict[str, float]:
    from sklearn.metrics import average_precision_score, roc_auc_score

    measured = {"auroc": roc_auc_score(wrong, score), "average_precision": average_precision_score(wrong, score)}
    return {name: float(value) for name, value in measured.items()}


def judged(samples: Any, clean: Labels, given: Labels, seed: int) -> dict[str, Any]:
    """Compare predictions made in training with those of `TnlpadClassifier` out of fold."""
    wrong = given != clean
    spread = samples.std(0)
    rows = torch.from_numpy(((samples - samples.mean(0)) / np.where(spread > 0, spread, 1)).astype(np.float32))
    found = trained(rows, torch.from_numpy(given), seed)
    listed = [each.index for each in found.suspects()]
    outside = TnlpadClassifier(folds=FOLDS, random_state=seed).fit(samples, given)
    suspects = [each.index for each in outside.suspects]
    assert outside.found_ is not None, "there are folds"
    return {
        "in_training": {**order(rank(found.scores()).score, wrong), **listing(listed, wrong)},
        "out_of_fold": {**order(outside.found_.ranking.score, wrong), **listing(suspects, wrong)},
    }


def trained(rows: torch.Tensor, given: torch.Tensor, seed: int) -> TrainedLabels:
    """Train a small network with the decomposition, and predict all samples after each epoch."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(rows.shape[1], WIDTH), nn.ReLU(), nn.Linear(WIDTH, int(given.max()) + 1))
    optimizer = Decomposition(parameter_groups(network), torch.optim.SGD, lr=0.01, momentum=0.9, c1=1e-4, c2=0.3)
    found = TrainedLabels()
    for _ in range(EPOCHS):
        optimizer.start_epoch()
        for batch in torch.randperm(len(rows)).split(BATCH):
            F.cross_entropy(network(rows[batch]), given[batch]).backward()
            optimizer.step()
            optimizer.zero_grad()
        with optimizer.sigma_weights():
            found.add_epoch(network, [slice(None)], lambda every: (network(rows[every]), given[every]))
    return found


def listing(listed: Sequence[int], wrong: NDArray[np.bool_]) -> dict[str, Any]:
    return {"listed": len(listed), "listed_wrong": int(wrong[listed].sum())}


def line(cell: Mapping[str, Any], names: Sequence[str]) -> str:
    parts = [f"{name} {cell[name]['auroc']:.4f} {cell[name]['average_precision']:.4f}" for name in names]
    return f"{cell['data']} {cell['noise']} seed {cell['seed']} {cell.get('model', 'training')}: {'; '.join(parts)}"


if __name__ == "__main__":
    main()
