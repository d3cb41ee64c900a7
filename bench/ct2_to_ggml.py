#!/usr/bin/env python3
"""Convert a CTranslate2 Whisper folder to whisper.cpp's ggml file, so that both run the very same weights.

In: model.bin (fp16 or fp32), config.json and tokenizer.json of one folder. Out: one .bin: header, mel filters, byte
tokens, tensors. Matrices stay fp16 as they were stored; what whisper.cpp wants in fp32 (biases, norms, positions)
is widened, which is exact.
"""

import argparse
import json
import pathlib
import struct

import numpy

import ct2

GGML_MAGIC = 0x67676D6C
GGML_F32, GGML_F16 = 0, 1
# The text tokens end here; the special ones (languages, tasks, times) whisper.cpp fills in by itself.
FIRST_SPECIAL = "<|endoftext|>"
SAMPLE_RATE, FFT = 16_000, 400


def mel_filters(mels):
    """Slaney's mel bank (linear below 1 kHz, logarithmic above), each triangle of unit area: what Whisper was trained on."""
    linear_step, corner, log_step = 200.0 / 3, 1000.0, numpy.log(6.4) / 27.0
    corner_mel = corner / linear_step

    def to_mel(hertz):
        return corner_mel + numpy.log(hertz / corner) / log_step if hertz >= corner else hertz / linear_step

    points = numpy.linspace(0.0, to_mel(SAMPLE_RATE / 2), mels + 2)
    hertz = numpy.where(points >= corner_mel, corner * numpy.exp(log_step * (points - corner_mel)), points * linear_step)
    bins = numpy.linspace(0.0, SAMPLE_RATE / 2, FFT // 2 + 1)
    rising = (bins - hertz[:-2, None]) / (hertz[1:-1] - hertz[:-2])[:, None]
    falling = (hertz[2:, None] - bins) / (hertz[2:] - hertz[1:-1])[:, None]
    area = 2.0 / (hertz[2:] - hertz[:-2])
    return (numpy.maximum(0.0, numpy.minimum(rising, falling)) * area[:, None]).astype(numpy.float32)


def byte_tokens(path):
    """The text tokens as raw bytes, in order of id, up to the first special token."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable} | {chr(256 + at): byte for at, byte in enumerate(others)}
    tokenizer = json.loads(path.read_text())
    vocabulary = {index: token for token, index in tokenizer["model"]["vocab"].items()}
    end = next(token["id"] for token in tokenizer["added_tokens"] if token["content"] == FIRST_SPECIAL)
    return [bytes(letters[letter] for letter in vocabulary[index]) for index in range(end)]


def write(folder, out):
    variables = ct2.read_variables(folder / "model.bin")
    tensors = dict(ct2.openai_tensors(variables))
    tokens = byte_tokens(folder / "tokenizer.json")
    audio_context, audio_state = tensors["encoder.positional_embedding"].shape
    text_context, text_state = tensors["decoder.positional_embedding"].shape
    vocabulary = tensors["decoder.token_embedding.weight"].shape[0]
    mels = tensors["encoder.conv1.weight"].shape[1]
    filters = mel_filters(mels)

    with open(out, "wb") as file:
        header = (vocabulary, audio_context, audio_state, audio_state // ct2.HEAD, ct2.layers(variables, "encoder"),
                  text_context, text_state, text_state // ct2.HEAD, ct2.layers(variables, "decoder"), mels, GGML_F16)
        file.write(struct.pack("<I11i", GGML_MAGIC, *header))
        file.write(struct.pack("<2i", *filters.shape) + filters.tobytes())
        file.write(struct.pack("<i", len(tokens)))
        for token in tokens:
            file.write(struct.pack("<I", len(token)) + token)
        for name, tensor in tensors.items():
            matrix = tensor.ndim >= 2 and not name.endswith((".bias", "positional_embedding"))
            stored = tensor.astype(numpy.float16 if matrix else numpy.float32)
            encoded = name.encode()
            file.write(struct.pack("<3i", stored.ndim, len(encoded), GGML_F16 if matrix else GGML_F32))
            file.write(struct.pack(f"<{stored.ndim}i", *reversed(stored.shape)) + encoded + stored.tobytes())
    return len(tensors)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    # Written beside and renamed, so that a broken conversion never stands in for the model.
    partial = arguments.out.with_suffix(".partial")
    count = write(arguments.folder, partial)
    partial.rename(arguments.out)
    print(f"{count} tensors: {arguments.out}")
