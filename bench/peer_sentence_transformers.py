#!/usr/bin/env python3
"""sentence-transformers behind lines of JSON: {"texts": [...]} in, {"seconds": ...} out.

It runs the weights of Hark's models folder in float32, mean pooling and normalized vectors, in its default batches of 32.
"""

import argparse
import json
import os
import sys
import time

import protocol


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.threads:
        os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    # The weights are here; nothing is fetched.
    os.environ["HF_HUB_OFFLINE"] = "1"
    answers = protocol.claim_stdout()

    def answer(message):
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    try:
        import sentence_transformers
        import torch
        from sentence_transformers import SentenceTransformer, models

        if arguments.threads:
            torch.set_num_threads(arguments.threads)
        encoder = models.Transformer(arguments.model, max_seq_length=256)
        pooling = models.Pooling(encoder.get_word_embedding_dimension(), pooling_mode="mean")
        model = SentenceTransformer(modules=[encoder, pooling, models.Normalize()], device="cpu")
    except Exception as error:
        answer({"error": f"{type(error).__name__}: {error}"})
        return
    version = f"sentence-transformers {sentence_transformers.__version__}, torch {torch.__version__}, {torch.get_num_threads()} threads"
    answer({"ready": True, "version": version})
    for line in sys.stdin:
        if not line.strip():
            continue
        try:
            texts = json.loads(line)["texts"]
            started = time.perf_counter()
            model.encode(texts, batch_size=32, show_progress_bar=False)
            answer({"seconds": time.perf_counter() - started})
        except Exception as error:
            answer({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
