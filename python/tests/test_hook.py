"""The build hook's choices, without a build."""

from __future__ import annotations

import importlib.util
import pathlib

import pytest

spec = importlib.util.spec_from_file_location(
    "hatch_build", pathlib.Path(__file__).resolve().parents[1] / "hatch_build.py"
)
hook = importlib.util.module_from_spec(spec)
spec.loader.exec_module(hook)


@pytest.mark.parametrize(
    ("goos", "goarch", "want"),
    [
        ("linux", "amd64", "py3-none-manylinux_2_17_x86_64.musllinux_1_1_x86_64"),
        ("linux", "arm64", "py3-none-manylinux_2_17_aarch64.musllinux_1_1_aarch64"),
        ("darwin", "amd64", "py3-none-macosx_12_0_x86_64"),
        ("darwin", "arm64", "py3-none-macosx_12_0_arm64"),
    ],
)
def test_tag(goos, goarch, want):
    assert hook.wheel_tag(goos, goarch) == want


def test_no_wheel_for_other_systems(capsys):
    with pytest.raises(SystemExit):
        hook.wheel_tag("windows", "amd64")
    assert capsys.readouterr().err.startswith("error: no wheel for windows/amd64; known: linux/amd64, ")


def test_target(monkeypatch):
    monkeypatch.setattr(hook.platform, "system", lambda: "Linux")
    monkeypatch.setattr(hook.platform, "machine", lambda: "x86_64")
    assert hook.target({}) == ("linux", "amd64")
    assert hook.target({"GOOS": "", "GOARCH": ""}) == ("linux", "amd64")
    assert hook.target({"GOOS": "darwin", "GOARCH": "arm64"}) == ("darwin", "arm64")
    monkeypatch.setattr(hook.platform, "machine", lambda: "aarch64")
    assert hook.target({}) == ("linux", "arm64")


def test_stamping(tmp_path):
    assert hook.stamping(str(tmp_path)) == "-buildvcs=false"
