#!/usr/bin/env python3
"""Kokoro's graph in ONNX Runtime behind the benchmark's line protocol: the file that Hark reads its weights from, the same phonemes.

Only the sentence's way through the network is timed, as on Hark's side; phonemes come as numbers.
"""

import argparse
import pathlib

import protocol


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=pathlib.Path, required=True, help="folder with model.onnx and voices/")
    parser.add_argument("--threads", type=int, default=0)
    arguments = parser.parse_args()

    def load():
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = arguments.threads
        options.inter_op_num_threads = 1
        return onnxruntime.InferenceSession(
            str(arguments.model / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )

    def make(session):
        import numpy

        tokens, style, speed = (
            next(one.name for one in session.get_inputs() if one.name in names)
            for names in (("input_ids", "tokens"), ("style",), ("speed",))
        )
        voices = {}

        def speak(request):
            voice = request["voice"]
            if voice not in voices:
                voices[voice] = numpy.fromfile(arguments.model / "voices" / f"{voice}.bin", dtype="<f4").reshape(-1, 256)
            ids = request["ids"]
            samples = session.run(None, {
                tokens: numpy.array([ids], dtype=numpy.int64),
                # A voice has a style for each length of a sentence; the ids are padded at both ends.
                style: voices[voice][len(ids) - 3][None],
                speed: numpy.ones(1, dtype=numpy.float32),
            })[0]
            return {"samples": int(samples.size)}

        return speak

    def version():
        from importlib.metadata import version as installed

        return f"onnxruntime {installed('onnxruntime')}"

    protocol.serve(load, make, version)


if __name__ == "__main__":
    main()
