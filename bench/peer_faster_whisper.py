"""faster-whisper behind the line protocol of the benchmark (see protocol.py).

In: a CTranslate2 model folder and one mode. Out: one JSON line a request.
The time of a request is the wall time from the file's path to the last segment: decoding the file, voice
activity and the lazily evaluated segments are all inside it; loading the model is not.
"""

import argparse

import protocol


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, help="CTranslate2 folder")
    parser.add_argument("--compute-type", default="int8", choices=["int8", "float16", "float32"])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--batch", type=int, default=0, help="0: sequential, else the size of a batch")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--words", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-vad", action="store_true", help="sequential mode without its voice activity filter")
    return parser.parse_args()


def load(arguments):
    from faster_whisper import BatchedInferencePipeline, WhisperModel

    model = WhisperModel(
        arguments.model,
        device=arguments.device,
        compute_type=arguments.compute_type,
        cpu_threads=arguments.threads,
        local_files_only=True,
    )
    return BatchedInferencePipeline(model=model) if arguments.batch else model


def transcriber(arguments, pipeline):
    def transcribe(request):
        options = dict(
            language=request.get("language", "en"),
            beam_size=arguments.beam,
            word_timestamps=arguments.words,
        )
        if arguments.batch:
            options["batch_size"] = arguments.batch
        else:
            options["vad_filter"] = not arguments.no_vad
        segments, _ = pipeline.transcribe(request["audio"], **options)
        segments = list(segments)
        return {
            "text": " ".join(segment.text.strip() for segment in segments),
            "segments": len(segments),
            "words": sum(len(segment.words or []) for segment in segments),
        }

    return transcribe


def versions():
    import ctranslate2
    import faster_whisper

    return f"faster-whisper {faster_whisper.__version__}, ctranslate2 {ctranslate2.__version__}"


if __name__ == "__main__":
    arguments = parse_arguments()
    protocol.serve(lambda: load(arguments), lambda model: transcriber(arguments, model), versions)
