"""Run the command `tnlpad` as `python -m tnlpad`."""

from tnlpad.cli import main

if __name__ == "__main__":
    main()
