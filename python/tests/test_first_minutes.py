"""The wheel as a new user meets it: command lines, the first answer, signals."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from programs import PATIENCE, Program, chat, environment, free_port, gone, listens, marked

linux = pytest.mark.skipif(sys.platform != "linux", reason="it looks at /proc or at addresses that only Linux has")
DRY = ("--policy", "cache_aware", "--worker-urls", "http://w1:8000", "http://w2:8000", "--dry-run")


def said(*argv: object, **env: str) -> tuple[int, str, str]:
    """Run a program to its end and return its exit code and what it printed."""
    done = subprocess.run(
        [str(a) for a in argv], env=environment(**env), capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def ways(venv, root) -> dict[str, list[object]]:
    """The ways to start smg: by the wheel, and without it."""
    (program,) = venv.glob("lib/python*/site-packages/smg/_bin/smg")
    return {
        "smg": [venv / "bin" / "smg"],
        "python -m smg": [venv / "bin" / "python", "-m", "smg"],
        "the binary": [program],
    }


def test_cli_2_bare_flags_from_the_wheel(ways):
    code, out, err = said(*ways["smg"], *DRY)
    assert (code, err) == (0, "")
    assert re.search(r"^mode +regular +", out, re.MULTILINE)
    assert re.search(r"^regular +policy cache_aware$", out, re.MULTILINE)
    assert re.findall(r"http://w\d:8000", out) == ["http://w1:8000", "http://w2:8000"]


PD = "--pd-disaggregation --prefill http://p1:8000 9001 --prefill http://p2:8000 none --decode http://d1:8000 --decode http://d2:8000"
MODES = {
    "regular": f"check {' '.join(DRY[:-1])}",
    "regular_bare": " ".join(DRY),
    "regular_launch": f"launch {' '.join(DRY)}",
    "prefill_decode": f"check {PD} --prefill-policy bucket --decode-policy power_of_two",
    "encode_prefill_decode": f"launch {PD.replace('--pd', '--epd')} --encode http://e1:8000 --topology split --dry-run",
    "roles": "serve --dry-run --backend sim --prefill-replicas 2 --decode-replicas 1 --encode-replicas 1 --router-policy least_load",
    "engines": "serve --dry-run --backend vllm --engine-python py --model m --dp-size 2 -- --max-model-len 4096",
    "refused": f"check {PD} --decode-policy power_of_two --policy power_of_two --worker-startup-timeout-secs 0 --cache-threshold 2",
    "unknown": "launch --polcy random",
}


@pytest.mark.parametrize("mode", MODES)
def test_field_ls_04_the_wheel_does_what_the_binary_does(ways, mode):
    args = MODES[mode].split()
    got = {name: said(*argv, *args) for name, argv in ways.items()}
    if args[0] == "launch":
        python = ways["python -m smg"][0]
        got["python -m smg.launch_router"] = said(python, "-m", "smg.launch_router", *args[1:])
    want = got["the binary"]
    assert want[1] or want[2]
    assert want[0] == {"refused": 1, "unknown": 2}.get(mode, 0)
    for name, have in got.items():
        assert have == want, name


@linux
def test_first_answer(wheel, tmp_path, capsys):
    """A clean environment, the two commands, and the line that the second one prints."""
    home, env = tmp_path / "home", tmp_path / "env"
    home.mkdir()
    clean = {"HOME": str(home), "PATH": "/usr/bin:/bin", "NO_COLOR": "1"}
    subprocess.run([sys.executable, "-m", "venv", env], env=clean, check=True)
    subprocess.run([env / "bin" / "pip", "install", "--quiet", "--no-index", "--no-cache-dir", wheel], env=clean, check=True)
    if shutil.which("curl", path=clean["PATH"]) is None:
        pytest.skip("this machine has no curl")
    ports = {"port": free_port(), "router-prometheus-port": 0, "worker-base-port": free_port()}
    args = [word for name, port in ports.items() for word in (f"--{name}", port)]

    began = time.monotonic()
    with Program(env / "bin" / "smg", "serve", "--backend", "sim", "--data-parallel-size", 4, *args, env=clean) as p:
        line = p.says(r"^try: +(curl .*)$")[1]
        ready = time.monotonic() - began
        done = subprocess.run(["sh", "-c", line], env=clean, capture_output=True, text=True, timeout=PATIENCE, check=False)
        took = time.monotonic() - began
        assert '"content":"' in done.stdout, done
        assert p.says(r"^ready +(.*), took")[1] == "4 of 4 workers"
        p.process.send_signal(signal.SIGINT)
        p.says("draining")
        time.sleep(0.55)  # one that comes at once would not count
        p.process.send_signal(signal.SIGINT)
        assert p.ends() == 130
    assert not list(home.iterdir()), "something was written into the home folder"
    with capsys.disabled():
        print(f" {ready:.2f} s to the line to try, {took:.2f} s to the first answer ", end="")
    if os.environ.get("SMG_TEST_TIMES"):
        assert took < 2


def test_the_launcher_is_quick(ways, capsys):
    def best(argv: list[object]) -> float:
        times = []
        for _ in range(5):
            began = time.monotonic()
            assert said(*argv, "--version")[0] == 0
            times.append(time.monotonic() - began)
        return min(times)

    more = best(ways["smg"]) - best(ways["the binary"])
    with capsys.disabled():
        print(f" {1000 * more:.0f} ms more than the program alone ", end="")
    if os.environ.get("SMG_TEST_TIMES"):
        assert more < 0.05


COMMANDS = [
    block.strip()
    for block in (pathlib.Path(__file__).parents[2] / "e2e" / "testdata" / "seed_commands.txt").read_text().split("\n\n")
    if not block.startswith("#")
]


def host(number: int) -> str:
    """Return an address of this test run's."""
    return f"127.{50 + os.getpid() // 250 % 50}.{os.getpid() % 250}.{number}"


