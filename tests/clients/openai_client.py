"""The official openai package against a real server: only the base address is changed."""

import json
import os
import time

import openai
from openai import DefaultHttpxClient, OpenAI

ADDRESS = os.environ["HARK_ADDRESS"]
RECORDINGS = os.environ["RECORDINGS"]
sent = []
client = OpenAI(
    base_url=f"{ADDRESS}/v1",
    api_key=os.environ["HARK_KEY"],
    http_client=DefaultHttpxClient(event_hooks={"request": [lambda request: sent.append(request.url.path)]}),
)


def recording(name):
    return open(f"{RECORDINGS}/{name}", "rb")


def assert_heard(text, words=("weather", "market", "apples", "bread")):
    missing = [word for word in words if word not in text.lower()]
    assert len(missing) <= 1, f"{missing} not heard in: {text}"


def transcribe(**options):
    options.setdefault("model", "whisper-1")
    options.setdefault("file", recording("english.wav"))
    return client.audio.transcriptions.create(**options)


def refused(kind, action, tries=1):
    """The error of an action that must fail, after so many requests."""
    before = len(sent)
    try:
        action()
    except openai.APIStatusError as error:
        assert type(error) is kind, f"{type(error)}: {error}"
        assert len(sent) - before == tries, f"{len(sent) - before} requests, not {tries}: {error}"
        assert error.request_id and error.body["message"] in str(error), error
        return error
    raise AssertionError("nothing was refused")


print("openai", openai.__version__)

# Formats.
answer = transcribe(file=recording("english.mp3"))
assert_heard(answer.text)
assert answer.usage.type == "duration" and 4 <= answer.usage.seconds <= 12, answer
print("json:        ", answer.text)
text = transcribe(response_format="text")
assert isinstance(text, str) and text.endswith("\n")
assert_heard(text)
srt = transcribe(response_format="srt")
assert srt.startswith("1\n00:00:0") and " --> " in srt
assert_heard(srt.replace("\n", " "))
print("srt:         ", " ".join(srt.split("\n")[:3]))
vtt = transcribe(response_format="vtt")
assert vtt.startswith("WEBVTT\n")
verbose = transcribe(
    response_format="verbose_json", timestamp_granularities=["word", "segment"], language="en", prompt="A walk.", temperature=0.2
)
assert_heard(verbose.text)
assert verbose.language == "english" and 4 < verbose.duration < 12, verbose
assert verbose.segments[0].id == 0 and verbose.segments[0].avg_logprob < 0 and verbose.segments[0].temperature > 0.1
times = [(word.start, word.end) for word in verbose.words]
assert len(times) > 10 and times == sorted(times) and times[-1][1] <= verbose.duration + 0.1, times
print("verbose_json:", verbose.language, verbose.duration, [(w.word, w.start) for w in verbose.words[:4]])
words_only = transcribe(response_format="verbose_json", timestamp_granularities=["word"])
assert words_only.segments is None and words_only.words

# Another name of OpenAI's, and a name of ours; the header says which checkpoint ran.
raw = client.audio.transcriptions.with_raw_response.create(model="gpt-4o-transcribe", file=recording("english.wav"))
assert raw.headers["x-model"] == "whisper-base" and raw.headers["x-transcript-id"]
assert_heard(raw.parse().text)
raw = client.audio.transcriptions.with_raw_response.create(model="whisper-tiny", file=recording("english.wav"))
assert raw.headers["x-model"] == "whisper-tiny"

# Events.
events = list(transcribe(stream=True))
assert events[-1].type == "transcript.text.done" and {event.type for event in events[:-1]} == {"transcript.text.delta"}
assert "".join(event.delta for event in events[:-1]) == events[-1].text
assert_heard(events[-1].text)
print("events:      ", [event.type for event in events])

