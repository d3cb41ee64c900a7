# Tell the speakers apart, and take the stored transcript as subtitles. pip install requests
import os, sys, requests

url = os.environ["HARK_URL"]
hark = requests.Session()
hark.headers["Authorization"] = f"Bearer {os.environ['HARK_KEY']}"

with open(sys.argv[1], "rb") as recording:
    answer = hark.post(f"{url}/v1/transcribe", files={"file": recording}, data={"diarize": "true"})
if not answer.ok:
    sys.exit(answer.json()["error"])

# Other formats: txt, vtt, json, csv, docx, pdf.
transcript = answer.headers["X-Transcript-Id"]
subtitles = hark.get(f"{url}/v1/transcripts/{transcript}/export/srt")
subtitles.raise_for_status()
print(subtitles.content.decode("utf-8"))
