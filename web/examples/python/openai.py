# The client of OpenAI, pointed at this server. pip install openai
import os, sys
from openai import OpenAI

client = OpenAI(base_url=os.environ["HARK_URL"] + "/v1", api_key=os.environ["HARK_KEY"])

with open(sys.argv[1], "rb") as recording:
    transcription = client.audio.transcriptions.create(model="whisper-1", file=recording)
print(transcription.text)
