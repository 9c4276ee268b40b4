"""The launcher becomes the Go program: same process, same signals, same exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest


@pytest.fixture
def launch(root, tmp_path):
    """Return a function that starts `python -m smg` with a shell script as its program."""

    def start(script: str | None, *args: str, **env: str) -> subprocess.Popen:
        if script is not None:
            program = tmp_path / "smg"
            program.write_text("#!/bin/sh\n" + textwrap.dedent(script))
            program.chmod(0o755)
        environ = {k: v for k, v in os.environ.items() if not k.startswith("SMG_")}
        environ.update(PYTHONPATH=str(root / "python"), PYTHONDONTWRITEBYTECODE="1", SMG_BIN_DIR=str(tmp_path))
        environ.update(env)
        return subprocess.Popen(
            [sys.executable, "-m", "smg", *args],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def test_same_process_and_exit_code(launch):
    p = launch('echo "$$ $SMG_LAUNCHER"; exit 7')
    out, err = p.communicate(timeout=20)
    assert (out.split(), err, p.returncode) == ([str(p.pid), "python"], "", 7)


def test_arguments_pass_unchanged(launch):
    args = ["launch", "--worker-urls", "http://a b", "", "--", "-x"]
    p = launch('for a in "$@"; do echo "[$a]"; done', *args)
    assert p.communicate(timeout=20)[0].splitlines() == [f"[{a}]" for a in args]


@pytest.mark.parametrize(
    ("given", "want"), [({}, sys.executable), ({"SMG_ENGINE_PYTHON": "/opt/python"}, "/opt/python")]
)
def test_engine_python(launch, given, want):
    p = launch('echo "$SMG_ENGINE_PYTHON"', **given)
    assert p.communicate(timeout=20)[0].strip() == want


def test_signal_reaches_the_program(launch):
    p = launch("trap 'echo drained; exit 3' TERM; echo up; while :; do sleep 0.05; done")
    assert p.stdout.readline() == "up\n"
    p.send_signal(signal.SIGTERM)
    out, _ = p.communicate(timeout=20)
    assert (out, p.returncode) == ("drained\n", 3)


def test_missing_program(launch):
    p = launch(None)
    out, err = p.communicate(timeout=20)
    assert (out, p.returncode) == ("", 1)
    assert err.splitlines() == [
        "error: smg is missing: this copy of the package was built without binaries",
        "  hint: run make wheel or set SMG_BIN_DIR",
    ]


def test_program_of_another_system(launch, tmp_path):
    (tmp_path / "smg").write_bytes(b"\x7fELF not for here")
    (tmp_path / "smg").chmod(0o755)
    p = launch(None)
    _, err = p.communicate(timeout=20)
    assert p.returncode == 1
    assert err.startswith(f"error: cannot run {tmp_path / 'smg'}: ")
    assert "Traceback" not in err
