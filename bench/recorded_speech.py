#!/usr/bin/env python3
"""Hours of recorded speech without a mark, for `hark bench voice --only watermark --unmarked bench/out/recorded`.

In: Debian packages with recorded prompts and words of many people, fetched with apt-get and only unpacked. Out, under --out
(bench/out/recorded): <package>/<n>.wav, 24 kHz mono. Of a package that exists in several encodings one is taken, and a file
that another package has too is left out, so no second counts twice. The recordings are measured with, never passed on.
"""

import argparse
import hashlib
import pathlib
import subprocess
import tempfile
import wave

# One voice each, studio recordings at 16 kHz (G.722).
PROMPTS = [f"asterisk-core-sounds-{language}-g722" for language in ("en", "es", "fr", "it", "ru")]
# Other voices, 8 kHz; and words and letters that people of many countries recorded for games.
OTHERS = ["asterisk-prompt-fr-armelle", "asterisk-prompt-it-menardi-wav", "asterisk-prompt-es-co", "ktuberling-data", "klettres-data"]
SOUNDS = {".g722": ["-f", "g722"], ".wav": [], ".gsm": [], ".ogg": [], ".opus": [], ".mp3": []}
RATE = 24_000


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "out/recorded")
    out = arguments.parse_args().out
    known, total = set(), 0
    for package in PROMPTS + OTHERS:
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            fetched = subprocess.run(["apt-get", "download", package], cwd=folder, capture_output=True, text=True)
            if fetched.returncode != 0:
                print(f"without {package}: apt-get could not fetch it here")
                continue
            subprocess.run(["dpkg-deb", "-x", str(next(folder.glob("*.deb"))), str(folder)], check=True)
            target = out / package
            target.mkdir(parents=True, exist_ok=True)
            number, samples = 0, 0
            for path in sorted(folder.rglob("*")):
                if path.suffix not in SOUNDS or path.is_symlink() or not path.is_file():
                    continue
                # Silence and tones are no speech.
                if {"silence", "tone"} & set(path.parts) or path.stem in ("beep", "beeperr"):
                    continue
                digest = hashlib.sha256(path.read_bytes()).digest()
                if digest in known:
                    continue
                known.add(digest)
                command = ["ffmpeg", "-nostdin", "-v", "error", *SOUNDS[path.suffix], "-i", str(path), "-ac", "1", "-ar", str(RATE), "-f", "s16le", "-"]
                decoded = subprocess.run(command, capture_output=True).stdout
                if not decoded:
                    continue
                number += 1
                samples += len(decoded) // 2
                with wave.open(str(target / f"{number:05}.wav"), "wb") as file:
                    file.setnchannels(1)
                    file.setsampwidth(2)
                    file.setframerate(RATE)
                    file.writeframes(decoded)
            total += samples
            print(f"{package}: {number} files, {samples / RATE / 60:.1f} min", flush=True)
    print(f"{total / RATE / 3600:.2f} h: {out}")


if __name__ == "__main__":
    main()
