"""What schemathesis has to know of this service beyond its document. Changes data that fit the document only where the document can't say
what fits: which recordings hold sound, which ids, models and languages are there."""

import io
import itertools
import json
import os
import random
import time
import urllib.request
import wave

import schemathesis
from hypothesis import strategies as st

KEY = os.environ["HARK_CONTRACT_KEY"]
ADDRESS = os.environ["HARK_CONTRACT_ADDRESS"]


def ask(method, path, body=None):
    """One request of our own, with the key of this run."""
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(ADDRESS + path, data=data, method=method, headers=headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer), answer.headers


def send(path, recording):
    """Sends a recording and gives the headers of the answer."""
    body = b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n' + recording + b"\r\n--xyz--\r\n"
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "multipart/form-data; boundary=xyz"}
    request = urllib.request.Request(ADDRESS + path, data=body, headers=headers)
    with urllib.request.urlopen(request) as answer:
        return answer.headers


def upload(recording):
    """Transcribes a recording and gives the id of its transcript."""
    return int(send("/v1/transcribe", recording)["X-Transcript-Id"])


def enhanced(recording):
    """Takes the noise out of a recording and gives the id of the enhancement once it is completed."""
    number = int(send("/v1/enhance-audio?async=true", recording)["X-Enhancement-Id"])
    for _ in range(600):
        state = ask("GET", f"/v1/enhancements/{number}")[0]
        if state["status"] == "completed":
            return number
        assert state["status"] != "failed", state
        time.sleep(0.1)
    raise AssertionError("an enhancement is not completed within a minute")


def silence(seconds):
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setnchannels(1)
        wav.setsampwidth(2)
        wav.setframerate(16000)
        wav.writeframes(bytes(2 * int(16000 * seconds)))
    return file.getvalue()


with open(os.environ["HARK_CONTRACT_TALK"], "rb") as file:
    TALK = file.read()
with open(os.environ["HARK_CONTRACT_VOICE"], "rb") as file:
    VOICE = file.read()
# Silence is understood at once; a few recordings of speech show that words fit the document, too, and a longer one that a voice can be known.
schemathesis.openapi.format("binary", st.sampled_from([silence(0.1), silence(0.2), silence(0.3), TALK, VOICE]))
# Passwords that nobody finds too simple.
schemathesis.openapi.format("password", st.from_regex(r"[a-z]{4}-[A-Z]{4}-[0-9]{4}", fullmatch=True))

# A transcript with words that is shared, and the id of the key of this run, which must stay as it is.
SPOKEN = upload(TALK)
assert ask("GET", f"/v1/transcripts/{SPOKEN}")[0]["word_count"] > 0, "the recording of speech has no words"
SHARED = ask("PATCH", f"/v1/transcripts/{SPOKEN}", {"shared": True})[0]["share_token"]
OWN_KEY = ask("GET", "/v1/keys")[0]["keys"][0]["id"]
TRANSCRIPTS = [upload(TALK) for _ in range(4)]
ENHANCEMENTS = [enhanced(TALK) for _ in range(2)]
DICE = random.Random(1)
ADDRESSES = itertools.count(1)


@schemathesis.hook
def before_load_schema(context, schema):
    # Which models and languages there are, and which addresses it calls, depends on the server.
    languages = ["auto"] + [one["code"] for one in ask("GET", "/v1/languages")[0]["languages"]]
    for form in ("TranscribeForm", "EnhanceForm"):
        # Nobody guesses the number of a complete upload; without one a file is needed.
        form = schema["components"]["schemas"][form]
        del form["properties"]["upload"]
        form["required"] = ["file"]
    for form in ("TranscribeForm", "OpenAiTranscriptionForm", "OpenAiTranslationForm"):
        fields = schema["components"]["schemas"][form]["properties"]
        fields["model"]["enum"] = ["whisper-tiny", "large-v3-turbo", "large-v3", "svc-ai-enhanced", "medium", "small"]
        if "language" in fields:
            fields["language"]["enum"] = languages
        if "webhook_url" in fields:
            fields["webhook_url"]["enum"] = ["https://hark.invalid/told"]


def fits(case):
    """Whether every part of a request was made to fit the document."""
    return case.meta is not None and case.meta.generation.mode.is_positive


@schemathesis.hook
def before_call(context, case, kwargs):
    # Limits by address (new accounts, wrong passwords) would end most of the run.
    number = next(ADDRESSES)
    case.headers["X-Forwarded-For"] = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    operation = case.operation.definition.raw.get("operationId")
    if operation in ("revokeKey", "changeKey", "rollKey") and str(case.path_parameters.get("id")) == str(OWN_KEY):
        case.path_parameters["id"] = 0
    if not fits(case):
        return
    if operation == "retrieveModel" and DICE.random() < 0.5:
        case.path_parameters["id"] = "whisper-tiny"
    if operation == "forgetSpeaker" and DICE.random() < 0.5:
        known = ask("GET", "/v1/speakers")[0]["speakers"]
        case.path_parameters["id"] = known[0]["id"] if known else 0
    if operation == "showShared" and DICE.random() < 0.5:
        case.path_parameters["token"] = SHARED
    if case.path.startswith("/v1/transcripts/{id}") and operation != "deleteTranscript" and DICE.random() < 0.5:
        # Ids are random numbers of 40 bits: nobody guesses one.
        case.path_parameters["id"] = DICE.choice(TRANSCRIPTS)
    if operation in ("showEnhancement", "enhancedAudio") and DICE.random() < 0.5:
        case.path_parameters["id"] = DICE.choice(ENHANCEMENTS)
