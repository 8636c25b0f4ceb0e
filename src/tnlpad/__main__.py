"""`python -m tnlpad` is the command `tnlpad`."""

from tnlpad.cli import main

if __name__ == "__main__":
    main()
