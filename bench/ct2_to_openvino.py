#!/usr/bin/env python3
"""Build the OpenVINO GenAI folder of a Whisper model from its CTranslate2 folder, so that both run the same weights.

In: model.bin, config.json and tokenizer.json of one folder. Out: encoder, stateful decoder, tokenizer and the JSON
files that openvino_genai.WhisperPipeline reads. The graph is the published architecture written with OpenVINO's own
operators: fused attention, key and value caches as states, cross-attention keys and values computed once a window.
Greedy decoding without word times only: beams reuse the last window's states here, and word times need outputs that
only an export from PyTorch has. Matrices are stored as fp16, as they were; the plugin picks its own precision to run
them in (bf16 where AMX is).
"""

import argparse
import json
import pathlib

import numpy
import openvino as ov
from openvino import opset13 as op

import ct2


def constant(array):
    return op.constant(numpy.ascontiguousarray(array.astype(numpy.float32)))


class Graph:
    """The layers that encoder and decoder share."""

    def __init__(self, tensors, heads):
        self.tensors, self.heads = tensors, heads

    def linear(self, x, name):
        y = op.matmul(x, constant(self.tensors[f"{name}.weight"]), False, True)
        bias = self.tensors.get(f"{name}.bias")
        return y if bias is None else op.add(y, constant(bias))

    def norm(self, x, name):
        y = op.mvn(x, op.constant(numpy.array([-1], numpy.int64)), True, 1e-5, "INSIDE_SQRT")
        return op.add(op.multiply(y, constant(self.tensors[f"{name}.weight"])), constant(self.tensors[f"{name}.bias"]))

    def split_heads(self, x):
        shape = op.constant(numpy.array([0, 0, self.heads, ct2.HEAD], numpy.int64))
        return op.transpose(op.reshape(x, shape, True), op.constant(numpy.array([0, 2, 1, 3], numpy.int64)))

    def attend(self, query, key, value, name, mask=None):
        inputs = [query, key, value] + ([mask] if mask is not None else [])
        mixed = op.scaled_dot_product_attention(*inputs)
        merged = op.reshape(
            op.transpose(mixed, op.constant(numpy.array([0, 2, 1, 3], numpy.int64))),
            op.constant(numpy.array([0, 0, self.heads * ct2.HEAD], numpy.int64)),
            True,
        )
        return self.linear(merged, f"{name}.out")

    def feed_forward(self, x, name):
        y = self.norm(x, f"{name}.mlp_ln")
        y = op.gelu(self.linear(y, f"{name}.mlp.0"), "erf")
        return op.add(x, self.linear(y, f"{name}.mlp.2"))


def encoder(tensors, count, heads):
    graph = Graph(tensors, heads)
    mels = tensors["encoder.conv1.weight"].shape[1]
    frames = 2 * tensors["encoder.positional_embedding"].shape[0]
    features = op.parameter([-1, mels, frames], ov.Type.f32, name="input_features")
    features.output(0).set_names({"input_features"})
    x = features
    for name, stride in (("conv1", 1), ("conv2", 2)):
        x = op.convolution(x, constant(tensors[f"encoder.{name}.weight"]), [stride], [1], [1], [1])
        x = op.gelu(op.add(x, constant(tensors[f"encoder.{name}.bias"].reshape(1, -1, 1))), "erf")
    x = op.transpose(x, op.constant(numpy.array([0, 2, 1], numpy.int64)))
    x = op.add(x, constant(tensors["encoder.positional_embedding"]))
    for layer in range(count):
        name = f"encoder.blocks.{layer}"
        y = graph.norm(x, f"{name}.attn_ln")
        query, key, value = (graph.split_heads(graph.linear(y, f"{name}.attn.{part}")) for part in ("query", "key", "value"))
        x = op.add(x, graph.attend(query, key, value, f"{name}.attn"))
        x = graph.feed_forward(x, name)
    x = graph.norm(x, "encoder.ln_post")
    x.output(0).set_names({"last_hidden_state"})
    return ov.Model([op.result(x)], [features], "whisper_encoder")


