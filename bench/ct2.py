"""Read a CTranslate2 Whisper folder: its tensors under the names of the original checkpoint.

model.bin, little-endian: u32 version, string name, u32 revision, u32 count; per variable: string name, u8 rank,
u32 dims, u8 type, u32 bytes, data; then u32 count of aliases, each two strings. A string: u16 length with its NUL.
Self-attention stacks query, key and value in one matrix, cross-attention key and value.
"""

import struct

import numpy

TYPES = {0: numpy.float32, 1: numpy.int8, 2: numpy.int16, 3: numpy.int32, 4: numpy.float16}
# Every Whisper checkpoint has heads of this width.
HEAD = 64


def read_variables(path):
    data = memoryview(path.read_bytes())
    at = 0

    def take(form):
        nonlocal at
        values = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return values if len(values) > 1 else values[0]

    def take_string():
        nonlocal at
        length = take("H")
        text = bytes(data[at : at + length]).rstrip(b"\0").decode()
        at += length
        return text

    version = take("I")
    if version < 6:
        raise SystemExit(f"{path}: layout version {version} is older than 6; convert the model again with a newer CTranslate2")
    take_string()
    take("I")
    variables = {}
    for _ in range(take("I")):
        name = take_string()
        rank = take("B")
        shape = [take("I") for _ in range(rank)]
        kind, size = take("B"), take("I")
        if kind not in TYPES:
            raise SystemExit(f"{path}: {name} has type {kind}, which this converter does not know")
        variables[name] = numpy.frombuffer(data[at : at + size], dtype=TYPES[kind]).reshape(shape)
        at += size
    for _ in range(take("I")):
        alias, target = take_string(), take_string()
        variables.setdefault(alias, variables[target])
    return variables


def openai_tensors(variables):
    """(name, array) in the original checkpoint's naming, which ggml keeps."""
    def pair(theirs, weight, bias):
        yield f"{theirs}.weight", variables[weight]
        if bias is not None:
            yield f"{theirs}.bias", variables[bias]

    def norm(theirs, ours):
        yield from pair(theirs, f"{ours}/gamma", f"{ours}/beta")

    def linear(theirs, ours):
        yield from pair(theirs, f"{ours}/weight", f"{ours}/bias")

    def split(names, ours):
        weights = numpy.split(variables[f"{ours}/weight"], len(names))
        biases = numpy.split(variables[f"{ours}/bias"], len(names))
        for theirs, weight, bias in zip(names, weights, biases):
            yield f"{theirs}.weight", weight
            if theirs.endswith(".key"):
                # Whisper's keys have no bias; the stacked layout stores zeros in its place.
                if numpy.any(bias):
                    raise SystemExit(f"{ours}: the key has a bias, so this is no Whisper model")
            else:
                yield f"{theirs}.bias", bias

    def self_attention(theirs, ours):
        yield from norm(f"{theirs}.attn_ln", f"{ours}/layer_norm")
        yield from split([f"{theirs}.attn.query", f"{theirs}.attn.key", f"{theirs}.attn.value"], f"{ours}/linear_0")
        yield from linear(f"{theirs}.attn.out", f"{ours}/linear_1")

    def cross_attention(theirs, ours):
        yield from norm(f"{theirs}.cross_attn_ln", f"{ours}/layer_norm")
        yield from linear(f"{theirs}.cross_attn.query", f"{ours}/linear_0")
        yield from split([f"{theirs}.cross_attn.key", f"{theirs}.cross_attn.value"], f"{ours}/linear_1")
        yield from linear(f"{theirs}.cross_attn.out", f"{ours}/linear_2")

    def feed_forward(theirs, ours):
        yield from norm(f"{theirs}.mlp_ln", f"{ours}/layer_norm")
        yield from linear(f"{theirs}.mlp.0", f"{ours}/linear_0")
        yield from linear(f"{theirs}.mlp.2", f"{ours}/linear_1")

    yield "encoder.positional_embedding", variables["encoder/position_encodings/encodings"]
    for conv in ("conv1", "conv2"):
        yield f"encoder.{conv}.weight", variables[f"encoder/{conv}/weight"]
        yield f"encoder.{conv}.bias", variables[f"encoder/{conv}/bias"].reshape(-1, 1)
    for layer in range(layers(variables, "encoder")):
        theirs, ours = f"encoder.blocks.{layer}", f"encoder/layer_{layer}"
        yield from self_attention(theirs, f"{ours}/self_attention")
        yield from feed_forward(theirs, f"{ours}/ffn")
    yield from norm("encoder.ln_post", "encoder/layer_norm")
    yield "decoder.positional_embedding", variables["decoder/position_encodings/encodings"]
    yield "decoder.token_embedding.weight", variables["decoder/embeddings/weight"]
    for layer in range(layers(variables, "decoder")):
        theirs, ours = f"decoder.blocks.{layer}", f"decoder/layer_{layer}"
        yield from self_attention(theirs, f"{ours}/self_attention")
        yield from cross_attention(theirs, f"{ours}/attention")
        yield from feed_forward(theirs, f"{ours}/ffn")
    yield from norm("decoder.ln", "decoder/layer_norm")


def layers(variables, side):
    return 1 + max(int(name.split("/")[1][6:]) for name in variables if name.startswith(f"{side}/layer_") and name.split("/")[1][6:].isdigit())
