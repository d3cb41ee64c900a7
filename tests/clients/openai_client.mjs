// The official openai package against a real server: only the base address is changed.

import assert from "node:assert/strict";
import fs from "node:fs";
import { pathToFileURL } from "node:url";

const openai = await import(pathToFileURL(process.argv[2]));
const OpenAI = openai.default;
const { HARK_ADDRESS, HARK_KEY, RECORDINGS } = process.env;

let sent = 0;
const client = new OpenAI({
  baseURL: `${HARK_ADDRESS}/v1`,
  apiKey: HARK_KEY,
  fetch: (...all) => {
    sent += 1;
    return fetch(...all);
  },
});
const recording = (name) => fs.createReadStream(`${RECORDINGS}/${name}`);
const transcribe = (options = {}) =>
  client.audio.transcriptions.create({ model: "whisper-1", file: recording("english.wav"), ...options });

function assertHeard(text, words = ["weather", "market", "apples", "bread"]) {
  const missing = words.filter((word) => !text.toLowerCase().includes(word));
  assert.ok(missing.length <= 1, `${missing} not heard in: ${text}`);
}

/** The error of an action that must fail, after so many requests. */
async function refused(kind, action, tries = 1) {
  const before = sent;
  try {
    await action();
  } catch (error) {
    assert.ok(error instanceof kind, `${error.constructor.name}: ${error.message}`);
    assert.equal(sent - before, tries, error.message);
    assert.ok(error.requestID);
    assert.equal(error.message, `${error.status} ${error.error.message}`);
    return error;
  }
  assert.fail("nothing was refused");
}

// Formats.
const answer = await transcribe({ file: recording("english.mp3") });
assertHeard(answer.text);
assert.equal(answer.usage.type, "duration");
console.log("json:        ", answer.text);
assertHeard(await transcribe({ response_format: "text" }));
const srt = await transcribe({ response_format: "srt" });
assert.match(srt, /^1\n00:00:0\d,\d{3} --> /);
const vtt = await transcribe({ response_format: "vtt" });
assert.match(vtt, /^WEBVTT\n/);
const verbose = await transcribe({ response_format: "verbose_json", timestamp_granularities: ["word", "segment"] });
assert.equal(verbose.language, "english");
assert.ok(verbose.words.length > 10 && verbose.segments[0].end <= verbose.duration + 0.1);
console.log("verbose_json:", verbose.language, verbose.duration, verbose.words[0]);

// Events.
const events = [];
for await (const event of await transcribe({ stream: true })) events.push(event);
const done = events.pop();
assert.equal(done.type, "transcript.text.done");
assert.equal(events.map((event) => event.delta).join(""), done.text);
assertHeard(done.text);
console.log("events:      ", events.length, "deltas, then", done.type);

// Translation.
const english = await client.audio.translations.create({ model: "gpt-4o-transcribe", file: recording("spanish.wav") });
assertHeard(english.text, ["good morning", "today", "market", "buy"]);
console.log("translation: ", english.text);

// Models.
const names = [];
for await (const model of client.models.list()) names.push(model.id);
assert.ok(names.includes("whisper-1"));
assert.equal((await client.models.retrieve("whisper-tiny")).id, "whisper-tiny");

// Errors: no request more than one where a repeat is of no use.
let error = await refused(OpenAI.BadRequestError, () => transcribe({ model: "gpt-17" }));
assert.equal(error.code, "model_not_found");
assert.equal(error.param, "model");
console.log("error:       ", error.message);
await refused(OpenAI.BadRequestError, () => transcribe({ file: recording("broken.wav") }));
const stranger = client.withOptions({ apiKey: "sk-wrong" });
const wrong = () => stranger.audio.transcriptions.create({ model: "whisper-1", file: recording("english.wav") });
error = await refused(OpenAI.AuthenticationError, wrong);
assert.equal(error.code, "invalid_api_key");
const embedded = await client.embeddings.create({ model: "x", input: ["a text", "another"] });
assert.deepEqual(embedded.data.map((one) => one.embedding.length), [384, 384]);
// Chat completions.
const question = [
  { role: "developer", content: "Answer in one short sentence." },
  { role: "user", content: [{ type: "text", text: "What is the capital of France?" }] },
];
const asked = { model: "smollm2-135m-instruct", messages: question, temperature: 0, max_tokens: 40 };
const said = await client.chat.completions.create(asked);
assert.match(said.choices[0].message.content, /Paris/);
assert.ok(said.usage.completion_tokens > 0 && said.usage.completion_tokens <= 40);
let streamed = "";
for await (const chunk of await client.chat.completions.create({ ...asked, stream: true })) {
  streamed += chunk.choices[0]?.delta?.content ?? "";
}
assert.equal(streamed, said.choices[0].message.content);
console.log("chat:        ", streamed);
error = await refused(OpenAI.NotFoundError, () => client.chat.completions.create({ ...asked, model: "gpt-4o" }));
assert.equal(error.code, "model_not_found");
// Our own paths answer with a string, which this package shows.
await assert.rejects(stranger.get("/account"), (own) => own.status === 401 && own.message.includes("not valid"));
await refused(OpenAI.NotFoundError, () => client.models.retrieve("nothing"));
