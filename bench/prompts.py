#!/usr/bin/env python3
"""Speech that no rule of Hark was chosen by: the English prompts of Debian's telephone exchange, whose words come with them.

In: two Debian packages, fetched with apt-get and only unpacked. Out, under --out (bench/out/prompts):

    clips/<id>.wav, clips/refs.tsv     one prompt each, 16 kHz mono (recorded at 16 kHz, G.722)
    long.wav, refs.tsv                 all of them in a shuffled order, with pauses between

One woman reads menus and announcements: sentences of 5 to 80 words, many of them about keys to press. Everything is
deterministic: the same packages give the same bytes. The recordings are measured with, never passed on.
"""

import argparse
import array
import gzip
import pathlib
import random
import re
import subprocess
import tempfile

from corpus import PAUSE_SECONDS, RATE, SEED, decode, write_wav

WORDS, SOUNDS, VOICE = "asterisk-core-sounds-en", "asterisk-core-sounds-en-g722", "en_US_f_Allison"
# A prompt of fewer words is a part of a sentence that the exchange puts together.
LEAST_WORDS = 5


def unpack(package, folder):
    fetched = subprocess.run(["apt-get", "download", package], cwd=folder, capture_output=True, text=True)
    if fetched.returncode != 0:
        raise SystemExit(f"could not download {package}; check apt's sources: {fetched.stderr.strip()[-500:]}")
    subprocess.run(["dpkg-deb", "-x", str(next(folder.glob(f"{package}_*.deb"))), str(folder)], check=True)


def prompts(folder):
    """(id, words, samples) of every prompt that is a sentence."""
    unpack(WORDS, folder)
    unpack(SOUNDS, folder)
    texts = gzip.open(folder / f"usr/share/doc/{WORDS}/core-sounds-en.txt.gz", "rt", encoding="utf-8")
    for line in texts:
        name, colon, words = line.partition(":")
        path = folder / f"usr/share/asterisk/sounds/{VOICE}/{name.strip()}.g722"
        words = " ".join(words.replace("*", " star ").replace("...", " ").split())
        # Notes in brackets are about the sound, not in it.
        if colon and path.is_file() and len(words.split()) >= LEAST_WORDS and not re.search(r"[\[\](){}<>]", words):
            yield name.strip().replace("/", "-"), words, decode(path, "-f", "g722")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "out/prompts")
    out = arguments.parse_args().out
    (out / "clips").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        found = sorted(prompts(pathlib.Path(folder)))
    order = random.Random(SEED)
    joined, said = array.array("h"), []
    lines = []
    for name, words, samples in found:
        write_wav(out / f"clips/{name}.wav", samples)
        lines.append(f"{name}\t{words}\n")
    order.shuffle(found)
    for _, words, samples in found:
        joined.extend(samples)
        joined.extend([0] * int(order.uniform(*PAUSE_SECONDS) * RATE))
        said.append(words)
    (out / "clips/refs.tsv").write_text("".join(lines))
    write_wav(out / "long.wav", joined)
    (out / "refs.tsv").write_text(f"long\t{' '.join(said)}\n")
    print(f"{len(found)} prompts, {sum(len(words.split()) for words in said)} words, {len(joined) / RATE / 60:.1f} minutes in {out}")


if __name__ == "__main__":
    main()
