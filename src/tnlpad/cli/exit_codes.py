"""What goes wrong with a run, as a line on stderr and an exit code."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from tnlpad.cli.output import fail, say


@contextmanager
def exit_codes() -> Iterator[None]:
    """Within the block an error that a person can do something about ends the command: 3 for data, 2 for usage."""
    from tnlpad.data.errors import DataError
    from tnlpad.noise.errors import NoiseDataError
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
