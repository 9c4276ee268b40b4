"""The wheel: what is in it, and that it installs and runs. Numbers are those of the
specification's cases about the package."""

from __future__ import annotations

import base64
import csv
import email
import hashlib
import io
import platform
import struct
import subprocess
import sys
import zipfile

import pytest

from conftest import build_wheel, built

PROGRAMS = ("smg", "smg-ingress", "smg-selector", "smg-sim")
linux_amd64 = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="the name is that of linux/amd64"
)


def output(*argv: object) -> str:
    return subprocess.run([str(a) for a in argv], check=True, capture_output=True, text=True).stdout


def test_cli_73_installs_without_an_index_and_alone(venv, version):
    assert output(venv / "bin" / "smg", "--version") == f"smg {version}\n"
    assert output(venv / "bin" / "python", "-m", "smg", "--version") == f"smg {version}\n"
    names = output(venv / "bin" / "python", "-m", "pip", "list", "--format", "freeze")
    got = {line.partition("==")[0] for line in names.splitlines()}
    assert got - {"pip", "setuptools", "wheel"} == {"smg"}


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


@linux_amd64
def test_cli_75_name(wheel, version):
    assert wheel.name == f"smg-{version}-py3-none-manylinux_2_17_x86_64.musllinux_1_1_x86_64.whl"


def test_cli_75_record_is_complete(wheel):
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


def test_cli_75_programs_are_executable_and_static(wheel):
    with zipfile.ZipFile(wheel) as z:
        got = {n.rpartition("/")[2] for n in z.namelist() if n.startswith("smg/_bin/")}
        assert got == set(PROGRAMS)
        for program in PROGRAMS:
            assert z.getinfo(f"smg/_bin/{program}").external_attr >> 16 & 0o777 == 0o755
            data = z.read(f"smg/_bin/{program}")
            if data.startswith(b"\x7fELF"):
                assert not segments(data) & {PT_DYNAMIC, PT_INTERP}, program


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


def test_source_checkout_knows_its_version(root, version):
    code = f"import sys; sys.path.insert(0, {str(root / 'python')!r}); import smg; print(smg.__version__)"
    assert output(sys.executable, "-B", "-S", "-c", code).strip() == version


def test_cli_34_launcher_knows_the_policies_of_the_program(venv):
    code = "from smg._check import POLICIES; print(*POLICIES, sep=', ')"
    names = output(venv / "bin" / "python", "-c", code).strip()
    done = subprocess.run([venv / "bin" / "smg", "launch", "--policy", "fastest"], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == f"  hint: use one of {names}"
