"""`tnlpad review`: decide on labels on a page in the browser, which a server on this machine shows."""

import os
import signal
import sys
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

from tnlpad.cli.find_run import find_ranked_run
from tnlpad.cli.options import Quiet, Root, RunArgument, Runs
from tnlpad.cli.output import exit_codes, fail, say
from tnlpad.report.words import counted

if TYPE_CHECKING:
    from tnlpad.review.opened import Review

MAX_PORT = 65535


def review(
    run: RunArgument,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=MAX_PORT,
            help="Port to listen on (default: that of the last review, or a free one).",
        ),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address only.")] = False,
    runs: Runs = Path("runs"),
    root: Root = None,
    quiet: Quiet = False,
) -> None:
    """Review labels in the browser, and decide which are right.

    Prints the address of the page and serves it until Ctrl-C. Only this machine
    can open it. Each decision is on disk before the page shows it as saved, in
    the folder review of the run. Run the command again to continue.

    Example: tnlpad review RUN
    """
    from tnlpad.review.memory import share_memory_of_threads
    from tnlpad.review.opened import open_review

    share_memory_of_threads()
    found = find_ranked_run(run, runs)
    try:
        with exit_codes(), open_review(found, port=port, root=root, warn=partial(say, quiet=quiet)) as opened:
            typer.echo(opened.address)
            sys.stdout.flush()
            _open_browser(opened.address, not no_browser, quiet)
            _serve(opened)
    except OSError as error:
        reason = error.strerror or error
        if port is not None and error.filename is None:  # not of a file
            fail(f"--port {port}: cannot listen there ({reason}). Name another port, or leave --port out.", code=2)
        fail(
            f"the review in {found.folder.path} cannot be opened or written ({reason}). Free some space there, or copy "
            "the run's folder to a disk that you may write to, and review that one."
        )
    _say_goodbye(opened, quiet)


def _serve(opened: "Review") -> None:
    Thread(target=opened.read_ahead, daemon=True).start()  # while the browser starts
    # A request of the system to end counts like Ctrl-C, which a server in the background of a shell does not get.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        opened.server.serve_forever()
    except KeyboardInterrupt:
        return


def _open_browser(address: str, wanted: bool, quiet: bool) -> None:
    import webbrowser

    # Without a screen, the browser would be one for the terminal, in front of our messages.
    on_screen = sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    opened = wanted and bool(on_screen) and webbrowser.open(address)
    say(f"{'' if opened else 'Open the address in a browser. '}Press Ctrl-C to end the review.", quiet)


def _say_goodbye(opened: "Review", quiet: bool) -> None:
    decisions = len(opened.log.decided())
    if not decisions:
        say("No decisions.", quiet)
        return
    say(f"{counted(decisions, 'decision')}: {opened.table}", quiet)
    say(f"Next: {opened.command}", quiet)
