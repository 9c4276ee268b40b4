#!/bin/sh
# Records the help of the engines that are installed here, and fails if one of them says
# something else than what is recorded. Run from the top of the repository.
#   SMG_TEST_VLLM     vllm's program (default: that of make test-vllm)
#   SMG_TEST_ENGINE_BIN  llama-server (default: on PATH)
#   SMG_TEST_SGLANG   a wheel of sglang, or the site-packages where it is installed
set -eu
vllm=${SMG_TEST_VLLM:-.venv-vllm/bin/vllm}
llama=${SMG_TEST_ENGINE_BIN:-llama-server}
help=launcher/testdata/help
recorded=
if [ -x "$vllm" ]; then
	for file in test/vllm/testdata/serve-help-*.txt; do
		COLUMNS=80 "$vllm" serve --help=all >"$file"
	done
	recorded="$recorded vllm"
fi
if command -v "$llama" >/dev/null; then
	"$llama" --help >"$help/llama-server.txt" 2>/dev/null
	recorded="$recorded llama-server"
fi
if [ -n "${SMG_TEST_SGLANG:-}" ]; then
	"${PYTHON:-python3}" test/engines/sglang_flags.py "$SMG_TEST_SGLANG" >"$help/sglang.txt"
	recorded="$recorded sglang"
fi
echo "recorded:${recorded:- nothing, no engine is installed}"
git diff --exit-code --stat -- "$help" test/vllm/testdata
