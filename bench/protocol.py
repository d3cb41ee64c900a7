"""The line protocol that every system of the benchmark speaks.

The driver starts, loads its model and writes one line: {"ready": true, "load_seconds": …, "version": "…", "rss": bytes}.
Then for each line {"id": 1, "audio": "file.wav", "language": "en"} it answers one line
{"id": 1, "text": "…", "seconds": …, "segments": n, "words": n, "peak_rss": bytes} or {"error": "…"}; end of input ends it.
Anything the libraries print goes to standard error, so that standard output holds nothing but answers.
"""

import json
import os
import sys
import time


def peak_rss():
    """The process's high-water mark of resident memory, in bytes (VmHWM; 0 where /proc is absent)."""
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def claim_stdout():
    """Keep the real standard output for answers and point file descriptor 1 at standard error.

    The C++ libraries below us print to descriptor 1 whenever they like.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return answers


def serve(load, make_transcriber, version):
    answers = claim_stdout()

    def answer(message):
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    started = time.perf_counter()
    try:
        transcribe = make_transcriber(load())
    except Exception as error:
        answer({"error": f"{type(error).__name__}: {error}"})
        return
    answer({
        "ready": True,
        "load_seconds": time.perf_counter() - started,
        "version": version(),
        "peak_rss": peak_rss(),
    })
    for line in sys.stdin:
        if not line.strip():
            continue
        request = json.loads(line)
        try:
            started = time.perf_counter()
            result = transcribe(request)
            # A driver that prepares for each request on the side says itself what it took.
            result.setdefault("seconds", time.perf_counter() - started)
            result["peak_rss"] = peak_rss()
            result["id"] = request.get("id", 0)
        except Exception as error:
            result = {"id": request.get("id", 0), "error": f"{type(error).__name__}: {error}"}
        answer(result)