def decoder(tensors, count, heads):
    graph = Graph(tensors, heads)
    state = heads * ct2.HEAD

    def parameter(shape, kind, name):
        node = op.parameter(shape, kind, name=name)
        node.output(0).set_names({name})
        return node

    tokens = parameter([-1, -1], ov.Type.i64, "input_ids")
    heard = parameter([-1, -1, state], ov.Type.f32, "encoder_hidden_states")
    positions = parameter([-1], ov.Type.i64, "cache_position")
    beams = parameter([-1], ov.Type.i32, "beam_idx")
    zero, one = (op.constant(numpy.array(value, numpy.int64)) for value in (0, 1))
    axis_zero = op.constant(numpy.array([0], numpy.int64))

    assigns = []

    def remembered(start, name):
        """The state called name, begun with start, its rows put in the order of this step's beams."""
        shape = ov.PartialShape([-1, heads, -1, ct2.HEAD])
        info = ov.op.util.VariableInfo()
        info.data_shape, info.data_type, info.variable_id = shape, ov.Type.f32, name
        variable = ov.op.util.Variable(info)
        read = op.read_value(start, variable)
        return op.gather(read, beams, zero), variable

    batch = op.gather(op.shape_of(heard), axis_zero, zero)
    empty_shape = op.concat([batch, op.constant(numpy.array([heads, 0, ct2.HEAD], numpy.int64))], 0)
    empty = op.broadcast(op.constant(numpy.array(0.0, numpy.float32)), empty_shape)

    embedding = constant(tensors["decoder.token_embedding.weight"])
    x = op.gather(embedding, tokens, zero)
    x = op.add(x, op.gather(constant(tensors["decoder.positional_embedding"]), positions, zero))
    # A token sees those at or before its own place.
    last = op.add(op.reduce_max(positions, axis_zero, False), one)
    places = op.range(zero, last, one, "i64")
    sees = op.less_equal(op.unsqueeze(places, axis_zero), op.unsqueeze(positions, one))
    mask = op.unsqueeze(sees, op.constant(numpy.array([0, 1], numpy.int64)))

    for layer in range(count):
        name = f"decoder.blocks.{layer}"
        y = graph.norm(x, f"{name}.attn_ln")
        query = graph.split_heads(graph.linear(y, f"{name}.attn.query"))
        caches = []
        for part in ("key", "value"):
            past, variable = remembered(empty, f"past_key_values.{layer}.decoder.{part}")
            cache = op.concat([past, graph.split_heads(graph.linear(y, f"{name}.attn.{part}"))], 2)
            assigns.append(op.assign(cache, variable))
            caches.append(cache)
        x = op.add(x, graph.attend(query, *caches, f"{name}.attn", mask))
        y = graph.norm(x, f"{name}.cross_attn_ln")
        query = graph.split_heads(graph.linear(y, f"{name}.cross_attn.query"))
        caches = []
        for part in ("key", "value"):
            # The start of a state is computed only when the state is reset: once a window.
            start = graph.split_heads(graph.linear(heard, f"{name}.cross_attn.{part}"))
            cache, variable = remembered(start, f"past_key_values.{layer}.encoder.{part}")
            assigns.append(op.assign(cache, variable))
            caches.append(cache)
        x = op.add(x, graph.attend(query, *caches, f"{name}.cross_attn"))
        x = graph.feed_forward(x, name)
    x = graph.norm(x, "decoder.ln")
    logits = op.matmul(x, embedding, False, True)
    logits.output(0).set_names({"logits"})
    return ov.Model([op.result(logits)], assigns, [tokens, heard, positions, beams], "whisper_decoder")


def write_json(path, values):
    path.write_text(json.dumps(values, indent=1) + "\n")


def write_settings(folder, out, tensors, layers):
    settings = json.loads((folder / "config.json").read_text())
    added = {token["content"]: token["id"] for token in json.loads((folder / "tokenizer.json").read_text())["added_tokens"]}
    vocabulary, state = tensors["decoder.token_embedding.weight"].shape
    mels = tensors["encoder.conv1.weight"].shape[1]
    context = tensors["decoder.positional_embedding"].shape[0]
    write_json(out / "config.json", {
        "model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "is_encoder_decoder": True,
        "vocab_size": vocabulary, "d_model": state, "num_mel_bins": mels, "max_target_positions": context,
        "max_source_positions": tensors["encoder.positional_embedding"].shape[0],
        "encoder_layers": layers[0], "decoder_layers": layers[1],
        "encoder_attention_heads": state // ct2.HEAD, "decoder_attention_heads": state // ct2.HEAD,
        "decoder_start_token_id": added["<|startoftranscript|>"], "eos_token_id": added["<|endoftext|>"],
        "bos_token_id": added["<|endoftext|>"], "pad_token_id": added["<|endoftext|>"],
    })
    languages = {name: index for name, index in added.items() if index in settings.get("lang_ids", [])}
    write_json(out / "generation_config.json", {
        "alignment_heads": settings["alignment_heads"], "begin_suppress_tokens": settings["suppress_ids_begin"],
        "suppress_tokens": settings["suppress_ids"], "decoder_start_token_id": added["<|startoftranscript|>"],
        "bos_token_id": added["<|endoftext|>"], "eos_token_id": added["<|endoftext|>"], "pad_token_id": added["<|endoftext|>"],
        "is_multilingual": bool(languages), "lang_to_id": languages,
        "task_to_id": {"transcribe": added["<|transcribe|>"], "translate": added["<|translate|>"]},
        "no_timestamps_token_id": added["<|notimestamps|>"], "prev_sot_token_id": added["<|startofprev|>"],
        "max_initial_timestamp_index": 50, "max_length": context, "return_timestamps": False,
    })
    write_json(out / "preprocessor_config.json", {
        "feature_extractor_type": "WhisperFeatureExtractor", "chunk_length": 30, "feature_size": mels, "hop_length": 160,
        "n_fft": 400, "n_samples": 480_000, "nb_max_frames": 3_000, "padding_side": "right", "padding_value": 0.0,
        "return_attention_mask": False, "sampling_rate": 16_000,
    })


def write_tokenizer(folder, out):
    from openvino_tokenizers import convert_tokenizer
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), eos_token="<|endoftext|>", bos_token="<|endoftext|>", unk_token="<|endoftext|>")
    encode, decode = convert_tokenizer(tokenizer, with_detokenizer=True)
    ov.save_model(encode, out / "openvino_tokenizer.xml")
    ov.save_model(decode, out / "openvino_detokenizer.xml")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    variables = ct2.read_variables(arguments.folder / "model.bin")
    tensors = dict(ct2.openai_tensors(variables))
    layers = ct2.layers(variables, "encoder"), ct2.layers(variables, "decoder")
    heads = tensors["decoder.positional_embedding"].shape[1] // ct2.HEAD
    write_tokenizer(arguments.folder, arguments.out)
    write_settings(arguments.folder, arguments.out, tensors, layers)
    ov.save_model(decoder(tensors, layers[1], heads), arguments.out / "openvino_decoder_model.xml", compress_to_fp16=True)
    # Written last: its presence says that the folder is complete.
    ov.save_model(encoder(tensors, layers[0], heads), arguments.out / "openvino_encoder_model.xml", compress_to_fp16=True)
    print(f"{len(tensors)} tensors: {arguments.out}")


if __name__ == "__main__":
    main()
