"""`tnlpad noise`: add label noise to a published dataset, write the labels to a file and describe them."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tnlpad.cli.options import AsJson, Protocol, Quiet, Root
from tnlpad.cli.output import exit_codes, fail, make_writable, print_json, say, way_out, write_bytes

if TYPE_CHECKING:
    from tnlpad.data.catalogue import DatasetInfo
    from tnlpad.noise import LabelFile, NoiseSpec
    from tnlpad.types import ImageFiles, NoisyLabels, RawDataset

PICTURE_SUFFIXES = (".png", ".svg")
Inputs = Literal["raw", "unit", "standardized"]


def noise(
    dataset: Annotated[
        str, typer.Argument(metavar="DATASET", help="A published dataset, such as digits, mnist or cifar10.")
    ],
    kind: Annotated[
        str,
        typer.Option(
            "--noise",
            metavar="NOISE",
            help="symmetric:0.4, pairflip:0.4, asymmetric:0.4, instance:0.4, human:worse, matrix:FILE (.npy or .csv), "
            "none, or a label file (.npz).",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE.npz", help="File to write the labels to.")],
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Random seed.")] = 1,
    protocol: Annotated[
        Protocol, typer.Option(help="Asymmetric noise as in the paper or as in the authors' code.")
    ] = "paper",
    legacy_stream: Annotated[
        bool, typer.Option("--legacy-stream", help="Draw from NumPy's legacy generator, as the authors' code does.")
    ] = False,
    inputs: Annotated[
        Inputs,
        typer.Option(help="Pixels that instance noise uses: 0 to 255 (raw), 0 to 1 (unit), or standardized."),
    ] = "raw",
    picture: Annotated[Path | None, typer.Option(metavar="FILE.png|svg", help="Draw the transition matrix.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that exist.")] = False,
    root: Root = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Add noise to the training labels of a published dataset and write them to a file.

    Example: tnlpad noise digits --noise symmetric:0.4 --out labels.npz --picture transition.png
    """
    from tnlpad.data.catalogue import CATALOGUE, find
    from tnlpad.noise import parse_noise

    if dataset not in CATALOGUE and Path(dataset).exists():
        command = shlex.join(["tnlpad", "train", dataset, "--noise", kind])
        fail(f"{dataset} is not a published dataset. For your own data: `{command}`.", code=2)
    with exit_codes():
        spec, info = parse_noise(kind), find(dataset)
        _check_outputs(out, picture, overwrite)
        content, class_names = _labels(spec, info, seed, protocol, legacy_stream, inputs, root, quiet)
    document = described(content, class_names)
    checksum = _write(content, class_names, out, picture)
    document |= {"file": str(out), "checksum": checksum, "picture": None if picture is None else str(picture)}
    if as_json:
        print_json(document)
    else:
        print_result(document)


def _check_outputs(out: Path, picture: Path | None, overwrite: bool) -> None:
    """Check the output files before any long work: their suffixes, that none exists, and that folders are writable."""
    if out.suffix != ".npz":
        fail(f"--out {out}: a label file must end in .npz.", code=2)
    if picture is not None and picture.suffix.lower() not in PICTURE_SUFFIXES:
        fail(f"--picture {picture}: must end in {' or '.join(PICTURE_SUFFIXES)}.", code=2)
    for path, option in ((out, "--out"), (picture, "--picture")):
        if path is not None:
            if path.is_dir():
                fail(f"{option} {path} is a folder: name a file in it.", code=2)
            if path.exists() and not overwrite:
                fail(f"{option} {path} exists. Name another file, or add --overwrite to replace it.", code=2)
            _make_folder(path, option)


def _make_folder(path: Path, option: str) -> None:
    try:
        make_writable(path.parent)
    except OSError as error:
        fail(
            f"{option} {path}: cannot write to its folder ({error.strerror or error}). Name a file in a folder that "
            "you may write to."
        )


def _labels(
    spec: "NoiseSpec",
    info: "DatasetInfo",
    seed: int,
    protocol: Protocol,
    legacy_stream: bool,
    inputs: Inputs,
    root: Path | None,
    quiet: bool,
) -> "tuple[LabelFile, tuple[str, ...]]":
    say(f"Reading {info.name}.", quiet)
    from tnlpad.data import CIFAR100_SUPERCLASS, load
    from tnlpad.noise import LabelFile, make_noisy_labels, read_label_file

    raw = load(info.name, root)
    human = _human_labels(spec, info, root)
    base = info.images_of or info.name  # CIFAR-N is CIFAR with other labels
    say(f"Making {spec} labels for {len(raw.labels):,} samples.", quiet)
    noisy = make_noisy_labels(
        spec,
        dataset=base,
        labels=raw.labels,
        num_classes=len(raw.class_names),
        seed=seed,
        images=_images(spec, info, raw),
        coarse=CIFAR100_SUPERCLASS if base == "cifar100" else None,
        human=human,
        protocol=protocol,
        inputs=inputs,
        legacy=legacy_stream,
    )
    if spec.kind == "file" and spec.file:
        # Its labels were checked against the dataset above; the file has its own description.
        return read_label_file(spec.file), raw.class_names
    content = LabelFile(
        noisy=noisy,
        dataset=base,
        # The file may be shared: it names the matrix file without its folder.
        noise=f"matrix:{spec.file.name}" if spec.file else str(spec),
        seed=seed,
        protocol=protocol,
        inputs=inputs if spec.kind == "instance" else None,
        legacy_stream=legacy_stream,
    )
    return content, raw.class_names


