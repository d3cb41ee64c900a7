# The recording without its noise. pip install requests
import os, sys, requests

with open(sys.argv[1], "rb") as recording:
    answer = requests.post(
        f"{os.environ['HARK_URL']}/v1/enhance-audio",
        # Also: audio/flac, audio/mpeg, audio/ogg
        headers={"Authorization": f"Bearer {os.environ['HARK_KEY']}", "Accept": "audio/wav"},
        files={"file": recording},
    )
if not answer.ok:
    sys.exit(answer.json()["error"])

with open("clean.wav", "wb") as clean:
    clean.write(answer.content)
