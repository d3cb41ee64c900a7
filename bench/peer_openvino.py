"""OpenVINO GenAI behind the line protocol of the benchmark (see protocol.py).

In: an OpenVINO folder (ct2_to_openvino.py makes it from the same weights) and one mode. Out: one JSON line a request.
It runs without voice activity, which its Whisper pipeline does not have, and at the precision that it picks by itself;
greedy and without word times, which is what the converted graph serves.
"""

import argparse

import protocol


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, help="OpenVINO folder")
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def load(arguments):
    import openvino_genai

    return openvino_genai.WhisperPipeline(arguments.model, "CPU", INFERENCE_NUM_THREADS=arguments.threads)


def transcriber(pipeline):
    # The pipeline takes samples; faster-whisper's reader turns any file into them.
    from faster_whisper.audio import decode_audio

    def transcribe(request):
        samples = decode_audio(request["audio"], sampling_rate=16_000)
        config = pipeline.get_generation_config()
        config.language = f"<|{request.get('language', 'en')}|>"
        config.task = "transcribe"
        config.return_timestamps = True
        result = pipeline.generate(samples, config)
        return {
            "text": " ".join(text.strip() for text in result.texts),
            "segments": len(result.chunks or []),
            "words": 0,
        }

    return transcribe


def versions():
    from importlib.metadata import version

    return f"openvino-genai {version('openvino-genai')}, openvino {version('openvino')}"


if __name__ == "__main__":
    arguments = parse_arguments()
    protocol.serve(lambda: load(arguments), transcriber, versions)
