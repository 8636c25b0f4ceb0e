"""Output shared by all verbs: messages, errors with exit codes, JSON, and folders and files for results."""

import errno
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any, NoReturn

import typer

from tnlpad.interrupts import was_interrupted
from tnlpad.ranks.launch import launched_rank


class OutputError(Exception):
    """Standard output cannot be written."""


class _StandardOutput(io.FileIO):
    """Tells its errors from those of other files. That a pipe is broken is none: `head` has seen enough."""

    def write(self, content: Any, /) -> int:
        try:
            return super().write(content)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(error.strerror or str(error)) from error


@contextmanager
def checked_output() -> Iterator[None]:
    """End with one line and code 1 if standard output cannot be written within the block, as on a full disk."""
    before = sys.stdout
    if before is None:  # it was closed before the start
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
            yield
        return
    buffer = getattr(before, "buffer", None)
    raw = getattr(buffer, "raw", buffer)  # of `python -u`, the buffer is none
    if not isinstance(before, io.TextIOWrapper) or type(raw) is not io.FileIO:
        yield  # a terminal of Windows, or the text that a test collects
        return
    before.flush()
    output = io.TextIOWrapper(
        io.BufferedWriter(_StandardOutput(raw.fileno(), "wb", closefd=False)),
        encoding=before.encoding,
        errors=before.errors,
        line_buffering=before.line_buffering or before.write_through,
    )
    try:
        with redirect_stdout(output):
            try:
                yield
            finally:
                with suppress(BrokenPipeError):
                    output.flush()
    except OutputError as error:
        typer.echo(f"Error: cannot write the output ({error}). Free some space, or send it elsewhere.", err=True)
        sys.exit(1)
    finally:
        # What could not be written would be tried again when Python ends, with a traceback.
        with suppress(OSError, OutputError):
            output.close()


def fail(message: str, code: int = 1) -> NoReturn:
    """Print an error on stderr and exit: 1 failed at run time, 2 wrong usage, 3 bad data.

    An error after Ctrl-C is raised as KeyboardInterrupt instead: a library may have made it of the interrupt.
    """
    if was_interrupted():
        raise KeyboardInterrupt
    if launched_rank() == 0:
        typer.echo(f"Error: {message}", err=True)
    raise typer.Exit(code)


def fail_on_any_rank(message: str, error: BaseException, code: int = 1) -> NoReturn:
    """Print an error that may concern this process alone, such as a file that it cannot read, and exit."""
    from tnlpad.ranks.group import OF_FIRST

    if launched_rank() > 0 and OF_FIRST not in getattr(error, "__notes__", ()):
        typer.echo(f"Error on rank {launched_rank()}: {message}", err=True)
    fail(message, code)


def say(message: str, quiet: bool = False) -> None:
    """Print a message on stderr, unless `quiet`. Of several ranks, rank 0 prints it."""
    if not quiet and launched_rank() == 0:
        typer.echo(message, err=True)


def printable(text: str) -> str:
    """Escape line breaks and control characters in a name that comes from a user's data."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)


def print_json(document: Any) -> None:
    """Print the document of `--json`; NaN and infinity raise, since JSON has neither."""
    typer.echo(json.dumps(document, indent=2, allow_nan=False))


def folder_for_results(path: Path, option: str) -> Path:
    """Create the folder if needed and check that it is writable, before any long work begins."""
    if path.exists() and not path.is_dir():
        fail(f"{option} {path} is a file, and results need a folder. Name another one with {option} FOLDER.", code=2)
    try:
        make_writable(path)
    except OSError as error:
        fail(f"{option} {path}: cannot write there ({error.strerror or error}). Name a folder that you may write to.")
    return path


@contextmanager
def used_folder(path: Path, option: str) -> Iterator[Path]:
    """Use `folder_for_results` within a block; if the block fails, folders that are still empty are removed."""
    made = [each for each in (path, *path.parents) if not os.path.exists(each)]
    try:
        yield folder_for_results(path, option)
    except BaseException:
        for each in made:
            with suppress(OSError):  # not empty
                each.rmdir()
        raise


def make_writable(folder: Path) -> None:
    """Create a folder if needed; raises OSError if no file can be written into it."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def refuse_to_overwrite(out: Path, source: Path | str, option: str) -> None:
    """Exit with code 2 if the output file is the user's input."""
    same = os.path.realpath(out) == os.path.realpath(source)  # also through a folder that does not exist yet
    if same or (os.path.exists(out) and os.path.exists(source) and out.samefile(source)):
        fail(f"{option} {out} is the file that the data come from. Name another file.", code=2)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file atomically."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically; exit with code 1 if that is not possible."""
    from tnlpad.atomic_files import write_by_rename

    try:
        write_by_rename(path, content)
    except OSError as error:
        fail(f"cannot write {path} ({error.strerror or error}). {way_out(error, 'another folder')}")


def way_out(error: OSError, other: str) -> str:
    """Return what to do about a file that cannot be written: only a full disk needs space."""
    from tnlpad.atomic_files import is_disk_full

    if error.errno == errno.ENAMETOOLONG:
        return "Choose a shorter name."
    return f"Free some space there, or name {other}." if is_disk_full(error) else f"Name {other}."


@contextmanager
def exit_codes() -> Iterator[None]:
    """Turn errors that a user can correct into exit codes: 3 for bad data or records, 2 for wrong usage."""
    from tnlpad.errors import DataError, NoiseDataError
    from tnlpad.records.store import RecordError

    try:
        yield
    except (DataError, NoiseDataError, RecordError) as error:
        fail_on_any_rank(str(error), error, code=3)
    except ValueError as error:
        fail(str(error), code=2)


@contextmanager
def ending_early(*, kept: str, kept_of_interrupted: str = "", if_diverged: str = "") -> Iterator[None]:
    """Turn what stops a training into an exit code: 1 for divergence and disk errors, 130 for Ctrl-C.

    Args:
        kept: Subject of the sentence about what is kept, such as "Finished runs are".
        kept_of_interrupted: The subject after Ctrl-C, if it is another one.
        if_diverged: Advice to append to the error of a diverged run.
    """
    from tnlpad.grid.cluster import RayUnavailable
    from tnlpad.ranks.group import RankLost
    from tnlpad.training.loop import Diverged

    try:
        yield
    except Diverged as error:
        fail(f"{error}{if_diverged}")
    except (RankLost, RayUnavailable) as error:
        fail(str(error))
    except OSError as error:
        advice = f"{kept} kept: free the disk or check the folder, then run the command again."
        fail_on_any_rank(f"{error}. {advice}", error)
    except KeyboardInterrupt:
        say(f"Interrupted. {kept_of_interrupted or kept} kept. Run the command again to resume.")
        raise typer.Exit(130) from None
