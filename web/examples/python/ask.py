# Ask a stored transcript, and ask on. pip install requests
import os, sys, requests

url = f"{os.environ['HARK_URL']}/v1/transcripts/{sys.argv[1]}/chat"
headers = {"Authorization": f"Bearer {os.environ['HARK_KEY']}"}
session = None

for question in ["What are they going to buy?", "And where?"]:
    answer = requests.post(url, headers=headers, json={"question": question, "session_id": session})
    if not answer.ok:
        sys.exit(answer.json()["error"])
    said = answer.json()
    session = said["session_id"]
    print(said["answer"])
    for source in said["sources"]:
        print(f"    {source['start_time']:.1f} s: {source['text']}")
