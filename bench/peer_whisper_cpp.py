"""whisper.cpp (through pywhispercpp) behind the line protocol of the benchmark (see protocol.py).

In: a ggml file (ct2_to_ggml.py makes it from the same weights) and one mode. Out: one JSON line a request.
It runs without voice activity: whisper.cpp's own needs a converted Silero file that no registry carries.
"""

import argparse

import protocol


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, help="ggml file")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--words", action="store_true", help="token times, one segment a word")
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def load(arguments):
    from pywhispercpp.model import Model

    return Model(
        arguments.model,
        n_threads=arguments.threads,
        params_sampling_strategy=1 if arguments.beam > 1 else 0,
        print_progress=False,
        print_realtime=False,
        print_timestamps=False,
        redirect_whispercpp_logs_to=None,
    )


def transcriber(arguments, model):
    def transcribe(request):
        options = {"language": request.get("language", "en")}
        if arguments.beam > 1:
            options["beam_search"] = {"beam_size": arguments.beam, "patience": -1.0}
        else:
            options["greedy"] = {"best_of": 5}
        if arguments.words:
            options |= {"token_timestamps": True, "max_len": 1, "split_on_word": True}
        segments = model.transcribe(request["audio"], **options)
        return {
            "text": " ".join(segment.text.strip() for segment in segments),
            "segments": len(segments),
            "words": len(segments) if arguments.words else 0,
        }

    return transcribe


def versions():
    from importlib.metadata import version

    return f"whisper.cpp in pywhispercpp {version('pywhispercpp')}"


if __name__ == "__main__":
    arguments = parse_arguments()
    protocol.serve(lambda: load(arguments), lambda model: transcriber(arguments, model), versions)
