"""The wheel: what is in it, and that it installs and runs. Numbers are those of the
specification's cases about the package."""

from __future__ import annotations

import base64
import csv
import email
import hashlib
import importlib
import io
import os
import pathlib
import platform
import struct
import subprocess
import sys
import zipfile

import pytest

from conftest import build_wheel, built

PROGRAMS = ("smg", "smg-ingress", "smg-selector", "smg-sim")

def output(*argv: object) -> str:
    return subprocess.run([str(a) for a in argv], check=True, capture_output=True, text=True).stdout


def test_cli_73_installs_without_an_index_and_alone(venv, version):
    assert output(venv / "bin" / "smg", "--version") == f"smg {version}\n"
    python = venv / "bin" / "python"
    assert output(python, "-m", "smg", "--version") == f"smg {version}\n"
    assert output(python, "-m", "smg.launch_router", "--help").startswith("Usage: smg launch ")
    names = output(python, "-m", "pip", "list", "--format", "freeze")
    got = {line.partition("==")[0] for line in names.splitlines()}
    assert got - {"pip", "setuptools", "wheel"} == {"smg"}


def installed(source: object, out: pathlib.Path) -> str:
    """Install what pip is given into a folder, nothing fetched, and return the version that it then says."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([*pip, "--target", str(out), str(source)], env=BUILD, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return subprocess.run(
        [sys.executable, "-m", "smg", "--version"], env={**BUILD, "PYTHONPATH": str(out)}, capture_output=True, text=True, check=True
    ).stdout


# What a build looks at is what it finds by itself.
BUILD = {**os.environ, "SMG_BIN_DIR": "", "GOOS": "", "GOARCH": ""}


def test_cli_74_installs_from_a_checkout(root, tmp_path, version):
    assert installed(root, tmp_path) == f"smg {version}\n"


def test_cli_74_installs_from_its_sources_alone(root, tmp_path, version):
    argv = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(argv, cwd=root, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    assert archive.name == f"smg-{version}.tar.gz"
    assert installed(archive, tmp_path / "out") == f"smg {version}\n"


def test_cli_74_without_go_and_without_programs_one_line(tmp_path):
    done = build_wheel(tmp_path, {"PATH": "", "SMG_BIN_DIR": ""})
    assert done.returncode != 0
    said = [line.strip() for line in (done.stdout + done.stderr).splitlines() if "Go tool" in line]
    assert said == ["error: building smg needs the Go tool on PATH, or SMG_BIN_DIR with ready programs"]
    assert "Traceback" not in done.stdout + done.stderr


def test_cli_74_ready_programs_need_no_go(tmp_path):
    ready = tmp_path / "ready"
    ready.mkdir()
    for program in PROGRAMS:
        (ready / program).write_text(f"#!/bin/sh\necho {program}\n")
    wheel = built(tmp_path / "out", {"PATH": "", "SMG_BIN_DIR": str(ready), "GOOS": "darwin", "GOARCH": "arm64"})
    assert wheel.name.endswith("-py3-none-macosx_12_0_arm64.whl")
    with zipfile.ZipFile(wheel) as z:
        for program in PROGRAMS:
            assert z.read(f"smg/_bin/{program}") == (ready / program).read_bytes()
            assert z.getinfo(f"smg/_bin/{program}").external_attr >> 16 & 0o777 == 0o755

    (ready / "smg-sim").unlink()
    done = build_wheel(tmp_path / "out2", {"SMG_BIN_DIR": str(ready)})
    assert done.returncode != 0
    assert f"error: SMG_BIN_DIR: no smg-sim in {ready}" in done.stdout + done.stderr


@pytest.fixture(scope="session")
def wheels(wheel, tmp_path_factory) -> dict[str, pathlib.Path]:
    """The wheels for both kinds of Linux machines, of which this one is built for one at most."""
    all = {}
    for arch in ("amd64", "arm64"):
        out = tmp_path_factory.mktemp(arch)
        all[arch] = wheel if MACHINE == ("Linux", arch) else built(out, {"SMG_BIN_DIR": "", "GOOS": "linux", "GOARCH": arch})
    return all


MACHINE = (platform.system(), {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine()))
architectures = pytest.mark.parametrize("arch", ["amd64", "arm64"])


@architectures
def test_cli_75_name(wheels, version, arch):
    machine = {"amd64": "x86_64", "arm64": "aarch64"}[arch]
    assert wheels[arch].name == f"smg-{version}-py3-none-manylinux_2_17_{machine}.musllinux_1_1_{machine}.whl"


@architectures
def test_cli_75_record_is_complete(wheels, arch):
    wheel = wheels[arch]
    with zipfile.ZipFile(wheel) as z:
        names = set(z.namelist())
        (record,) = (n for n in names if n.endswith(".dist-info/RECORD"))
        rows = list(csv.reader(io.StringIO(z.read(record).decode())))
        assert {row[0] for row in rows} == names
        for name, digest, size in rows:
            if name == record:
                continue
            data = z.read(name)
            want = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert digest == f"sha256={want}", name
            assert int(size) == len(data), name


def test_cli_75_metadata(wheel, version):
    with zipfile.ZipFile(wheel) as z:
        names = z.namelist()
        metadata = email.message_from_bytes(z.read(f"smg-{version}.dist-info/METADATA"))
        tags = email.message_from_bytes(z.read(f"smg-{version}.dist-info/WHEEL"))
    assert metadata["Version"] == version
    assert metadata.get_all("Requires-Dist") is None
    assert tags["Root-Is-Purelib"] == "false"
    assert f"smg-{version}.dist-info/licenses/LICENSE" in names
    assert not [n for n in names if n.endswith((".go", ".pyc")) or "hatch_build" in n]


@architectures
def test_cli_75_programs_are_executable_and_static(wheels, arch):
    with zipfile.ZipFile(wheels[arch]) as z:
        got = {n.rpartition("/")[2] for n in z.namelist() if n.startswith("smg/_bin/")}
        assert got == set(PROGRAMS)
        for program in PROGRAMS:
            assert z.getinfo(f"smg/_bin/{program}").external_attr >> 16 & 0o777 == 0o755
            data = z.read(f"smg/_bin/{program}")
            assert data[:6] == b"\x7fELF\x02\x01", program  # 64 bits, little-endian
            assert struct.unpack_from("<H", data, 18) == (MACHINES[arch],), program
            assert not segments(data) & {PT_DYNAMIC, PT_INTERP}, program


MACHINES = {"amd64": 62, "arm64": 183}
PT_DYNAMIC, PT_INTERP = 2, 3


def segments(elf: bytes) -> set[int]:
    """Return the segment types of a 64-bit little-endian ELF file."""
    (offset,) = struct.unpack_from("<Q", elf, 32)
    size, count = struct.unpack_from("<HH", elf, 54)
    return {struct.unpack_from("<I", elf, offset + i * size)[0] for i in range(count)}


def test_cli_75_two_builds_are_equal(wheel, tmp_path):
    again = built(tmp_path, dict.fromkeys(("SMG_BIN_DIR", "GOOS", "GOARCH"), ""))
    assert again.name == wheel.name
    same = again.read_bytes() == wheel.read_bytes()  # not in the assert: a report of the difference takes minutes
    assert same, "two builds differ; did a source file change in between?"


def test_cli_77_versions_agree(venv, version):
    inside = output(venv / "bin" / "python", "-c", "import smg; print(smg.__version__)").strip()
    assert inside == version
    assert output(venv / "bin" / "smg", "--version").split() == ["smg", inside]


def test_cli_77_another_version_is_refused(venv, version):
    code = "import smg; smg.__version__ = '99.0.0'; from smg.cli import start; start(['--version'])"
    done = subprocess.run([venv / "bin" / "python", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[0] == f"error: these programs are version {version}, the Python package smg is 99.0.0"


def test_what_is_made_from_the_flags_is_current(venv, root):
    document = output(venv / "bin" / "smg", "flags", "--json")
    sys.path.insert(0, str(root / "python"))
    try:
        generate = importlib.import_module("generate")
    finally:
        sys.path.pop(0)
    before = (root / "python" / "smg" / "_fields.py").read_text(encoding="utf-8")
    for name, want in generate.modules(document, before).items():
        have = (root / "python" / "smg" / name).read_text(encoding="utf-8")
        assert have == want, f"{name} is old: run make golden"


def test_source_checkout_knows_its_version(root, version):
    code = f"import sys; sys.path.insert(0, {str(root / 'python')!r}); import smg; print(smg.__version__)"
    assert output(sys.executable, "-B", "-S", "-c", code).strip() == version