HOSTS = {name: host(1 + i) for i, name in enumerate("w1 w2 prefill1 prefill2 decode1 decode2 worker1 worker2".split())}


@pytest.fixture(scope="module")
def named_engines(venv):
    """Simulated engines at the ports of the documentation, each at an address of its own."""
    (program,) = venv.glob("lib/python*/site-packages/smg/_bin/smg-sim")
    sets = {
        "w": [],
        "prefill": ["--disaggregation-mode", "prefill", "--disaggregation-bootstrap-port", 9001],
        "decode": ["--disaggregation-mode", "decode"],
    }
    running = []
    for name, flags in sets.items():
        at = [f"--listen={HOSTS[f'{name}{i}']}:8000" for i in (1, 2)]
        running.append(Program(program, "--time-scale", 0, *at, *flags))
        running[-1].says("^listening on ")
    yield
    for p in running:
        p.__exit__()


@linux
@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: "_".join(re.findall(r"policy (\w+)", c)))
def test_documented_command_lines(venv, named_engines, command):
    assert len(COMMANDS) == 11
    line = re.sub(r"(?<=//)\w+(?=:)", lambda name: HOSTS[name[0]], command)
    env = environment(
        PATH=f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}", SMG_FLAG_HOST="127.0.0.1", SMG_FLAG_PORT=str(free_port()),
        SMG_FLAG_PROMETHEUS_HOST="127.0.0.1", SMG_FLAG_PROMETHEUS_PORT="0", SMG_FLAG_SHUTDOWN_GRACE_PERIOD_SECS="1",
    )  # fmt: skip
    with Program("sh", "-c", f"exec {line}", env=env) as p:
        if "grpc://" in line:
            assert p.ends() == 1
            p.says("gRPC engines are not supported yet")
            return
        p.says("^ready ")
        for policy in re.findall(r"policy (\w+)", command):
            p.says(rf"policy {policy}\b")
        assert chat(p.says(r"^api +(http://\S+)")[1])
        p.process.send_signal(signal.SIGTERM)
        assert p.ends() == 0


def gateway(venv, mark: str, *argv: object) -> tuple[Program, int]:
    """Start a gateway or engines by the wheel, marked for [gone], and return it with its port."""
    port = free_port()
    name, value = mark.split("=")
    env = environment(SMG_FLAG_PROMETHEUS_HOST="127.0.0.1", **{name: value})
    return Program(*argv, "--host", "127.0.0.1", "--port", port, env=env), port


@linux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("topology", ["single", "split"])
def test_field_ls_05_signals_reach_the_gateway(venv, number, topology):
    mark = f"PYTEST_FAMILY={os.getpid()}_launch_{topology}_{number}"
    flags = ["--prometheus-port", 0, "--shutdown-grace-period-secs", 1, "--topology", topology]
    p, port = gateway(venv, mark, venv / "bin" / "smg", "launch", *flags)
    with p:
        p.says("^api ")
        assert listens(port)
        p.process.send_signal(number)
        assert p.ends() == 0
        assert not listens(port)
        assert gone(mark) == {}


@linux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_field_ls_05_signals_reach_engines(venv, number):
    mark = f"PYTEST_FAMILY={os.getpid()}_serve_{number}"
    flags = ["--router-prometheus-port", 0, "--router-shutdown-grace-period-secs", 1, "--worker-base-port", free_port()]
    p, port = gateway(venv, mark, venv / "bin" / "smg", "serve", "--backend", "sim", "--dp-size", 2, *flags)
    with p:
        p.says("^try: ")
        assert len([line for line in marked(mark).values() if "--port" in line]) >= 3, marked(mark)
        p.process.send_signal(number)
        assert p.ends() == 128 + number
        assert not listens(port)
        assert gone(mark) == {}


def test_cli_76_the_wheel_becomes_the_gateway(venv):
    python = venv / "bin" / "python"
    for args in (["--policy", "bucket"], ["--policy=bucket"]):
        code, out, err = said(python, "-m", "smg.launch_router", *args)
        assert (code, out) == (2, "")
        assert "invalid choice 'bucket'" in err

    port = free_port()
    flags = ["--host", "127.0.0.1", "--port", port, "--prometheus-host", "127.0.0.1", "--prometheus-port", 0]
    with Program(python, "-m", "smg.launch_router", *flags, "--shutdown-grace-period-secs", 2) as p:
        p.says("^api ")
        if sys.platform == "linux":
            exe = pathlib.Path(f"/proc/{p.process.pid}/exe").resolve()
            assert exe.parts[-3:] == ("smg", "_bin", "smg"), "the process is another program than the gateway"
        p.process.send_signal(signal.SIGTERM)
        p.says("draining")
        assert p.ends() == 0
    with Program(python, "-m", "smg.launch_router", *flags, "--port", port) as p:
        assert p.ends() == 2  # the flag is there twice
