# A text, spoken. GET /v1/voices lists the voices. pip install openai
import os
from openai import OpenAI

client = OpenAI(base_url=os.environ["HARK_URL"] + "/v1", api_key=os.environ["HARK_KEY"])

with client.audio.speech.with_streaming_response.create(
    model="tts-1", voice="af_heart", input="Good morning.", response_format="wav"
) as speech:
    speech.stream_to_file("speech.wav")
