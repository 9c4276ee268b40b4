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

    def start(script: str | None, *args: str, module: str = "smg", **env: str) -> subprocess.Popen:
        if script is not None:
            program = tmp_path / "smg"
            program.write_text("#!/bin/sh\n" + textwrap.dedent(script))
            program.chmod(0o755)
        environ = {k: v for k, v in os.environ.items() if not k.startswith("SMG_")}
        environ.update(PYTHONPATH=str(root / "python"), PYTHONDONTWRITEBYTECODE="1", SMG_BIN_DIR=str(tmp_path))
        environ.update(env)
        return subprocess.Popen(
            [sys.executable, "-m", module, *args],
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


def ends(p: subprocess.Popen) -> tuple[int, str, str]:
    out, err = p.communicate(timeout=20)
    return p.returncode, out.strip(), err


GO = 'echo "$@"'


def lines(*args: str):
    """Parametrize by command lines, under names without blanks."""
    return pytest.mark.parametrize("args", args, ids=lambda line: line.replace(" ", "_"))


@lines(
    "launch --pd-disaggregation --decode-policy bucket",
    "--decode-policy=bucket",
    "start --decode_policy bucket --enable-igw",
    "serve --backend sim --router-decode-policy bucket",
)
def test_cli_32_bucket_decodes(launch, args):
    code, out, err = ends(launch(GO, *args.split()))
    assert (code, out) == (2, "")
    assert "invalid choice 'bucket'" in err
    assert "prefill-policy bucket" in err
    assert "passthrough" not in err


@lines(
    "launch --pd-disaggregation --policy bucket",
    "check --pd-disaggregation --policy bucket",
    "--pd-disaggregation --policy=bucket --prefill http://p 8998",
    "serve --prefill-replicas 2 --decode-replicas 2 --router-policy bucket",
    "serve --prefill-args --router-policy --router-policy bucket",
    "serve --prefill-args --help --router-policy bucket",
)
def test_cli_33_bucket_in_front_of_legs(launch, args):
    assert ends(launch(GO, *args.split()))[:2] == (2, "")


def test_cli_34_bucket_in_front_of_workers(launch):
    code, out, err = ends(launch(GO, "--worker-urls", "http://w1", "http://w2", "--policy", "bucket"))
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        "error: invalid choice 'bucket' (choose from random, round_robin, passthrough, cache_aware, "
        "power_of_two, least_load, prefix_hash, consistent_hashing, manual)",
        "  --policy bucket",
        "  hint: use --prefill-policy bucket: it serves the prefill leg only",
    ]


def test_cli_34_bucket_by_the_environment(launch):
    code, _, err = ends(launch(GO, "launch", SMG_FLAG_POLICY="bucket"))
    assert code == 2
    assert "  SMG_FLAG_POLICY=bucket\n" in err
    assert ends(launch(GO, "launch", "--policy", "random", SMG_FLAG_POLICY="bucket"))[0] == 0


@lines(
    "launch --pd-disaggregation --prefill-policy bucket --decode-policy power_of_two",
    "launch --policy random",
    "launch --policy bucket --policy random",  # the last counts here; the program refuses two
    "launch --policy bucket --help",
    "launch --help=policy --policy bucket",
    "launch --policy bucket -V",
    "check --pd-disaggregation --prefill-policy bucket",
    "launch --policy",
    "--cluster bucket",
    "serve --backend sim -- --router-policy bucket",
    "serve --backend sim --policy bucket",  # the program says to write --router-policy
    "serve --prefill-args --router-policy=bucket --decode-replicas 1",
    "selector --leg prefill --policy bucket",
    "sim --policy bucket",
    "",
)
def test_cli_32_what_the_program_judges(launch, args):
    assert ends(launch(GO, *args.split())) == (0, args, "")


@pytest.mark.parametrize("args", [["--policy", "bucket"], ["--policy=bucket"]])
def test_cli_76_launch_router_refuses(launch, args):
    assert ends(launch(GO, *args, module="smg.launch_router"))[:2] == (2, "")


def test_cli_76_launch_router_is_launch(launch):
    p = launch('echo "$$ $@"; exit 7', "--policy", "random", module="smg.launch_router")
    assert ends(p) == (7, f"{p.pid} launch --policy random", "")


@pytest.mark.parametrize(("module", "words"), [("smg.cli", ["--version"]), ("smg.serve", ["serve", "--help"]), ("smg.launch_router", ["launch", "--help"])])
def test_modules_are_commands(launch, module, words):
    assert ends(launch('echo "$@"', words[-1], module=module)) == (0, " ".join(words), "")
