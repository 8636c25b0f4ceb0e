import os
import subprocess
import sys
import typing

from typer.models import OptionInfo
from typer.testing import CliRunner

import tnlpad
import tnlpad.cli as cli
from tnlpad.cli import app


def test_version():
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"tnlpad {tnlpad.__version__}\n")


def test_help_names_every_verb():
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    for verb in ("demo", "doctor"):
        assert verb in result.stdout


def test_unknown_verb_is_wrong_usage():
    result = CliRunner().invoke(app, ["dmeo"])
    assert result.exit_code == 2
    assert "dmeo" in result.stderr


def test_a_terminal_without_greek_letters_is_no_reason_to_fail():
    code = "import sys; sys.argv = ['tnlpad', 'σ']; from tnlpad.cli import main; main()"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


def test_python_m_tnlpad():
    output = subprocess.check_output([sys.executable, "-m", "tnlpad", "--version"], text=True)
    assert output == f"tnlpad {tnlpad.__version__}\n"


def test_threads_sleep_while_they_wait_unless_told_otherwise(monkeypatch):
    monkeypatch.setattr(cli, "app", lambda prog_name: None)
    for before, after in ((None, "PASSIVE"), ("ACTIVE", "ACTIVE")):
        monkeypatch.setenv("OMP_WAIT_POLICY", "")  # recorded, so that it is undone
        monkeypatch.delenv("OMP_WAIT_POLICY")
        if before is not None:
            monkeypatch.setenv("OMP_WAIT_POLICY", before)
        cli.main()
        assert os.environ["OMP_WAIT_POLICY"] == after


def test_no_option_is_renamed_by_its_placeholder():
    """In typer 0.27 an option without a written name takes that of a placeholder that differs only in its case."""
    groups = [app, *(group.typer_instance for group in app.registered_groups)]
    commands = [command.callback for group in groups for command in group.registered_commands]
    assert len(commands) > 10
    for command in commands:
        for name, hint in typing.get_type_hints(command, include_extras=True).items():
            for option in (each for each in typing.get_args(hint)[1:] if isinstance(each, OptionInfo)):
                named = isinstance(option.default, str)  # where typer keeps the first name within `Annotated`
                assert named or (option.metavar or "").lower() != name, f"{command.__name__}: --{name}"
