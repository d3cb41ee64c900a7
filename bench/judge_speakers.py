#!/usr/bin/env python3
"""Speaker embeddings behind the benchmark's line protocol: WeSpeaker's ResNet34 (VoxCeleb) and GE2E, neither of which voice matching uses.

A request names a WAV file (mono, 16 bits); the answer has a vector of length 1 from each network. Resemblyzer's weights of GE2E are run
here in numpy: its own code needs torch.
"""

import argparse
import collections
import os
import pathlib
import pickle
import struct
import wave

import protocol

RATE = 16_000


def read(path):
    """Mono samples at 16 kHz without the quiet at both ends."""
    import numpy
    import scipy.signal

    with wave.open(str(path)) as opened:
        if opened.getnchannels() != 1 or opened.getsampwidth() != 2:
            raise ValueError(f"{path} is not a mono WAV file of 16 bits")
        rate = opened.getframerate()
        samples = numpy.frombuffer(opened.readframes(opened.getnframes()), dtype="<i2").astype(numpy.float32) / 32768
    if rate != RATE:
        samples = scipy.signal.resample_poly(samples, RATE, rate).astype(numpy.float32)
    hop = RATE // 100
    level = (samples[: len(samples) // hop * hop].reshape(-1, hop) ** 2).mean(axis=1)
    loud = numpy.nonzero(level > level.max() * 1e-4)[0]
    return samples[loud[0] * hop : (loud[-1] + 1) * hop]


class WeSpeaker:
    """80 Kaldi filterbank energies of 16-bit samples less their mean, as the network was trained."""

    def __init__(self, path, threads):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def embed(self, samples):
        import kaldi_native_fbank
        import numpy

        options = kaldi_native_fbank.FbankOptions()
        options.frame_opts.dither = 0.0
        options.frame_opts.window_type = "hamming"
        options.mel_opts.num_bins = 80
        bank = kaldi_native_fbank.OnlineFbank(options)
        bank.accept_waveform(RATE, (samples * 32768).tolist())
        bank.input_finished()
        features = numpy.stack([bank.get_frame(at) for at in range(bank.num_frames_ready)])
        features -= features.mean(axis=0)
        return self.session.run(None, {self.session.get_inputs()[0].name: features[None]})[0][0]


class Tensors(pickle.Unpickler):
    """torch's format before 1.6: pickles, then the storages in the order of their keys. Nothing but tensors and dictionaries is made."""

    def find_class(self, module, name):
        known = {
            ("collections", "OrderedDict"): collections.OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): lambda storage, offset, shape, *rest: (storage, offset, shape),
            ("torch", "FloatStorage"): "<f4",
            ("torch", "LongStorage"): "<i8",
        }
        if (module, name) not in known:
            raise pickle.UnpicklingError(f"unexpected {module}.{name}")
        return known[module, name]

    def persistent_load(self, key):
        return key[1], key[2]


def read_tensors(path):
    """The float32 tensors of the model's state by name."""
    import numpy

    with open(path, "rb") as opened:
        for _ in range(3):
            pickle.Unpickler.load(Tensors(opened))
        state = Tensors(opened).load()
        keys = Tensors(opened).load()
        kinds = {}

        def note(value):
            if isinstance(value, dict):
                for one in value.values():
                    note(one)
            elif isinstance(value, tuple) and len(value) == 3 and isinstance(value[0], tuple):
                kinds[value[0][1]] = value[0][0]

        note(state)
        sizes = {"<f4": 4, "<i8": 8}
        storages = {}
        for key in keys:
            (count,) = struct.unpack("<q", opened.read(8))
            kind = kinds[key]
            storages[key] = numpy.frombuffer(opened.read(count * sizes[kind]), dtype=kind)
    tensors = {}
    for name, ((_, key), offset, shape) in state["model_state"].items():
        size = int(numpy.prod(shape))
        tensors[name] = storages[key][offset : offset + size].reshape(shape)
    return tensors


class Ge2e:
    """Three LSTM layers over 40 mel energies of 1.6 s, and a linear layer; an utterance is the mean over overlapping parts."""

    PART, STEP, BANDS = 160, 77, 40

    def __init__(self, path):
        self.tensors = read_tensors(path)
        self.filters = self.mel_filters()

    def mel_filters(self):
        """Triangles at equal distances on Slaney's mel scale (linear to 1 kHz, logarithmic above), each of area 1."""
        import numpy

        def mel(hertz):
            return numpy.where(hertz < 1000, hertz * 3 / 200, 15 + 27 * numpy.log(numpy.maximum(hertz, 1) / 1000) / numpy.log(6.4))

        def hertz(mel):
            return numpy.where(mel < 15, mel * 200 / 3, 1000 * 6.4 ** ((mel - 15) / 27))

        edges = hertz(numpy.linspace(0, mel(numpy.array(RATE / 2.0)), self.BANDS + 2))
        bins = numpy.linspace(0, RATE / 2, 201)
        rising = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
        falling = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
        return numpy.maximum(0, numpy.minimum(rising, falling)) * (2 / (edges[2:] - edges[:-2]))[:, None]

    def embed(self, samples):
        import numpy

        level = 20 * numpy.log10(numpy.sqrt((samples ** 2).mean()) + 1e-9)
        samples = samples * 10 ** (max(0.0, -30 - level) / 20)
        padded = numpy.pad(samples, 200)
        frames = numpy.lib.stride_tricks.sliding_window_view(padded, 400)[::160]
        window = 0.5 - 0.5 * numpy.cos(2 * numpy.pi * numpy.arange(400) / 400)
        power = numpy.abs(numpy.fft.rfft(frames * window, axis=1)) ** 2
        mel = (power @ self.filters.T).astype(numpy.float32)
        starts = range(0, max(1, len(mel) - self.PART * 3 // 4), self.STEP)
        parts = [mel[start : start + self.PART] for start in starts]
        parts = [numpy.pad(part, ((0, self.PART - len(part)), (0, 0))) for part in parts]
        return self.forward(numpy.stack(parts)).mean(axis=0)

    def forward(self, rows):
        import numpy

        def sigmoid(x):
            return 0.5 + 0.5 * numpy.tanh(0.5 * x)

        tensors = self.tensors
        for layer in range(3):
            weights, recurrent, one, other = (
                tensors[f"lstm.{name}_l{layer}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            width = recurrent.shape[1]
            hidden = cell = numpy.zeros((len(rows), width), dtype=numpy.float32)
            out = []
            inputs = rows @ weights.T + (one + other)
            for step in range(rows.shape[1]):
                gates = inputs[:, step] + hidden @ recurrent.T
                take, keep, new, show = (gates[:, at * width : (at + 1) * width] for at in range(4))
                cell = sigmoid(keep) * cell + sigmoid(take) * numpy.tanh(new)
                hidden = sigmoid(show) * numpy.tanh(cell)
                out.append(hidden)
            rows = numpy.stack(out, axis=1)
        found = numpy.maximum(0, hidden @ tensors["linear.weight"].T + tensors["linear.bias"])
        return found / numpy.linalg.norm(found, axis=1, keepdims=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--archives", type=pathlib.Path, required=True, help="folder with wespeaker.onnx and ge2e.pt")
    parser.add_argument("--threads", type=int, default=0)
    arguments = parser.parse_args()
    # Products of this size gain nothing from threads, which wait actively for each other.
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

    def load():
        return {
            "wespeaker": WeSpeaker(arguments.archives / "wespeaker.onnx", arguments.threads),
            "ge2e": Ge2e(arguments.archives / "ge2e.pt"),
        }

    def make(judges):
        import numpy

        def embed(request):
            samples = read(request["audio"])
            answer = {}
            for name, judge in judges.items():
                vector = judge.embed(samples)
                answer[name] = (vector / numpy.linalg.norm(vector)).tolist()
            return answer

        return embed

    protocol.serve(load, make, lambda: "WeSpeaker ResNet34, GE2E")


if __name__ == "__main__":
    main()