# Translation.
english = client.audio.translations.create(model="gpt-4o-transcribe", file=recording("spanish.wav"))
assert_heard(english.text, ("good morning", "today", "market", "buy"))
print("translation: ", english.text)
verbose = client.audio.translations.create(model="gpt-4o-transcribe", file=recording("spanish.wav"), response_format="verbose_json")
assert verbose.language == "english" and verbose.segments

# Models.
names = [model.id for model in client.models.list()]
assert "whisper-1" in names and "whisper-tiny" in names, names
assert client.models.retrieve("whisper-1").object == "model"
print("models:      ", names)

# Errors: the right exception with code and param, and no request more than one where a repeat is of no use.
error = refused(openai.BadRequestError, lambda: transcribe(model="gpt-17"))
assert (error.code, error.param, error.type) == ("model_not_found", "model", "invalid_request_error"), error.body
print("error:       ", error)
error = refused(openai.BadRequestError, lambda: transcribe(language="klingon"))
assert error.param == "language", error.body
refused(openai.BadRequestError, lambda: transcribe(file=recording("broken.wav")))
stranger = client.with_options(api_key="sk-wrong")
error = refused(
    openai.AuthenticationError,
    lambda: stranger.audio.transcriptions.create(model="whisper-1", file=recording("english.wav")),
)
assert error.code == "invalid_api_key"
# Our own paths answer with a string: the package keeps it as `body` but leaves it out of its message, which is why
# OpenAI's paths answer with an object.
try:
    stranger.get("/account", cast_to=object)
    raise AssertionError("a wrong key was let in")
except openai.AuthenticationError as own:
    assert "not valid" in own.body and own.code is None, own.body
refused(openai.NotFoundError, lambda: client.models.retrieve("nothing"))
texts = ["The cat sleeps on the sofa.", "A kitten naps on the couch.", "Interest rates rose again."]
cat, kitten, rates = (one.embedding for one in client.embeddings.create(model="x", input=texts).data)
alike, unlike = (sum(a * b for a, b in zip(cat, other)) for other in (kitten, rates))
assert len(cat) == 384 and alike > 0.5 > 0.2 > unlike, (len(cat), alike, unlike)
plain = client.embeddings.create(model="x", input=texts[0], encoding_format="float")
assert max(abs(a - b) for a, b in zip(plain.data[0].embedding, cat)) < 1e-4
assert plain.usage.total_tokens == 9, plain.usage
print("embeddings:  ", f"alike {alike:.2f}, unlike {unlike:.2f}")
refused(openai.BadRequestError, lambda: client.embeddings.create(model="x", input=[]))

# Chat completions: whole, as a stream, as JSON of a schema, and what is refused.
LANGUAGE = "smollm2-135m-instruct"
assert LANGUAGE in names, names
question = [{"role": "developer", "content": "Answer in one short sentence."}, {"role": "user", "content": "What is the capital of France?"}]


def chat(**options):
    options = {"model": LANGUAGE, "messages": question, "temperature": 0, "max_completion_tokens": 40} | options
    return client.chat.completions.create(**options)


answer = chat()
said = answer.choices[0].message.content
assert "Paris" in said and answer.choices[0].finish_reason in ("stop", "length"), answer
assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens, answer.usage
assert answer.usage.prompt_tokens_details.cached_tokens >= 0
print("chat:        ", said)
chunks = list(chat(stream=True, stream_options={"include_usage": True}))
assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == said
assert chunks[0].choices[0].delta.role == "assistant" and chunks[-1].choices == []
assert chunks[-1].usage.completion_tokens == answer.usage.completion_tokens, chunks[-1]
print("chat stream: ", len(chunks), "chunks")
stopped = chat(stop=["Paris"]).choices[0]
assert stopped.message.content == said.split("Paris")[0] and stopped.finish_reason == "stop", stopped
schema = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}, "is_large": {"type": "boolean"}},
    "required": ["city", "is_large"],
    "additionalProperties": False,
}
form = {"type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": schema}}
city = json.loads(chat(response_format=form).choices[0].message.content)
assert set(city) == {"city", "is_large"} and type(city["is_large"]) is bool, city
print("chat JSON:   ", city)
error = refused(openai.NotFoundError, lambda: chat(model="gpt-4o"))
assert (error.code, error.param) == ("model_not_found", "model"), error.body
error = refused(openai.BadRequestError, lambda: chat(messages=[{"role": "user", "content": "word " * 3000}]))
assert (error.code, error.param) == ("context_length_exceeded", "messages"), error.body
error = refused(openai.BadRequestError, lambda: chat(logprobs=True))
assert error.param == "logprobs", error.body