def _images(spec: "NoiseSpec", info: "DatasetInfo", raw: "RawDataset | ImageFiles") -> Any:
    if spec.kind != "instance":
        return None
    from tnlpad.types import RawDataset

    if not isinstance(raw, RawDataset):
        raise ValueError(
            f"--noise {spec}: instance noise needs images in memory, and those of {info.name} are read from disk. "
            "Use symmetric, pairflip or matrix:FILE."
        )
    return raw.images


def _human_labels(spec: "NoiseSpec", info: "DatasetInfo", root: Path | None) -> "NoisyLabels | None":
    if spec.kind != "human":
        return None
    from tnlpad.data import LABEL_SETS, human_labels

    name = info.name if info.images_of else f"{info.name}n"
    # Labels of the 20 super-classes belong to another task than those of the 100 classes.
    offered = [each for each in LABEL_SETS.get(name, ()) if not each.endswith("_coarse")]
    if not offered:
        raise ValueError(f"--noise {spec}: human labels exist for cifar10 and cifar100, not for {info.name}.")
    if spec.human not in offered:
        raise ValueError(f"--noise {spec}: {name} has {', '.join(f'human:{each}' for each in offered)}.")
    return human_labels(name, spec.human, root)


def _write(content: "LabelFile", class_names: tuple[str, ...], out: Path, picture: Path | None) -> str:
    """Write the files, and return the checksum of the labels."""
    from tnlpad.noise import noise_rate_of, transition_counts, write_label_file

    try:
        checksum = write_label_file(out, content)
    except OSError as error:
        fail(f"cannot write {error.filename or out} ({error.strerror or error}). {way_out(error, 'another file')}")
    if picture is not None:
        from tnlpad.report.transition import PictureFormat, transition_picture

        noisy = content.noisy
        rate, counts = noise_rate_of(noisy), transition_counts(noisy.clean, noisy.given, len(class_names))
        title = f"{made(content)}\n{100 * rate:.1f} % of {len(noisy.clean):,} labels are wrong"
        picture_format: PictureFormat = "svg" if picture.suffix.lower() == ".svg" else "png"
        write_bytes(picture, transition_picture(counts, class_names, title, picture_format))
    return checksum


def described(content: "LabelFile", class_names: tuple[str, ...]) -> dict[str, Any]:
    """Return the statistics of noisy labels as plain data."""
    from tnlpad.noise import expected_noise_rate, noise_rate_of, transition_counts

    noisy = content.noisy
    counts = transition_counts(noisy.clean, noisy.given, len(class_names))
    return {
        "made": made(content),
        "dataset": content.dataset,
        "noise": content.noise,
        "protocol": content.protocol,
        "seed": content.seed,
        "legacy_stream": content.legacy_stream,
        "inputs": content.inputs,
        "samples": len(noisy.clean),
        "noise_rate_asked": _asked_rate(content.noise),
        "noise_rate_expected": expected_noise_rate(noisy.transition, noisy.clean),
        "noise_rate": noise_rate_of(noisy),
        "classes": [_class(class_names, label, row) for label, row in enumerate(counts)],
    }


def made(content: "LabelFile") -> str:
    """Describe in one line how the labels were made; human and clean labels have neither protocol nor seed."""
    words = [content.dataset, content.noise]
    if content.noise.partition(":")[0] not in ("human", "none"):
        words += [f"protocol {content.protocol}", f"seed {content.seed}"]
    if content.inputs:
        words.append(f"{content.inputs} inputs")
    if content.legacy_stream:
        words.append("legacy stream")
    return ", ".join(words)


def _asked_rate(noise: str) -> float | None:
    """Return the rate in a text such as symmetric:0.4; None for the free text of another program's label file."""
    from tnlpad.noise import parse_noise

    try:
        return parse_noise(noise).noise_rate
    except ValueError:
        return None


def _class(names: tuple[str, ...], label: int, row: Any) -> dict[str, Any]:
    """Count the wrong labels of one clean class, and find the label most often given instead."""
    samples, wrong = int(row.sum()), int(row.sum() - row[label])
    others = row.copy()
    others[label] = 0
    most = int(others.argmax())
    return {
        "label": label,
        "name": names[label],
        "samples": samples,
        "wrong": wrong,
        "noise_rate": wrong / samples if samples else None,
        "most_often": names[most] if wrong else None,
        "most_often_share_of_wrong": int(others[most]) / wrong if wrong else None,
    }


def print_result(document: dict[str, Any]) -> None:
    """Print a table of classes and a summary."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    table = Table("class", title="Wrong labels by clean class", title_justify="left", title_style="bold")
    for heading in ("samples", "wrong", "wrong, %"):
        table.add_column(heading, justify="right")
    table.add_column("mostly given")
    for each in document["classes"]:
        rate = "–" if each["noise_rate"] is None else f"{100 * each['noise_rate']:.1f}"
        most = "" if not each["wrong"] else f"{each['most_often']} ({100 * each['most_often_share_of_wrong']:.0f} %)"
        table.add_row(each["name"], f"{each['samples']:,}", f"{each['wrong']:,}", rate, most)
    console.print(table)
    asked = document["noise_rate_asked"]
    lines = [
        document["made"],
        *([] if asked is None else [f"requested: {100 * asked:g} % in each affected class"]),
        f"expected:  {100 * document['noise_rate_expected']:.2f} % of all labels",
        f"actual:    {100 * document['noise_rate']:.2f} % of {document['samples']:,} labels",
        f"labels:    {shlex.quote(document['file'])} ({document['checksum']})",
    ]
    if document["picture"]:
        lines.append(f"picture:   {shlex.quote(document['picture'])}")
    for line in lines:
        console.print(line, soft_wrap=True, markup=False)
