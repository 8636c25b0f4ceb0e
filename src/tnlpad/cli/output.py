"""What the verbs share: consoles, errors without tracebacks, files that appear complete or not at all.

What goes wrong with a run, as a line on stderr and an exit code.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import typer


def fail(message: str, code: int = 1) -> NoReturn:
    """Say on stderr what went wrong, in a line that can be copied, and exit: 1 at run time, 2 for wrong usage."""
    typer.echo(f"Error: {message}", err=True)
    raise typer.Exit(code)


def say(message: str, quiet: bool = False) -> None:
    """A word about what goes on, on stderr."""
    if not quiet:
        typer.echo(message, err=True)


def printable(text: str) -> str:
    """A name from somebody's data with its line breaks and control characters spelt out: a terminal obeys them."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)


def print_json(document: Any) -> None:
    """The one document of `--json`. Numbers that JSON does not know are refused rather than written."""
    typer.echo(json.dumps(document, indent=2, allow_nan=False))


def folder_for_results(path: Path, option: str) -> Path:
    """The folder, made if need be and known to be writable, before anything that takes time begins."""
    if path.exists() and not path.is_dir():
        fail(f"{option} {path} is a file, and results go into a folder: name another one with {option} FOLDER.", code=2)
    try:
        make_writable(path)
    except OSError as error:
        fail(
            f"cannot write into {path} ({error.strerror or error}). {option} must be a folder that you may create or "
            f"write to: name another one with {option} FOLDER."
        )
    return path


@contextmanager
def used_folder(path: Path, option: str) -> Iterator[Path]:
    """The same for a block; where it fails before anything is in the folder, what was made goes again."""
    made = [each for each in (path, *path.parents) if not os.path.exists(each)]
    try:
        yield folder_for_results(path, option)
    except BaseException:
        for each in made:
            with suppress(OSError):  # it holds something
                each.rmdir()
        raise


def make_writable(folder: Path) -> None:
    """Make a folder if need be; raises an OSError where no file can be written into it."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def refuse_to_overwrite(out: Path, source: Path | str, option: str) -> None:
    """Nobody's data are replaced by what was made of them."""
    same = os.path.realpath(out) == os.path.realpath(source)  # also by way of a folder that is yet to be made
    if same or (out.exists() and Path(source).exists() and out.samefile(source)):
        fail(f"{option} {out} is the file that the data come from: name another one, and it stays as it is.", code=2)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, so that no one ever reads half of it."""
    from tnlpad.atomic_files import write_by_rename

    try:
        write_by_rename(path, content)
    except OSError as error:
        fail(f"cannot write {path} ({error.strerror or error}). Free some space there, or name another folder.")


@contextmanager
def exit_codes() -> Iterator[None]:
    """Within the block an error that a person can do something about ends the command: 3 for data, 2 for usage."""
    from tnlpad.errors import DataError, NoiseDataError
    from tnlpad.records.store import RecordError

    try:
        yield
    except (DataError, NoiseDataError, RecordError) as error:
        fail(str(error), code=3)
    except ValueError as error:  # a word or a setting that something refuses
        fail(str(error), code=2)


@contextmanager
def ending_early(*, kept: str, kept_of_interrupted: str = "", if_diverged: str = "") -> Iterator[None]:
    """Within the block whatever stops the training of a run ends the command with what can be done about it.

    Args:
        kept: What is kept when files cannot be written, such as "Finished runs are".
        kept_of_interrupted: What is kept when someone presses Ctrl-C, if that is more.
        if_diverged: What to do about a run that diverges, beyond what the error says.
    """
    from tnlpad.training.loop import Diverged

    try:
        yield
    except Diverged as error:
        fail(f"{error}{if_diverged}")
    except OSError as error:
        fail(f"{error}. {kept} kept: free the disk or check the folder, and run the command again.")
    except KeyboardInterrupt:
        say(f"Interrupted. {kept_of_interrupted or kept} kept: run the command again to go on.")
        raise typer.Exit(130) from None
