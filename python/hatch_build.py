"""The build hook of the wheel: builds the Go programs and puts them into smg/_bin.

GOOS and GOARCH choose the target (default: this machine). With SMG_BIN_DIR set,
ready programs are taken from there and no Go is needed. Two builds of one commit
are byte for byte the same.
"""

from __future__ import annotations

import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAMS = ("smg", "smg-ingress", "smg-selector", "smg-sim")
VERSION_VARIABLE = "smg/cmd/internal/version.Version"

# The programs are static, so the glibc and musl levels are nominal. The macOS floor
# is that of Go 1.26.
PLATFORMS = {
    ("linux", "amd64"): "manylinux_2_17_x86_64.musllinux_1_1_x86_64",
    ("linux", "arm64"): "manylinux_2_17_aarch64.musllinux_1_1_aarch64",
    ("darwin", "amd64"): "macosx_12_0_x86_64",
    ("darwin", "arm64"): "macosx_12_0_arm64",
}
MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


class BuildError(SystemExit):
    """Ends the build with one line and no traceback."""

    def __init__(self, what: str) -> None:
        print(f"error: {what}", file=sys.stderr)
        super().__init__(1)


def target(environ: dict[str, str]) -> tuple[str, str]:
    """Return GOOS and GOARCH of the build."""
    machine = platform.machine().lower()
    goos = environ.get("GOOS") or platform.system().lower()
    goarch = environ.get("GOARCH") or MACHINES.get(machine, machine)
    return goos, goarch


def wheel_tag(goos: str, goarch: str) -> str:
    """Return the tag of a wheel for a target; no wheel is made for one without."""
    try:
        return f"py3-none-{PLATFORMS[goos, goarch]}"
    except KeyError:
        known = ", ".join("/".join(p) for p in PLATFORMS)
        raise BuildError(f"no wheel for {goos}/{goarch}; known: {known}") from None


def stamping(root: str) -> str:
    """Return the -buildvcs setting: off where git cannot say what is checked out.

    Left to itself the Go tool fails there, as in a checkout owned by another user.
    """
    try:
        git = subprocess.run(["git", "-C", root, "rev-parse", "HEAD"], capture_output=True, check=False)
    except OSError:
        return "-buildvcs=false"
    return "-buildvcs=auto" if git.returncode == 0 else "-buildvcs=false"


def compile_programs(root: str, out: pathlib.Path, version: str, goos: str, goarch: str) -> None:
    """Build the programs into out. Raises BuildError when there is no Go tool or it fails."""
    go = shutil.which("go")
    if go is None:
        raise BuildError("building smg needs the Go tool on PATH, or SMG_BIN_DIR with ready programs")
    argv = [
        go, "build", "-trimpath", stamping(root),
        "-ldflags", f"-s -w -X {VERSION_VARIABLE}={version}",
        "-o", f"{out}{os.sep}", *(f"./cmd/{p}" for p in PROGRAMS),
    ]  # fmt: skip
    environ = {**os.environ, "CGO_ENABLED": "0", "GOOS": goos, "GOARCH": goarch}
    if subprocess.run(argv, cwd=root, env=environ, check=False).returncode != 0:
        raise BuildError("go build failed, see above")


def take_programs(source: str, out: pathlib.Path) -> None:
    """Copy ready programs into out. Raises BuildError when one is missing."""
    for program in PROGRAMS:
        path = pathlib.Path(source) / program
        if not path.is_file():
            raise BuildError(f"SMG_BIN_DIR: no {program} in {source}")
        shutil.copyfile(path, out / program)


class CustomBuildHook(BuildHookInterface):
    """Adds the programs and the version module to a wheel."""

    work: pathlib.Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Prepare the files; called by hatchling before it collects the package."""
        if version == "editable":
            return  # the sources stay where they are: SMG_BIN_DIR names the programs
        goos, goarch = target(dict(os.environ))
        build_data["pure_python"] = False
        build_data["tag"] = wheel_tag(goos, goarch)

        self.work = pathlib.Path(tempfile.mkdtemp(prefix="smg-wheel-"))
        try:
            self.prepare(self.work, build_data["force_include"], goos, goarch)
        except BaseException:
            shutil.rmtree(self.work, ignore_errors=True)
            raise

    def prepare(self, work: pathlib.Path, include: dict[str, str], goos: str, goarch: str) -> None:
        """Make the files in work and say under which names the wheel includes them."""
        number = self.metadata.version
        if ready := os.environ.get("SMG_BIN_DIR"):
            take_programs(ready, work)
        else:
            compile_programs(self.root, work, number, goos, goarch)
        for program in PROGRAMS:
            (work / program).chmod(0o755)
            include[str(work / program)] = f"smg/_bin/{program}"
        module = work / "_version.py"
        module.write_text(f'"""Written by the build."""\n\n__version__ = "{number}"\n', encoding="utf-8")
        module.chmod(0o644)
        include[str(module)] = "smg/_version.py"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the prepared files; called by hatchling once the wheel is written."""
        del version, build_data, artifact_path
        if self.work is not None:
            shutil.rmtree(self.work, ignore_errors=True)
