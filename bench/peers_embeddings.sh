#!/bin/sh
# Install the peer that `hark bench text` measures embeddings against, in a virtual environment of its own. It needs torch: where a
# build of it for the processor alone is at hand (an index of one's own) several GB are saved.
#
# HARK_BENCH_EMBEDDINGS_VENV  another place for the environment
set -eu

bench=$(cd "$(dirname "$0")" && pwd)
venv=${HARK_BENCH_EMBEDDINGS_VENV:-$bench/.venv-embeddings}
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$bench/requirements-embeddings.txt"
"$venv/bin/python" -m pip freeze | grep -iE '^(sentence-transformers|torch)' || true
