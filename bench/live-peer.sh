#!/bin/sh
# Install WhisperLive, the peer of `hark bench live`, in a virtual environment of its own. It needs torch for its voice
# detection: where the system's Python has one (Debian: python3-torch, without CUDA) that one is used, else the registry's,
# which brings gigabytes of CUDA along.
#
#   bench/live-peer.sh
#
# HARK_LIVE_PEER_VENV  another place for the environment
set -eu

bench=$(cd "$(dirname "$0")" && pwd)
venv=${HARK_LIVE_PEER_VENV:-$bench/.live-venv}
python=/usr/bin/python3
"$python" -c 'import torch' 2>/dev/null || python=python3

[ -x "$venv/bin/python" ] || "$python" -m venv --system-site-packages "$venv"
"$venv/bin/python" -c 'import torch' 2>/dev/null || set -- torch
# Of what its package asks for, only what the faster-whisper path imports: the rest is for other engines.
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$bench/requirements-live.txt" "$@"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps whisper-live==0.10.0
"$venv/bin/python" -c 'import whisper_live.server'
"$venv/bin/python" -m pip freeze | grep -iE '^(whisper.live|faster-whisper|ctranslate2)'
