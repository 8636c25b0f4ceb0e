"""Run the command `tnlpad`: its console script, and `python -m tnlpad`."""

from tnlpad.interrupts import INTERRUPTED, end_interrupted, leave_when_interrupted


def main() -> None:
    """Load the command, which takes a moment, and run it."""
    leave_when_interrupted()
    from tnlpad.cli import main as run

    try:
        run()
    except SystemExit as ending:
        if ending.code == INTERRUPTED:
            end_interrupted()
        raise


if __name__ == "__main__":
    main()
