#!/usr/bin/env python3
"""Fit the map from styles of Kokoro to CAM++ embeddings that voice matching searches by (crates/hark-tts/data/embedding_map.bin).

Kokoro and CAM++ run in PyTorch, so that the similarity of a spoken sentence to a target has a gradient by the style. Many searches by gradient
start from mixtures of the presets and go towards embeddings of people, of mixtures of people and of other styles; every step gives a style, its
embedding and a gradient. A network with one hidden layer is fitted to all of them.

Needs a CUDA GPU, and torch, numpy, scipy, onnx and onnxruntime. The committed map took 7.4 minutes on an H200 (--seconds 400), with bench/out/voices
and two utterances each of six speakers of LibriSpeech test-other as references. The result is not the same from run to run.
The first --left-out voices of a folder of references (bench/voices.py) are not used: they are those that `hark bench voice` matches.
"""

import argparse
import math
import pathlib
import sys
import time
import wave

import numpy
import onnx
import onnxruntime
import scipy.signal
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

CUDA = torch.device("cuda")
STYLE, HALF, HIDDEN, EMBEDDING = 256, 128, 128, 192
# As in style_space.rs: the standard deviation that every direction has at least.
FLOOR = 0.15
# Styles depend on the length of a sentence: these are of the one in which voices are compared.
LISTENING = "ðə kwˈɪk bɹˈaʊn fˈɑːks dʒˈʌmps ˌoʊvɚ ðə lˈeɪzi dˈɑːɡ."
SENTENCES = [
    LISTENING,
    "plˈiːz kˈɔːl stˈɛlə ænd ˈæsk hɜː tə bɹˈɪŋ fˈIv θˈɪk slˈæbz ʌv blˈuː ʧˈiːz",
    "wiː mˈɛʒɚ ðə jˈʌŋ vˈYsᵻz ðˈɛn wiː ʤˈYn ðˌɛm wɪð ɐ lˈO hˈʌm",
]
# Characters with their ids, as in crates/hark-tts/src/phonemes.rs; only what the sentences need.
IDS = dict(zip(" .IOYabdefhijklmnopstuvwzæðŋɐɑɔəɚɛɜɡɪɹʊʌʒʤʧˈˌːθᵻ", [
    16, 4, 25, 31, 41, 43, 44, 46, 47, 48, 50, 51, 52, 53, 54, 55, 56, 57, 58, 61, 62, 63, 64, 65, 68, 72, 81, 112, 70, 69,
    76, 83, 85, 86, 87, 92, 102, 123, 135, 138, 147, 82, 133, 156, 157, 158, 119, 177], strict=True))
PIECE, HOP = 24_000, 12_000


def snake(x, gain, shift, alpha):
    x = x.float() * (1 + gain) + shift
    return x + torch.sin(alpha * x) ** 2 / alpha


