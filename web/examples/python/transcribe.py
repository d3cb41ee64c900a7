# The words of a recording, with their times. pip install requests
import os, sys, requests

answer = requests.post(
    f"{os.environ['HARK_URL']}/v1/transcribe",
    headers={"Authorization": f"Bearer {os.environ['HARK_KEY']}"},
    files={"file": open(sys.argv[1], "rb")},
)
if not answer.ok:
    sys.exit(answer.json()["error"])

for segment in answer.json()["segments"]:
    print(f"{segment['start']:8.2f}  {segment['text']}")
