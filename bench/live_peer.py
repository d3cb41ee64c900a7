"""WhisperLive over a folder of CTranslate2 weights, on a free port of loopback, its batches on.

Usage: live_peer.py MODEL-FOLDER; prints `listens on ADDRESS` once it does.
"""

import socket
import sys
import threading
import time

from whisper_live.server import TranscriptionServer


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def tell_when_listening(port):
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.2)
            continue
        print(f"listens on 127.0.0.1:{port}", flush=True)
        return


def main():
    port = free_port()
    threading.Thread(target=tell_when_listening, args=(port,), daemon=True).start()
    TranscriptionServer().run(
        "127.0.0.1",
        port=port,
        backend="faster_whisper",
        faster_whisper_custom_model_path=sys.argv[1],
        single_model=True,
        max_clients=256,
        max_connection_time=3600,
        batch_enabled=True,
        # Nobody is turned away: how late everybody's words come is what is measured.
        batch_max_queue_wait_s=3600.0,
        batch_max_admissions_per_s=1000.0,
    )


if __name__ == "__main__":
    main()
