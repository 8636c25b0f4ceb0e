"""A run of two epochs on digits, and the command line as tests call it."""

import json

from typer.testing import CliRunner

from tnlpad.cli import app

runner = CliRunner()


def asked(*words):
    return runner.invoke(app, [str(word) for word in words])


def trained_digits(out):
    """The folder of the run."""
    result = asked("train", "digits", "--set", "epochs=2", "--out", out, "--json", "-q")
    assert result.exit_code == 0, result.output
    return out / json.loads(result.stdout)["run_id"]