# Speech: whole, as it is made, by our names and by OpenAI's; what was said is heard again.
said = "The weather is nice today. We are going to the market to buy some apples and bread."
mp3 = client.audio.speech.create(model="tts-1", voice="alloy", input=said)
assert mp3.response.headers["content-type"] == "audio/mpeg" and mp3.response.headers["x-voice"] == "preset; name=af_alloy"
assert mp3.content.startswith(b"ID3") and len(mp3.content) > 20_000, len(mp3.content)
assert_heard(transcribe(model="gpt-4o-transcribe", file=("speech.mp3", mp3.content)).text)
path = f"{RECORDINGS}/streamed.wav"
begun, first, size = time.monotonic(), None, 0
with client.audio.speech.with_streaming_response.create(
    model="gpt-4o-mini-tts", voice="bm_george", input=f"{said} {said}", response_format="wav", speed=1.1
) as streamed, open(path, "wb") as out:
    for block in streamed.iter_bytes():
        size += len(block)
        first = first or time.monotonic() - begun
        out.write(block)
assert size > 100_000 and first < time.monotonic() - begun, size
assert_heard(transcribe(model="gpt-4o-transcribe", file=open(path, "rb")).text)
pcm = client.audio.speech.create(model="tts-1-hd", voice="nova", input="Hello.", response_format="pcm")
assert len(pcm.content) % 2 == 0 and len(pcm.content) > 10_000
for format in ("opus", "flac"):
    made = client.audio.speech.create(model="tts-1", voice="echo", input="Hello.", response_format=format)
    assert made.content[:4] == {"opus": b"OggS", "flac": b"fLaC"}[format], made.content[:4]
error = refused(openai.BadRequestError, lambda: client.audio.speech.create(model="tts-1", voice="alloy", input="Hello.", response_format="aac"))
assert error.param == "response_format" and "mp3" in error.body["message"], error.body
error = refused(openai.BadRequestError, lambda: client.audio.speech.create(model="tts-1", voice="nobody", input="Hello."))
assert "af_heart" in error.body["message"], error.body
refused(openai.BadRequestError, lambda: client.audio.speech.create(model="tts-1", voice="alloy", input="a" * 2001))
print("speech:      ", f"{len(mp3.content)} bytes of mp3; first of {size} bytes of wav after {first:.2f} s")

# A limit: the client waits as long as Retry-After says and comes through; without retries it gives up.
made = client.post("/keys", body={"name": "busy", "rate_limit": 60}, cast_to=object)
busy = client.with_options(api_key=made["key"])
for _ in range(100):
    try:
        busy.with_options(max_retries=0).get("/credits", cast_to=object)
    except openai.RateLimitError:
        break
else:
    raise AssertionError("the limit was never reached")
error = refused(
    openai.RateLimitError,
    lambda: busy.with_options(max_retries=0).audio.transcriptions.create(model="whisper-1", file=recording("english.wav")),
)
assert error.code == "rate_limit_exceeded" and 1 <= int(error.response.headers["retry-after"]) <= 60, error.body
begun, before = time.monotonic(), len(sent)
assert_heard(busy.audio.transcriptions.create(model="whisper-1", file=recording("english.wav")).text)
print(f"retries:      came through with {len(sent) - before} requests in {time.monotonic() - begun:.1f} s")
assert len(sent) - before >= 2
