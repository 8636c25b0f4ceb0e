"""Small inputs of every kind that is read, and the function that reads each."""

import gzip
import io
import json
import pickle
import shutil
import struct
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.faults import samples

IMAGE_FORMATS = {"png": "png", "jpeg": "jpg", "gif": "gif", "bmp": "bmp", "tiff": "tif", "webp": "webp"}


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of input.

    Args:
        write: Writes a sample into an empty folder. Each of its files is mangled in turn.
        read: Reads the sample in that folder.
        replaced: Whether its files are also removed, or replaced by something else.
    """

    write: Callable[[Path], object]
    read: Callable[[Path], object]
    replaced: bool = False


def open_data(folder: Path, name: str = "", **options: Any) -> None:
    """Open own data and summarise them, as `tnlpad check` does."""
    from tnlpad.data.own import open_dataset
    from tnlpad.data.own.inspect import inspect

    inspect(open_dataset(folder / name, fresh=True, **options))


# Tables and arrays ----------------------------------------------------------------------------------------------------


def _rows() -> list[dict[str, Any]]:
    pairs = zip(samples.numbers(2).tolist(), samples.labels(), strict=True)
    return [{"id": f"s{place}", "x": x, "y": y, "label": label} for place, ((x, y), label) in enumerate(pairs)]


def _json_lines(folder: Path) -> None:
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in _rows()))


def _workbook(folder: Path) -> None:
    import openpyxl

    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()
    sheet.append(list(_rows()[0]))
    for row in _rows()[:12]:
        sheet.append(list(row.values()))
    book.save(folder / "data.xlsx")


def _parquet(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(_rows()), folder / "data.parquet")


def _picture_rows() -> Any:
    import pyarrow as pa

    images = [{"bytes": encoded(each, "png"), "path": None} for each in samples.pictures(4)[:9]]
    return pa.table({"image": images, "label": [place % 3 for place in range(9)]})


def _picture_parquet(folder: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(_picture_rows(), folder / "data.parquet")


def _hugging_face(folder: Path) -> None:
    import pyarrow as pa

    table, name = _picture_rows(), "data-00000-of-00001.arrow"
    with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    features = {"image": {"_type": "Image"}, "label": {"names": list(samples.CLASSES), "_type": "ClassLabel"}}
    (folder / "dataset_info.json").write_text(json.dumps({"features": features}))
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name}], "_split": None}))


def _hugging_face_parts(folder: Path) -> None:
    """Write a DatasetDict."""
    parts = ("train", "test")
    for part in parts:
        (folder / part).mkdir()
        _hugging_face(folder / part)
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": parts}))


def _image_arrays(folder: Path) -> None:
    images = np.stack([np.asarray(each) for each in samples.pictures(4)])
    np.savez(folder / "data.npz", images=images, labels=np.array(samples.labels()), split=["train"] * len(images))


def _predictions(folder: Path) -> None:
    np.save(folder / "probabilities.npy", np.full((9, 3), 1 / 3, dtype=np.float32))
    rows = [f"s{place},0.5,0.25,0.25" for place in range(9)]
    (folder / "probabilities.csv").write_text("\n".join(["id,0,1,2", *rows]) + "\n")
    (folder / "labels.txt").write_text("".join(f"{place % 3}\n" for place in range(9)))
    np.savez(folder / "labels.npz", labels=np.arange(9) % 3, ids=[f"s{place}" for place in range(9)])
    (folder / "labels.csv").write_text("id,label\n" + "".join(f"s{place},{place % 3}\n" for place in range(9)))


def _read_predictions(folder: Path) -> None:
    from tnlpad.suspects.from_probabilities import find_suspects
    from tnlpad.suspects.prediction_files import read_labels, read_numbers

    columns = [read_labels(folder / name) for name in ("labels.npz", "labels.csv", "labels.txt")]
    for name in ("probabilities.npy", "probabilities.csv"):
        probabilities = read_numbers(folder / name, ("pred_probs",))
        for column in columns:
            find_suspects(labels=column.values, probabilities=probabilities.values)


# Images ---------------------------------------------------------------------------------------------------------------


def encoded(picture: Any, form: str) -> bytes:
    """Return the bytes of an image file."""
    stream = io.BytesIO()
    picture.save(stream, form)
    return stream.getvalue()


def _images(folder: Path, form: str, suffix: str) -> None:
    for place, picture in enumerate(samples.pictures(6)[:3]):
        (folder / samples.CLASSES[place]).mkdir()
        (folder / samples.CLASSES[place] / f"x.{suffix}").write_bytes(encoded(picture, form))


def _shards(folder: Path) -> None:
    with tarfile.open(folder / "000000.tar", "w") as archive:
        for place, picture in enumerate(samples.pictures(6)[:6]):
            label = json.dumps({"label": place % 3}).encode()
            for name, content in ((f"{place}.jpg", encoded(picture, "jpeg")), (f"{place}.json", label)):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))


def _prepared(folder: Path) -> None:
    from tnlpad.data.prepare import prepare_images
    from tnlpad.data.storage import FileImages

    source = folder.parent / f"{folder.name}-source"
    source.mkdir()
    names = [f"{place}.png".encode() for place in range(6)]
    for name, picture in zip(names, samples.pictures(6), strict=False):
        picture.save(source / name.decode())
    store = FileImages([str(source / name.decode()) for name in names])
    prepare_images(names, store, folder, resize=5, source="soak", images_per_part=3)
    for hidden in folder.glob(".*"):
        hidden.unlink()


def _read_prepared(folder: Path) -> None:
    from tnlpad.data.prepared import PreparedImages

    images = PreparedImages(folder)
    list(images.names())
    for place in range(len(images)):
        images.read(place)


# Published data -------------------------------------------------------------------------------------------------------


def _idx(folder: Path) -> None:
    content = struct.pack(">HBBII", 0, 8, 2, 9, 8) + bytes(range(72))
    (folder / "plain").write_bytes(content)
    (folder / "packed.gz").write_bytes(gzip.compress(content, mtime=0))


def _read_idx(folder: Path) -> None:
    from tnlpad.data.datasets import read_idx

    for path in sorted(folder.iterdir()):
        read_idx(path, max_bytes=1 << 16)


def _cifar_binary(folder: Path) -> None:
    generator = np.random.default_rng(0)
    batch = b"".join(bytes([place % 10]) + generator.bytes(3072) for place in range(3))
    (folder / "batch.bin").write_bytes(batch)


def _cifar_python(folder: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, 3072), dtype=np.uint8)
    content = {b"data": images, b"labels": [0, 1, 2], b"batch_label": b"one", b"filenames": [b"a", b"b", b"c"]}
    (folder / "batch").write_bytes(pickle.dumps(content, protocol=2))


def _read_cifar(folder: Path, reader: str) -> None:
    from tnlpad.data import cifar

    getattr(cifar, reader)(sorted(folder.iterdir()), num_classes=10, coarse=False)


def _cifar_n(folder: Path) -> None:
    from tnlpad.data.cifar_n import CLEAN, LABEL_SETS

    np.savez(folder / "labels.npz", **{name: np.arange(9) for name in (*LABEL_SETS["cifar10n"], CLEAN)})


def _read_cifar_n(folder: Path) -> None:
    from tnlpad.data.cifar_n import read_cifar_n

    read_cifar_n(folder / "labels.npz", dataset="cifar10n", num_classes=10)


def _food101(folder: Path) -> None:
    (folder / "meta").mkdir()
    (folder / "meta" / "classes.txt").write_text("\n".join(samples.CLASSES))
    for place, part in enumerate(("train", "test")):
        (folder / "meta" / f"{part}.txt").write_text("\n".join(f"{name}/{place}" for name in samples.CLASSES))
    for name in samples.CLASSES:
        (folder / "images" / name).mkdir(parents=True)
        for place in range(2):
            (folder / "images" / name / f"{place}.jpg").write_bytes(b"never opened")


def _read_food101(folder: Path) -> None:
    from tnlpad.data.photographs import read_food101

    read_food101(folder, "train")


def _clothing1m(folder: Path) -> None:
    keys = [f"images/{place}.jpg" for place in range(9)]
    (folder / "category_names_eng.txt").write_text("\n".join(f"class {place}" for place in range(14)))
    (folder / "noisy_train_key_list.txt").write_text("\n".join(keys))
    (folder / "noisy_label_kv.txt").write_text("\n".join(f"{key} {place}" for place, key in enumerate(keys)))


def _read_clothing1m(folder: Path) -> None:
    from tnlpad.data.photographs import read_clothing1m

    read_clothing1m(folder, "train")


# Noise and weights ----------------------------------------------------------------------------------------------------


def _noise(folder: Path) -> None:
    from tnlpad.noise.files import LabelFile, write_label_file
    from tnlpad.types import NoisyLabels

    clean = np.arange(9) % 3
    noisy = NoisyLabels(given=np.roll(clean, 1), clean=clean, transition=np.full((3, 3), 1 / 3))
    write_label_file(folder / "labels.npz", LabelFile(noisy=noisy, dataset="d", noise="n", seed=1, protocol="paper"))
    np.save(folder / "matrix.npy", np.full((3, 3), 1 / 3))
    (folder / "matrix.csv").write_text("0.8,0.1,0.1\n0.1,0.8,0.1\n0.1,0.1,0.8\n")


def _read_noise(folder: Path) -> None:
    from tnlpad.noise.files import read_label_file, read_matrix

    read_label_file(folder / "labels.npz")
    for name in ("matrix.npy", "matrix.csv"):
        read_matrix(folder / name, 3)


def _weights(folder: Path) -> None:
    import torch
    from safetensors.torch import save_file

    state = _network().state_dict()
    save_file(state, folder / "weights.safetensors")
    torch.save(state, folder / "weights.pt")


def _network() -> Any:
    import torch

    from tnlpad.networks import build

    with torch.random.fork_rng():
        torch.manual_seed(0)  # the same bytes every time
        return build("small_cnn", num_classes=3)


def _read_weights(folder: Path) -> None:
    from tnlpad.networks.pretrained import load_pretrained

    network = _network()
    for name in ("weights.safetensors", "weights.pt"):
        load_pretrained(network, folder / name, head="classifier")


# Runs -----------------------------------------------------------------------------------------------------------------


_trained: dict[str, Path] = {}  # by kind of data: the folder that they and a run are in


def _run(folder: Path, kind: str) -> None:
    from tnlpad.records.samples import read_samples, write_decided

    _trained[kind] = folder.parent / kind
    run = samples.train(_trained[kind], kind)
    place = shutil.copytree(run, folder / run.name, ignore=shutil.ignore_patterns("suspects", "lock"))
    if ids := read_samples(place).get("id"):
        write_decided(place, dict.fromkeys(ids[:3], samples.CLASSES[0]))


def _earlier_run(folder: Path, kind: str) -> None:
    """Write a run without checksums, as earlier versions did: what reads its files must notice the damage by itself."""
    from tnlpad.records.checksums import FORMAT_KEY, KEY

    _run(folder, kind)
    (summary,) = folder.glob("*/summary.json")
    content = json.loads(summary.read_text())
    summary.write_text(json.dumps({key: value for key, value in content.items() if key not in (FORMAT_KEY, KEY)}))


def _audited_run(folder: Path) -> None:
    """Write a run with a sample and the result of an audit."""
    from benchmarks.faults.flips import audit

    _run(folder, "features")
    (place,) = folder.iterdir()
    audit(place, folder.parent / "audit")
    shutil.copy(folder.parent / "audit" / "audit.json", place / "audit")


def _read_audited_run(folder: Path) -> None:
    from tnlpad.records.store import RunFolder
    from tnlpad.suspects.audit_files import read_sample
    from tnlpad.suspects.listing import rank_run

    _read_run(folder)
    (place,) = folder.iterdir()
    read_sample(place / "audit", rank_run(RunFolder(place)))


def _read_run(folder: Path) -> None:
    import tnlpad
    from tnlpad.records.store import RunFolder
    from tnlpad.records.summaries import finished_summary

    (place,) = folder.iterdir()
    run = RunFolder(place)
    finished_summary(run)
    run.epochs()
    if _own_data_of(place) is not None:
        tnlpad.load(place).ranked()
        _list_and_clean(run, folder.with_name("out"))


def _own_data_of(run: Path) -> Path | None:
    """Return the data that a run was trained on; None if they are published."""
    kinds = (kind for kind in samples.WRITERS if run.name.startswith(f"{kind}_"))
    return next((samples.data_of(_trained[kind], kind) for kind in kinds), None)


def _list_and_clean(run: Any, out: Path) -> None:
    """Write what `tnlpad suspects` and `tnlpad clean` do."""
    from tnlpad.suspects.clean import clean_samples
    from tnlpad.suspects.cleaned_files import allowed_suffixes, origin_of, write_cleaned
    from tnlpad.suspects.export import write_suspects
    from tnlpad.suspects.listing import rank_run

    shutil.rmtree(out, ignore_errors=True)
    found = rank_run(run)
    write_suspects(out, ("csv", "html"), found, found.suspects(), warn=lambda sentence: None)
    cleaning = clean_samples(found, top=3)
    suffix = allowed_suffixes(origin_of(found, cleaning.kept), found, cleaning.kept)[0]
    write_cleaned(out / f"cleaned{suffix}", found, cleaning)


def _read_earlier_run(folder: Path) -> None:
    """Read as `tnlpad report` and `tnlpad predict` do as well."""
    import tnlpad

    _read_run(folder)
    _read_records(folder)
    (place,) = folder.iterdir()
    if (data := _own_data_of(place)) is not None:
        tnlpad.load(place).predict_proba(data)


def _archived(folder: Path) -> None:
    from tnlpad.records.archive import archive, write_archived
    from tnlpad.records.store import RunFolder

    write_archived(archive(RunFolder(samples.train(folder.parent / "digits", "digits"))), folder)


def _read_records(folder: Path) -> None:
    from tnlpad.records.archive import finished_records

    for record in finished_records([folder], lambda problem: None):
        _ = record.curves


def _checkpoint(folder: Path) -> None:
    import torch

    from tnlpad.training.checkpoint import Progress, save_checkpoint

    method = _method()
    progress = Progress(epoch=1, best=method.network.state_dict(), statistics={"epochs": {"w": 1}})
    save_checkpoint(folder / "checkpoint.pt", progress, method, {"order": _order()}, torch.device("cpu"))


def _read_checkpoint(folder: Path) -> None:
    import torch

    from tnlpad.training.checkpoint import load_checkpoint

    load_checkpoint(folder / "checkpoint.pt", _method(), {"order": _order()}, torch.device("cpu"))


def _method() -> Any:
    import torch

    from tnlpad.methods.standard import Standard

    network = torch.nn.Linear(4, 3)
    for parameter in network.parameters():
        torch.nn.init.ones_(parameter)  # the same bytes every time
    return Standard(network, torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9))


def _order() -> Any:
    import torch

    return torch.Generator().manual_seed(0)


def _cached_features(folder: Path) -> None:
    cache, digests = _feature_cache(folder)
    cache.add(list(digests), samples.numbers())
    cache.flush()


def _read_cached_features(folder: Path) -> None:
    """Read them, or compute them again: a damaged file of a cache is removed."""
    from tnlpad.features.cache import cached_entries

    cached_entries(folder)
    cache, digests = _feature_cache(folder)
    for places, rows in cache.read(digests):
        if not np.array_equal(rows, samples.numbers()[places]):
            raise RuntimeError("features have changed unnoticed")


def _feature_cache(folder: Path) -> Any:
    from tnlpad.data.own.digests import DIGEST_BYTES, Digests
    from tnlpad.features.cache import EntryKey, FeatureCache

    key = EntryKey(identity="soak", pixels=8, dimensions=samples.numbers().shape[1], preprocessing=1)
    return FeatureCache(folder, key), Digests.of([bytes([place] * DIGEST_BYTES) for place in range(samples.COUNT)])


_ranked: dict[str, Any] = {}


def _decisions(folder: Path) -> None:
    from tnlpad.records.store import RunFolder
    from tnlpad.suspects.listing import rank_run

    _ranked["features"] = run = rank_run(RunFolder(samples.train(folder.parent / "features", "features")))
    lines = [
        {"key": str(place), "id": name, "choice": "other", "label": samples.CLASSES[place % 3], "time": "2000-01-01"}
        for place, name in enumerate(run.names.ids)
    ]
    (folder / "review.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _read_decisions(folder: Path) -> None:
    from tnlpad.review.decisions import DecisionLog

    DecisionLog(folder / "review.jsonl", _ranked["features"]).decided()


def _config(folder: Path) -> None:
    from tnlpad.runs.config import configure

    (folder / "config.json").write_text(json.dumps(configure("mnist").to_json()))


def _read_config(folder: Path) -> None:
    from tnlpad.cli.train import _read_config as read

    read(folder / "config.json", {}, None)


def _review(folder: Path) -> None:
    rows = [f"s{place},{label},other" for place, label in enumerate(samples.labels())]
    (folder / "review.csv").write_text("\n".join(["id,label,choice", *rows]) + "\n")
    rows = [f"{label},s{place}" for place, label in enumerate(samples.labels())]
    (folder / "turned.csv").write_text("\n".join(["label,id", *rows]) + "\n")


def _read_review(folder: Path) -> None:
    from tnlpad.suspects.review import read_reviews

    for name in ("review.csv", "turned.csv"):
        read_reviews([folder / name], [f"s{place}" for place in range(samples.COUNT)])


KINDS: Mapping[str, Kind] = {
    "csv": Kind(write=samples.write_table, read=partial(open_data, name="table.csv")),
    "csv of texts": Kind(write=samples.write_texts, read=partial(open_data, name="texts.csv", text="text")),
    "jsonl": Kind(write=_json_lines, read=partial(open_data, name="data.jsonl")),
    "xlsx": Kind(write=_workbook, read=partial(open_data, name="data.xlsx")),
    "parquet": Kind(write=_parquet, read=partial(open_data, name="data.parquet")),
    "parquet of images": Kind(write=_picture_parquet, read=partial(open_data, name="data.parquet")),
    "hugging face": Kind(write=_hugging_face, read=open_data),
    "hugging face parts": Kind(write=_hugging_face_parts, read=open_data),
    "npz of features": Kind(write=samples.write_features, read=partial(open_data, name="features.npz")),
    "npz of images": Kind(write=_image_arrays, read=partial(open_data, name="data.npz")),
    **{
        form: Kind(write=partial(_images, form=form, suffix=suffix), read=open_data)
        for form, suffix in IMAGE_FORMATS.items()
    },
    "tar shards": Kind(write=_shards, read=open_data),
    "prepared images": Kind(write=_prepared, read=_read_prepared),
    "predictions": Kind(write=_predictions, read=_read_predictions),
    "mnist idx": Kind(write=_idx, read=_read_idx),
    "cifar binary": Kind(write=_cifar_binary, read=partial(_read_cifar, reader="read_cifar_binary")),
    "cifar pickle": Kind(write=_cifar_python, read=partial(_read_cifar, reader="read_cifar_python")),
    "cifar-n labels": Kind(write=_cifar_n, read=_read_cifar_n),
    "food-101 lists": Kind(write=_food101, read=_read_food101),
    "clothing1m lists": Kind(write=_clothing1m, read=_read_clothing1m),
    "noise files": Kind(write=_noise, read=_read_noise),
    "weights": Kind(write=_weights, read=_read_weights),
    "configuration": Kind(write=_config, read=_read_config),
    "review": Kind(write=_review, read=_read_review),
    "decisions": Kind(write=_decisions, read=_read_decisions),
    "checkpoint": Kind(write=_checkpoint, read=_read_checkpoint),
    "cached features": Kind(write=_cached_features, read=_read_cached_features),
    "archived record": Kind(write=_archived, read=_read_records),
    **{
        f"run on {kind}": Kind(write=partial(_run, kind=kind), read=_read_run, replaced=True)
        for kind in samples.TRAINED
    },
    "run with an audit": Kind(write=_audited_run, read=_read_audited_run, replaced=True),
    **{
        f"run without checksums on {kind}": Kind(
            write=partial(_earlier_run, kind=kind), read=_read_earlier_run, replaced=True
        )
        for kind in samples.TRAINED
    },
}
