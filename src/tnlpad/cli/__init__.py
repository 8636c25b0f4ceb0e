"""The command `tnlpad`: one file per verb, which imports heavy libraries only when it runs.

Results go to stdout, progress and messages to stderr; `--json` prints exactly one document. Exit codes: 0 fine,
1 failed at run time, 2 wrong usage, 3 bad data, 4 findings with --fail-on, 130 interrupted.
"""

import io
import os
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tnlpad import __version__
from tnlpad.atomic_files import error_chain
from tnlpad.cli.audit import audit
from tnlpad.cli.check import check
from tnlpad.cli.clean import clean
from tnlpad.cli.data import data
from tnlpad.cli.demo import demo
from tnlpad.cli.doctor import doctor
from tnlpad.cli.export import export
from tnlpad.cli.noise import noise
from tnlpad.cli.output import checked_output, fail, say
from tnlpad.cli.predict import predict
from tnlpad.cli.report import report
from tnlpad.cli.reproduce import reproduce
from tnlpad.cli.review import review
from tnlpad.cli.runs import runs
from tnlpad.cli.suspects import suspects
from tnlpad.cli.train import train
from tnlpad.cli.tune import tune
from tnlpad.interrupts import INTERRUPTED, interruptible, was_interrupted
from tnlpad.ranks.launch import launched_count

SPINS = "1000"  # of a thread before it sleeps, about 20 µs


class Verbs(TyperGroup):
    """All verbs. Ctrl-C ends each with code 130 and one line, unless the verb has more to say about it."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        try:
            with interruptible():
                return super().invoke(ctx)
        except typer.Exit:
            raise
        except BaseException as error:
            # Libraries raise errors of their own from a KeyboardInterrupt, or instead of it.
            if was_interrupted() or any(isinstance(each, KeyboardInterrupt) for each in error_chain(error)):
                say("Interrupted.")
                raise typer.Exit(INTERRUPTED) from None
            raise


app = typer.Typer(
    name="tnlpad",
    cls=Verbs,
    help="Train classifiers on data whose labels are partly wrong, and find the wrong labels.",
    no_args_is_help=True,
    # Plain tracebacks, without the values of local variables: people paste them into bug reports.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tnlpad {__version__}")
        raise typer.Exit


RANKED_VERBS = ("train",)


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train classifiers on data whose labels are partly wrong, and find the wrong labels."""
    if launched_count() > 1 and context.invoked_subcommand not in RANKED_VERBS:
        fail(
            f"torchrun started {launched_count()} processes, and each would do all of `tnlpad "
            f"{context.invoked_subcommand}`. Only `tnlpad train` shares its work among them: start this one without "
            "torchrun.",
            code=2,
        )


VERBS: dict[str, tuple[Callable[..., None], ...]] = {
    "Start here": (demo, doctor),
    "Your own data": (check, train, runs, suspects, review, audit, clean, predict, export),
    "Experiments": (tune, reproduce, report, noise),
}
for panel, verbs in VERBS.items():
    for verb in verbs:
        app.command(rich_help_panel=panel)(verb)
app.add_typer(data, name="data", rich_help_panel="Experiments")


def _print_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: str | None = None,
) -> None:
    """Print a warning of this package as a note, without the line of code that it comes from."""
    ours = category is UserWarning and filename.startswith(os.path.dirname(os.path.dirname(__file__)))
    text = f"Note: {message}\n" if ours else warnings.formatwarning(message, category, filename, lineno, line)
    (file or sys.stderr).write(text)


def main() -> None:
    """Run the console script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot print Greek letters gets "?"
    warnings.showwarning = _print_warning
    # Pillow warns of damaged EXIF and the like. Files that cannot be used are reported anyway.
    warnings.filterwarnings("ignore", module=r"PIL\.")
    if "OMP_WAIT_POLICY" not in os.environ:
        # torch's threads wait by spinning. If other programs use the cores, each short operation then waits for the
        # scheduler: 50 ms instead of 0.4. Sleeping threads avoid that. To be woken takes longer than the time between
        # two operations, so with libgomp they spin for that long first.
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
    with checked_output():
        app(prog_name="tnlpad")
