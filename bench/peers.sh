#!/bin/sh
# Install the peers that `hark bench transcribe` measures against, in a virtual environment of their own, and give
# whisper.cpp and OpenVINO their forms of the weights. Nothing outside bench/.venv and bench/out is touched.
#
#   bench/peers.sh [MODEL …]        default: whisper-base
#
# HARK_BENCH_VENV  another place for the environment
# HARK_MODELS      where Hark keeps its models (as for hark itself)
set -eu

bench=$(cd "$(dirname "$0")" && pwd)
venv=${HARK_BENCH_VENV:-$bench/.venv}
models=${HARK_MODELS:-${XDG_CACHE_HOME:-$HOME/.cache}/hark/models}
[ $# -gt 0 ] || set -- whisper-base

[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$bench/requirements.txt"
# OpenVINO has no wheels for some machines: the rest must not fail with it.
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$bench/requirements-openvino.txt" ||
    echo "OpenVINO GenAI does not install here: it will be reported as not run" >&2

for model in "$@"; do
    if [ ! -f "$models/$model/model.bin" ]; then
        echo "$model is not in $models; fetch it with: hark models pull $model" >&2
        exit 1
    fi
    [ -f "$bench/out/ggml-$model.bin" ] || "$venv/bin/python" "$bench/ct2_to_ggml.py" "$models/$model" "$bench/out/ggml-$model.bin"
    if "$venv/bin/python" -c 'import openvino_genai' 2>/dev/null && [ ! -f "$bench/out/openvino-$model/openvino_encoder_model.xml" ]; then
        "$venv/bin/python" "$bench/ct2_to_openvino.py" "$models/$model" "$bench/out/openvino-$model"
    fi
done
"$venv/bin/python" -m pip freeze | grep -iE '^(faster-whisper|ctranslate2|pywhispercpp|openvino)' || true
