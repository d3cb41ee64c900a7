#!/usr/bin/env python3
"""Wideband PESQ of the clips that `hark bench voice --pairs DIR` wrote: marked against clean.

Needs `pip install pesq soundfile` in an environment of its own. Usage: audibility.py DIR
"""
import pathlib
import sys

import numpy
import soundfile
from pesq import pesq


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    scores = []
    for marked in sorted((folder / "marked").glob("*.wav")):
        reference, rate = soundfile.read(folder / "clean" / marked.name)
        scores.append(pesq(rate, reference, soundfile.read(marked)[0], "wb"))
    scores = numpy.array(scores)
    print(
        f"{len(scores)} clips: mean {scores.mean():.2f}, "
        f"tenth lowest {numpy.percentile(scores, 10):.2f}, lowest {scores.min():.2f}"
    )


if __name__ == "__main__":
    main()