class Kokoro:
    """The layers that see the style, from a graph's nodes; text encoders run once, in ONNX Runtime."""

    def __init__(self, folder):
        graph = onnx.load(str(folder / "model.onnx"))
        constants = {one.name: one for one in graph.graph.initializer}
        self.weights = {}
        for node in graph.graph.node:
            for at, name in enumerate(node.input):
                if name in constants and node.op_type in ("Conv", "ConvTranspose", "LSTM", "Gemm", "MatMul", "Add", "STFT"):
                    self.weights[f"{node.name}|{at}"] = self.tensor(constants[name])
        for name in constants:
            if ".alpha" in name or name.endswith("inverse_basis"):
                self.weights[name] = self.tensor(constants[name])
        self.half = {name: one.bfloat16() for name, one in self.weights.items() if name.startswith("/decoder")}
        self.recurrent = {}
        self.snake = torch.compile(snake, dynamic=True)
        files = sorted((folder / "voices").glob("*.bin"))
        row = len(LISTENING) - 1
        self.presets = self.cuda(numpy.stack([numpy.fromfile(file, "<f4").reshape(-1, STYLE)[row] for file in files]))
        self.sentences = [self.prepared(graph, sentence) for sentence in SENTENCES]

    @staticmethod
    def cuda(array):
        return torch.from_numpy(numpy.array(array)).to(CUDA)

    def tensor(self, constant):
        return self.cuda(onnx.numpy_helper.to_array(constant).astype(numpy.float32))

    def prepared(self, graph, sentence):
        """What PL-BERT and the text encoder make of a sentence, and how long each phoneme lasts on the mean of all presets."""
        wanted = ["/encoder/bert_encoder/Add_output_0", "/encoder/text_encoder/Transpose_2_output_0"]
        if not hasattr(self, "session"):
            for name in wanted:
                graph.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
            self.session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
        ids = numpy.array([[0, *(IDS[character] for character in sentence), 0]])
        style = self.presets.mean(0, keepdim=True).cpu().numpy()
        found = self.session.run(wanted, {"input_ids": ids, "style": style, "speed": numpy.ones(1, numpy.float32)})
        bert, text = (self.cuda(one[0]) for one in found)
        with torch.no_grad():
            states = self.lstm("/encoder/predictor/lstm/LSTM", self.encoded(bert, self.presets[:, HALF:]))
            layer = "/encoder/predictor/duration_proj/linear_layer"
            lasting = torch.sigmoid(states @ self.weights[f"{layer}/MatMul|1"] + self.weights[f"{layer}/Add|0"]).sum(-1)
        return bert, text, lasting.mean(0).round().clamp(min=1).long()

    def lstm(self, node, x):
        if node not in self.recurrent:
            inputs, states, biases = (self.weights[f"{node}|{at}"] for at in (1, 2, 3))

            def reordered(rows):
                first, out, forget, cell = rows.chunk(4)
                return torch.cat([first, forget, cell, out])

            layer = torch.nn.LSTM(inputs.shape[2], 256, batch_first=True, bidirectional=True).to(CUDA)
            with torch.no_grad():
                for way, name in enumerate(("", "_reverse")):
                    getattr(layer, f"weight_ih_l0{name}").copy_(reordered(inputs[way]))
                    getattr(layer, f"weight_hh_l0{name}").copy_(reordered(states[way]))
                    getattr(layer, f"bias_ih_l0{name}").copy_(reordered(biases[way][:1024]))
                    getattr(layer, f"bias_hh_l0{name}").copy_(reordered(biases[way][1024:]))
            self.recurrent[node] = layer.requires_grad_(False)
        return self.recurrent[node](x)[0]

    def scale_and_shift(self, style, name):
        return F.linear(style, self.weights[f"{name}/fc/Gemm|1"], self.weights[f"{name}/fc/Gemm|2"])[..., None].chunk(2, 1)

    def conv(self, x, name, padding, dilation=1, stride=1, has_bias=True):
        weights = self.half if x.dtype == torch.bfloat16 else self.weights
        bias = weights[f"{name}/Conv|2"] if has_bias else None
        return F.conv1d(x, weights[f"{name}/Conv|1"], bias, stride, padding, dilation)

    def norm(self, x, style, name):
        gain, shift = self.scale_and_shift(style, name)
        return F.layer_norm(x, x.shape[-1:]) * (1 + gain).to(x.dtype) + shift.to(x.dtype)

    def block(self, x, style, name, doubles=False):
        weights = self.half if x.dtype == torch.bfloat16 else self.weights
        inner = F.leaky_relu(self.norm(x, style, f"{name}/norm1"), 0.2)
        if doubles:
            pool = (weights[f"{name}/pool/ConvTranspose|{at}"] for at in (1, 2))
            inner = F.conv_transpose1d(inner, *pool, 2, 1, 1, groups=inner.shape[1])
            x = F.interpolate(x, scale_factor=2, mode="nearest")
        inner = self.conv(inner, f"{name}/conv1", 1)
        inner = self.conv(F.leaky_relu(self.norm(inner, style, f"{name}/norm2"), 0.2), f"{name}/conv2", 1)
        if f"{name}/conv1x1/Conv|1" in weights:
            x = self.conv(x, f"{name}/conv1x1", 0, has_bias=False)
        return (inner + x) * math.sqrt(0.5)

    def snake_block(self, x, style, name, taps):
        def layer(x, gain, shift, alpha, conv, padding, dilation):
            return self.conv(self.snake(F.layer_norm(x, x.shape[-1:]), gain, shift, alpha).to(x.dtype), conv, padding, dilation)

        for index, dilation in enumerate((1, 3, 5)):
            inner = x
            for part, spread in ((1, dilation), (2, 1)):
                gain, shift = self.scale_and_shift(style, f"{name}/adain{part}.{index}")
                alpha = self.weights[f"{name[1:].replace('/', '.')}.alpha{part}.{index}"]
                conv = f"{name}/convs{part}.{index}"
                inner = checkpoint(layer, inner, gain, shift, alpha, conv, (taps - 1) * spread // 2, spread, use_reentrant=False)
            x = x + inner
        return x

    def encoded(self, bert, melody):
        beside = melody[:, None].expand(-1, len(bert), -1)
        x = torch.cat([bert[None].expand(len(melody), -1, -1), beside], -1)
        for index in range(3):
            layers = "/encoder/predictor/text_encoder/lstms"
            out = F.layer_norm(self.lstm(f"{layers}.{2 * index}/LSTM", x), (512,))
            gain, shift = self.scale_and_shift(melody, f"{layers}.{2 * index + 1}")
            x = torch.cat([(1 + gain.transpose(1, 2)) * out + shift.transpose(1, 2), beside], -1)
        return x

    def spectrum(self, pitch):
        """The harmonic source, windows of 20 samples."""
        turns = torch.cumsum((pitch.double()[..., None] * torch.arange(1, 10, device=CUDA) / 24_000) % 1, 1)
        turns = F.interpolate(turns.transpose(1, 2) * 300, scale_factor=300, mode="linear")
        sines = torch.sin(turns % 1 * 2 * math.pi).float() * 0.1 * (pitch > 10).float().repeat_interleave(300, -1)[:, None]
        layer = "/decoder/decoder/generator/m_source/l_linear"
        mixed = torch.einsum("bht,ho->bt", sines, self.weights[f"{layer}/MatMul|1"]) + self.weights[f"{layer}/Add|0"]
        window = self.weights["/decoder/decoder/generator/STFT|2"]
        found = torch.stft(torch.tanh(mixed), 20, 5, 20, window=window, return_complex=True)
        return torch.cat([found.abs(), torch.angle(found)], 1).bfloat16()

    def speak(self, sentence, styles):
        """24 kHz samples of a sentence for each style; all last equally long."""
        bert, text, frames = self.sentences[sentence]
        sound, melody = styles[:, :HALF], styles[:, HALF:]
        states = self.lstm("/encoder/shared/LSTM", torch.repeat_interleave(self.encoded(bert, melody), frames, 1))
        curves = []
        for name in ("F0", "N"):
            x = states.transpose(1, 2)
            for index in range(3):
                x = self.block(x, melody, f"/encoder/{name}.{index}", doubles=index == 1)
            curves.append(self.conv(x, f"/encoder/{name}_proj", 0))
        with torch.no_grad():
            spectrum = self.spectrum(curves[0][:, 0])
        name = "/decoder/decoder"
        text = torch.repeat_interleave(text, frames, 1)[None].expand(len(styles), -1, -1).bfloat16()
        pitch = self.conv(curves[0], f"{name}/F0_conv", 1, stride=2).bfloat16()
        energy = self.conv(curves[1], f"{name}/N_conv", 1, stride=2).bfloat16()
        x = self.block(torch.cat([text, pitch, energy], 1), sound, f"{name}/encode")
        again = self.conv(text, f"{name}/asr_res/asr_res.0", 0)
        for index in range(4):
            x = self.block(torch.cat([x, again, pitch, energy], 1), sound, f"{name}/decode.{index}", doubles=index == 3)
        name = f"{name}/generator"
        for stage, rate in enumerate((10, 6)):
            source = self.conv(spectrum, f"{name}/noise_convs.{stage}", (3, 0)[stage], stride=(6, 1)[stage])
            source = self.snake_block(source, sound, f"{name}/noise_res.{stage}", (7, 11)[stage])
            layer = (self.half[f"{name}/ups.{stage}/ConvTranspose|{at}"] for at in (1, 2))
            x = F.conv_transpose1d(F.leaky_relu(x, 0.1), *layer, rate, rate // 2)
            x = source + (F.pad(x, (1, 0), mode="reflect") if stage == 1 else x)
            blocks = enumerate((3, 7, 11))
            x = sum(self.snake_block(x, sound, f"{name}/resblocks.{3 * stage + index}", taps) for index, taps in blocks) / 3
        x = self.conv(F.leaky_relu(x, 0.01), f"{name}/conv_post", 3).float()
        size, phase = torch.exp(x[:, :11]), torch.sin(x[:, 11:])
        parts = torch.cat([size * torch.cos(phase), size * torch.sin(phase)], 1)
        basis = self.weights["decoder.decoder.generator.stft.istft.stft.inverse_basis"]
        return F.conv_transpose1d(parts, basis, stride=5)[:, 0, 10:-10] * 4


class CamPlusPlus:
    """CAM++ from its state, as crates/hark-speakers runs it: centred embeddings of length 1, means over pieces of 1.5 s."""

    def __init__(self, folder):
        state = torch.load(folder / "campplus_cn_en_common.pt", map_location=CUDA, weights_only=True)
        self.state = {name: one.float() for name, one in state.items()}
        mel = lambda hertz: 1127 * numpy.log(1 + hertz / 700)
        low, width = mel(20.0), (mel(8000.0) - mel(20.0)) / 81
        points = mel(numpy.arange(256) * 16_000 / 512) - low - numpy.arange(80)[:, None] * width
        self.filters = Kokoro.cuda(numpy.clip(numpy.minimum(points, 2 * width - points) / width, 0, None).astype(numpy.float32))
        self.window = torch.hann_window(400, periodic=False, device=CUDA) ** 0.85
        taps = torch.arange(-24, 26, device=CUDA)
        table = [torch.sinc(0.63 * (taps - at)) * torch.cos(math.pi * (taps - at) / 50) ** 2 for at in (0.0, 0.5)]
        self.table = torch.stack([one / one.sum() for one in table])[:, None]

    def to_16_khz(self, samples):
        """As pace.rs does."""
        both = F.conv1d(F.pad(samples, (24, 26))[:, None], self.table)
        pairs = [both[:, 0, 0::3], both[:, 1, 1::3]]
        length = min(one.shape[1] for one in pairs)
        return torch.stack([one[:, :length] for one in pairs], -1).flatten(1)

    def batch_norm(self, x, name, relu=True):
        part = lambda key: self.state.get(f"{name}.{key}")
        x = F.batch_norm(x, part("running_mean"), part("running_var"), part("weight"), part("bias"), eps=1e-5)
        return F.relu(x) if relu else x

    def plane(self, x, name, norm, stride=1, relu=True):
        kernel = self.state[f"{name}.weight"]
        return self.batch_norm(F.conv2d(x, kernel, stride=(stride, 1), padding=kernel.shape[2] // 2), norm, relu)

    def network(self, features):
        x = self.plane(features.transpose(1, 2)[:, None], "head.conv1", "head.bn1")
        for layer in ("layer1", "layer2"):
            for index, stride in enumerate((2, 1)):
                name = f"head.{layer}.{index}"
                inner = self.plane(x, f"{name}.conv1", f"{name}.bn1", stride)
                inner = self.plane(inner, f"{name}.conv2", f"{name}.bn2", relu=False)
                x = self.plane(x, f"{name}.shortcut.0", f"{name}.shortcut.1", stride, relu=False) if stride == 2 else x
                x = F.relu(inner + x)
        x = self.plane(x, "head.conv2", "head.bn2", 2).flatten(1, 2)
        weight = lambda name: self.state[f"xvector.{name}"]
        nonlinear = lambda x, name: self.batch_norm(x, f"xvector.{name}.batchnorm")
        x = nonlinear(F.conv1d(x, weight("tdnn.linear.weight"), stride=2, padding=2), "tdnn.nonlinear")
        for block, (layers, dilation) in enumerate(((12, 1), (24, 2), (16, 2)), 1):
            for layer in range(1, layers + 1):
                name = f"block{block}.tdnnd{layer}"
                inner = F.conv1d(nonlinear(x, f"{name}.nonlinear1"), weight(f"{name}.linear1.weight"))
                inner = nonlinear(inner, f"{name}.nonlinear2")
                local = F.conv1d(inner, weight(f"{name}.cam_layer.linear_local.weight"), padding=dilation, dilation=dilation)
                segments = F.avg_pool1d(inner, 100, 100, ceil_mode=True).repeat_interleave(100, -1)[..., : inner.shape[-1]]
                context = inner.mean(-1, keepdim=True) + segments
                for part, activation in (("linear1", F.relu), ("linear2", torch.sigmoid)):
                    part = f"{name}.cam_layer.{part}"
                    context = activation(F.conv1d(context, weight(f"{part}.weight"), weight(f"{part}.bias")))
                x = torch.cat([x, local * context], 1)
            x = F.conv1d(nonlinear(x, f"transit{block}.nonlinear"), weight(f"transit{block}.linear.weight"))
        x = nonlinear(x, "out_nonlinear")
        x = torch.cat([x.mean(-1), x.std(-1, unbiased=True)], 1)[..., None]
        x = F.conv1d(x, weight("dense.linear.weight"))
        return self.batch_norm(x, "xvector.dense.nonlinear.batchnorm", relu=False)[..., 0]

    def embed(self, samples):
        pieces = F.pad(samples, (0, max(0, PIECE - samples.shape[1]))).unfold(1, PIECE, HOP)
        frames = pieces.flatten(0, 1).unfold(-1, 400, 160)
        frames = frames - frames.mean(-1, keepdim=True)
        frames = frames - 0.97 * torch.cat([frames[..., :1], frames[..., :-1]], -1)
        power = torch.fft.rfft(frames * self.window, 512)[..., :256].abs() ** 2
        features = torch.log((power @ self.filters.T).clamp(min=torch.finfo(torch.float32).eps))
        found = F.normalize(self.network(features - features.mean(1, keepdim=True)), dim=-1)
        found = F.normalize(found - found.mean(-1, keepdim=True), dim=-1)
        return F.normalize(found.unflatten(0, pieces.shape[:2]).mean(1), dim=-1)


class Space:
    """As style_space.rs: coordinates whitened by the covariance of the presets."""

    def __init__(self, presets):
        self.mean = presets.mean(0)
        halves = (presets - self.mean).split(HALF, 1)
        floor = FLOOR ** 2 * torch.eye(HALF, device=CUDA)
        self.lower = torch.block_diag(*(torch.linalg.cholesky(half.T @ half / (len(presets) - 1) + floor) for half in halves))

    def styles(self, coordinates):
        return self.mean + coordinates @ self.lower.T

    def coordinates(self, styles):
        return torch.linalg.solve_triangular(self.lower, (styles - self.mean).T, upper=False).T


class Map(torch.nn.Module):
    """As embedding_map.rs."""

    def __init__(self):
        super().__init__()
        self.hidden = torch.nn.Linear(STYLE, HIDDEN)
        self.out = torch.nn.Linear(HIDDEN, EMBEDDING)
        self.around = torch.nn.Linear(STYLE, EMBEDDING, bias=False)

    def forward(self, coordinates):
        return F.normalize(self.out(F.silu(self.hidden(coordinates))) + self.around(coordinates), dim=-1)

    def bytes(self):
        parts = [self.hidden.weight, self.hidden.bias, self.out.weight, self.out.bias, self.around.weight]
        return b"".join(part.detach().cpu().numpy().astype("<f2").tobytes() for part in parts)


def people(cam, folders, left_out):
    """Embeddings of recordings, two of each voice at most."""
    found = []
    for folder, skipped in zip(folders, left_out):
        for voice in sorted(path for path in folder.iterdir() if path.is_dir())[skipped:]:
            for path in sorted(voice.glob("*.wav"))[:2]:
                with wave.open(str(path)) as opened:
                    samples = numpy.frombuffer(opened.readframes(opened.getnframes()), "<i2").astype(numpy.float32) / 32768
                    samples = scipy.signal.resample_poly(samples, 16_000, opened.getframerate()).astype(numpy.float32)
                with torch.no_grad():
                    found.append(cam.embed(Kokoro.cuda(samples)[None])[0])
    return torch.stack(found)


def collect(kokoro, cam, space, recordings, seconds, batch):
    """Coordinates, embeddings, targets and gradients of their similarity by the coordinates, along many searches."""
    def mixtures(rows, count, concentration):
        shares = torch.distributions.Dirichlet(torch.full((len(rows),), concentration)).sample((count,)).to(CUDA)
        return shares @ rows

    known = recordings

    def targets(count):
        mixed = F.normalize(mixtures(recordings, count, 0.04), dim=-1)
        moved = F.normalize(mixed + torch.randn(count, EMBEDDING, device=CUDA) * 0.6 / math.sqrt(EMBEDDING), dim=-1)
        spoken = known[torch.randint(len(known), (count,), device=CUDA)]
        kind = torch.rand(count, 1, device=CUDA)
        return torch.where(kind < 0.5, mixed, torch.where(kind < 0.75, moved, spoken))

    presets = space.coordinates(kokoro.presets)

    def starts(count):
        return mixtures(presets, count, 0.08) + torch.randn(count, STYLE, device=CUDA) * torch.rand(count, 1, device=CUDA) * 0.6

    place, target = starts(batch), targets(batch)
    direction, square = torch.zeros_like(place), torch.zeros(batch, 1, device=CUDA)
    age, life = torch.randint(0, 25, (2, batch), device=CUDA)
    rate, cost = (scale * torch.exp(torch.randn(batch, 1, device=CUDA) * spread) for scale, spread in ((0.06, 0.4), (0.03, 1.0)))
    rows, begun = [], time.monotonic()
    while time.monotonic() - begun < seconds:
        at = place.detach().requires_grad_()
        embedding = cam.embed(cam.to_16_khz(kokoro.speak(len(rows) % len(SENTENCES), space.styles(at))))
        (gradient,) = torch.autograd.grad((embedding * target).sum(), at)
        rows.append((place, embedding.detach(), target.clone(), gradient))
        # Adam with one rate for all coordinates of a search.
        downhill = cost * 2 * place / STYLE - gradient
        age = age + 1
        direction, square = 0.8 * direction + 0.2 * downhill, 0.95 * square + 0.05 * downhill.pow(2).mean(1, keepdim=True)
        steady = direction / (1 - 0.8 ** age[:, None]) / ((square / (1 - 0.95 ** age[:, None])).sqrt() + 1e-6)
        place = place - rate * steady
        ended = age >= life + 10
        if count := int(ended.sum()):
            place[ended], target[ended] = starts(count), targets(count)
            for memory in (direction, square, age):
                memory[ended] = 0
            # Embeddings of styles become targets, too.
            known = torch.cat([recordings, *(row[1] for row in rows[-64:])])
        if len(rows) % 50 == 0:
            print(f"{len(rows) * batch} voices, similarity {(embedding * target).sum(1).mean():.3f}", flush=True)
    return [torch.cat(parts) for parts in zip(*rows)]


def fit(rows, seconds):
    """The network, and how well it does on the last rows, which it does not see."""
    known = len(rows[0]) * 93 // 100
    network = Map().to(CUDA)
    optimizer = torch.optim.AdamW(network.parameters(), 2e-3, weight_decay=1e-2)

    def compared(places, embeddings, targets, gradients, create_graph):
        places = places.clone().requires_grad_()
        guess = network(places)
        (slope,) = torch.autograd.grad((guess * targets).sum(), places, create_graph=create_graph)
        return guess, slope

    begun = time.monotonic()
    while (spent := time.monotonic() - begun) < seconds:
        optimizer.param_groups[0]["lr"] = 2e-3 * (1 - spent / seconds) + 1e-5
        chosen = torch.randint(known, (2048,), device=CUDA)
        batch = [part[chosen] for part in rows]
        guess, slope = compared(*batch, create_graph=True)
        wrong = (guess - batch[1]).pow(2).sum(1).mean() + 0.3 * (slope - batch[3]).pow(2).sum() / batch[3].pow(2).sum()
        optimizer.zero_grad()
        wrong.backward()
        optimizer.step()
    unseen = [part[known:] for part in rows]
    guess, slope = compared(*unseen, create_graph=False)
    print(f"{known} voices seen; of {len(unseen[0])} others: cosine of embeddings {(guess * unseen[1]).sum(1).mean():.3f}, "
          f"of gradients {F.cosine_similarity(slope, unseen[3]).mean():.3f}")
    return network


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--kokoro", type=pathlib.Path, required=True, help="folder with model.onnx and voices")
    arguments.add_argument("--campplus", type=pathlib.Path, required=True, help="folder with campplus_cn_en_common.pt")
    arguments.add_argument("--references", type=pathlib.Path, nargs="+", required=True, help="folders of <voice>/<n>.wav")
    arguments.add_argument("--left-out", type=int, nargs="+", default=[12], help="first voices of each folder that are not used")
    arguments.add_argument("--seconds", type=float, default=300.0, help="time for collecting")
    arguments.add_argument("--out", type=pathlib.Path, required=True)
    options = arguments.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.manual_seed(1)
    kokoro, cam = Kokoro(options.kokoro), CamPlusPlus(options.campplus)
    left_out = options.left_out + [0] * (len(options.references) - len(options.left_out))
    recordings = people(cam, options.references, left_out)
    print(f"{len(recordings)} recordings", file=sys.stderr)
    rows = collect(kokoro, cam, Space(kokoro.presets), recordings, options.seconds, batch=96)
    options.out.write_bytes(fit(rows, 20.0).bytes())


if __name__ == "__main__":
    main()
