# Passages of all your transcripts in which something is said, best first. pip install requests
import os, sys, requests

answer = requests.get(
    f"{os.environ['HARK_URL']}/v1/search",
    headers={"Authorization": f"Bearer {os.environ['HARK_KEY']}"},
    params={"q": "apples and bread", "limit": 5},
)
if not answer.ok:
    sys.exit(answer.json()["error"])

for hit in answer.json()["hits"]:
    print(f"{hit['title']}, {hit['start_time']:.0f} s: {hit['text']}")
