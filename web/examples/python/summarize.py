# A summary of a stored transcript, with its progress. pip install requests
import json, os, sys, requests

answer = requests.post(
    f"{os.environ['HARK_URL']}/v1/transcripts/{sys.argv[1]}/summarize",
    headers={"Authorization": f"Bearer {os.environ['HARK_KEY']}", "Accept": "text/event-stream"},
    # Or: brief, detailed, executive, action_items
    json={"style": "bullet_points"},
    stream=True,
)
if not answer.ok:
    sys.exit(answer.json()["error"])

answer.encoding = "utf-8"
event = None
for line in answer.iter_lines(decode_unicode=True):
    if line.startswith("event: "):
        event = line[7:]
    elif line.startswith("data: "):
        data = json.loads(line[6:])
        if event == "progress":
            print(f"step {data['done']} of {data['total']}", file=sys.stderr)
        elif event == "result":
            print(data["summary"])
        elif event == "error":
            sys.exit(data["error"])
