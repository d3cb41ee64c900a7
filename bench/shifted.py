#!/usr/bin/env python3
"""A recording as it might as well have been made: a little louder or softer, begun a little earlier.

In: a recording with `refs.tsv` beside it (`<name>` TAB `<words>`), as corpus.py and prompts.py write. Out, under --out
(`shifted` beside it): the recording and four others of the same words, with `refs.tsv`.

A word that a model is not sure of falls one way or the other by chance. Two systems that differ by a few words on one
recording are told apart only by such neighbours of it:

    hark bench transcribe --audio bench/out/prompts/shifted --peers fw-f32 --beam 5 --rounds 1
"""

import argparse
import pathlib
import subprocess

from corpus import RATE

# Decibels, and milliseconds of silence before it.
SHIFTS = [(0, 0), (-3, 0), (0, 100), (2, 250), (-6, 400)]


def shift(recording, out, decibels, milliseconds):
    filters = f"volume={decibels}dB,adelay={milliseconds}"
    made = ["-af", filters, "-ar", str(RATE), "-ac", "1", out]
    subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-y", "-i", recording, *made], check=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("recording", type=pathlib.Path)
    arguments.add_argument("--out", type=pathlib.Path)
    given = arguments.parse_args()
    references = (given.recording.parent / "refs.tsv").read_text(encoding="utf-8").splitlines()
    words = dict(line.split("\t", 1) for line in references).get(given.recording.stem)
    if words is None:
        raise SystemExit(f"{given.recording.parent / 'refs.tsv'} has no words for '{given.recording.stem}'")
    out = given.out or given.recording.parent / "shifted"
    out.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, (decibels, milliseconds) in enumerate(SHIFTS):
        name = f"{given.recording.stem}-{number}"
        shift(given.recording, out / f"{name}.wav", decibels, milliseconds)
        lines.append(f"{name}\t{words}\n")
    (out / "refs.tsv").write_text("".join(lines), encoding="utf-8")
    print(f"{len(lines)} recordings in {out}")


if __name__ == "__main__":
    main()
