import os
import subprocess
import sys
import typing

import pytest
from typer.models import OptionInfo
from typer.testing import CliRunner

import tnlpad
import tnlpad.cli as cli
from tests.suspects.made import made_run
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


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": cli.SPINS}),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, {"OMP_WAIT_POLICY": "ACTIVE"}),
        ({"GOMP_SPINCOUNT": "7"}, {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "7"}),
    ],
)
def test_threads_spin_briefly_and_then_sleep_unless_told_otherwise(before, after, monkeypatch):
    monkeypatch.setattr(cli, "app", lambda prog_name: None)
    monkeypatch.setattr(os, "environ", dict(before))
    cli.main()
    assert os.environ == after


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


def interrupted(folder, code):
    """Run a module that interrupts itself, as `python -m tnlpad` is run; return its exit code and stderr."""
    code = f"import os, signal; stop = lambda *_: os.kill(os.getpid(), signal.SIGINT)\n{code}"
    (folder / "interrupting.py").write_text(code)
    words = [sys.executable, "-m", "interrupting"]
    ended = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return ended.returncode, ended.stderr


@pytest.mark.parametrize(
    "moment",
    [
        "class Find:\n def find_spec(self, name, *_):\n  if name == 'typer': stop()\nsys.meta_path.insert(0, Find())",
        "import typer.main; typer.main.get_command = stop",
        "import tnlpad.cli.runs; tnlpad.records.store.find_runs = stop",
        "def lost(*_):\n try: stop()\n except KeyboardInterrupt: pass\n raise ValueError('of a library')\n"
        "tnlpad.records.store.find_runs = lost",
        "tnlpad.records.store.find_runs = lambda *_: exec('stop()', {'stop': stop})",
        "open('slow.py', 'w').write('import os\\ntry: stop()\\nexcept KeyboardInterrupt: os.abort()')\n"
        "import builtins; builtins.stop = stop; import time\n"
        "tnlpad.records.store.find_runs = lambda *_: __import__('slow') and time.sleep(30)",
        "import atexit; tnlpad.records.store.find_runs = lambda *_: atexit.register(stop) and []",
    ],
    ids=[
        "while it is imported",
        "while it is set up",
        "while a verb runs",
        "lost in a library",
        "in compiled text",
        "while a verb imports a library",
        "while it ends",
    ],
)
def test_an_interrupt_is_130_and_one_line_at_any_moment(moment, tmp_path):
    code = f"import sys; sys.argv = ['tnlpad', 'runs', {str(tmp_path)!r}]\n"
    code += "import tnlpad.records.store\n" + moment + "\nfrom tnlpad.__main__ import main; main()"
    ended, errors = interrupted(tmp_path, code)
    assert (ended, errors.splitlines()[-1], errors.count("\n")) == (130, "Interrupted.", 1 + ("no runs" in errors))


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-"])
@pytest.mark.parametrize(
    "moment", ["import typer.main; typer.main.get_command = stop", "tnlpad.records.store.find_runs = stop"]
)
def test_an_interrupt_is_130_without_a_stream_to_tell_it_on(closed, moment, tmp_path):
    code = "import os, signal, sys; stop = lambda *_: os.kill(os.getpid(), signal.SIGINT)\n"
    code += f"sys.argv = ['tnlpad', 'runs', '.']; import tnlpad.records.store; {moment}\n"
    (tmp_path / "interrupting.py").write_text(f"{code}from tnlpad.__main__ import main; main()")
    words = f"{sys.executable} -m interrupting {closed}"
    assert subprocess.run(words, shell=True, cwd=tmp_path, timeout=60, check=False).returncode == 130


def test_an_interrupt_while_python_cleans_up_changes_nothing(tmp_path):
    code = f"import sys; sys.argv = ['tnlpad', 'runs', {str(tmp_path)!r}]\n"
    code += "class Last:\n def __del__(self):\n  stop()\n  os.write(2, b'survived')\n"
    code += "last = Last()\nfrom tnlpad.__main__ import main; main()"
    ended, errors = interrupted(tmp_path, code)
    assert ended == 0
    assert errors.endswith("survived")


def test_an_interrupt_in_a_library_that_raises_its_own_error_is_one(monkeypatch):
    def save(*_):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise RuntimeError("unexpected pos 64 vs 0") from error

    monkeypatch.setattr("tnlpad.records.store.find_runs", save)
    result = CliRunner().invoke(app, ["runs", "."])
    assert (result.exit_code, result.stderr) == (130, "Interrupted.\n")


def ended(words, redirection, **environment):
    """Run a command as a shell does, and return the exit codes of its pipe and what it says on stderr."""
    line = f"{sys.executable} -m tnlpad {words} {redirection}; echo ${{PIPESTATUS[@]}} >&2"
    result = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=120, check=False, env=os.environ | environment
    )
    *said, codes = result.stderr.splitlines()
    return codes, said


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", ["--help", "runs {}", "runs {} --json", "suspects {}", "suspects {} --json"])
def test_a_full_disk_below_the_output_is_one_line(tmp_path, words, unbuffered):
    made_run(tmp_path / "run")
    words = words.format(tmp_path / "run" if words.startswith("suspects") else tmp_path)
    code, said = ended(words, "> /dev/full", PYTHONUNBUFFERED=unbuffered)
    assert (code, said[-1][:54]) == ("1", "Error: cannot write the output (No space left on devic")
    assert not any("Traceback" in line or "ignored" in line for line in said)


@pytest.mark.parametrize(
    ("words", "reader", "codes"), [("--help", "| true", "1 0"), ("doctor --json", "| head -1", "0 0")]
)
def test_a_reader_that_has_seen_enough_is_no_error(words, reader, codes):
    found, said = ended(words, reader)
    assert found == codes
    assert not any("rror" in line for line in said)


def test_closed_output_is_no_error(tmp_path):
    for words in ("data list", f"runs {tmp_path}"):
        assert ended(words, ">&-") == ended(words, "> /dev/null")
