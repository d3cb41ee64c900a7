# A long recording: the answer comes at once, the transcript when it is ready. pip install requests
import os, sys, time, requests

url = os.environ["HARK_URL"]
hark = requests.Session()
hark.headers["Authorization"] = f"Bearer {os.environ['HARK_KEY']}"

with open(sys.argv[1], "rb") as recording:
    answer = hark.post(f"{url}/v1/transcribe", files={"file": recording}, headers={"Prefer": "respond-async"})
if not answer.ok:
    sys.exit(answer.json()["error"])
transcript = answer.json()["id"]

while True:
    state = hark.get(f"{url}/v1/transcripts/{transcript}/status").json()
    print(state["status"], state["progress"], "%")
    if state["status"] == "completed":
        break
    if state["status"] == "failed":
        sys.exit(state["error"])
    time.sleep(2)

print(hark.get(f"{url}/v1/transcripts/{transcript}").json()["text"])
