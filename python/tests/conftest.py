"""A wheel built from this checkout, and an environment that has nothing but it."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def build_wheel(out: pathlib.Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    """Build the wheel of the checkout into out; nothing is fetched."""
    return subprocess.run(
        [
            sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
            "--no-index", "--wheel-dir", str(out), str(ROOT),
        ],
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip


def built(out: pathlib.Path, env: dict[str, str] | None = None) -> pathlib.Path:
    """Build the wheel and return its path."""
    done = build_wheel(out, env)
    assert done.returncode == 0, done.stdout + done.stderr
    wheels = list(out.glob("*.whl"))
    assert len(wheels) == 1, wheels
    return wheels[0]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> pathlib.Path:
    """The wheel for this machine, its programs built by the Go tool."""
    environ = dict.fromkeys(("SMG_BIN_DIR", "GOOS", "GOARCH"), "")
    return built(tmp_path_factory.mktemp("wheel"), environ)


@pytest.fixture(scope="session")
def venv(wheel, tmp_path_factory) -> pathlib.Path:
    """A virtual environment with the wheel installed and no package index to ask."""
    path = tmp_path_factory.mktemp("venv") / "env"
    subprocess.run([sys.executable, "-m", "venv", str(path)], check=True)
    subprocess.run(
        [str(path / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-index", str(wheel)], check=True
    )
    return path


@pytest.fixture(scope="session")
def version() -> str:
    """The version as the source tree has it."""
    return (ROOT / "cmd" / "internal" / "version" / "VERSION").read_text(encoding="utf-8").strip()


@pytest.fixture(scope="session")
def root() -> pathlib.Path:
    return ROOT
