// A long recording: the answer comes at once, the transcript when it is ready.
import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const { HARK_URL, HARK_KEY } = process.env;
const headers = { Authorization: `Bearer ${HARK_KEY}` };
const recording = process.argv[2];

const form = new FormData();
form.set("file", new Blob([await readFile(recording)]), basename(recording));
const answer = await fetch(`${HARK_URL}/v1/transcribe`, {
  method: "POST",
  headers: { ...headers, Prefer: "respond-async" },
  body: form,
});
const { id, error } = await answer.json();
if (!answer.ok) throw new Error(error);

for (;;) {
  const state = await (await fetch(`${HARK_URL}/v1/transcripts/${id}/status`)).json();
  console.log(state.status, `${state.progress} %`);
  if (state.status === "completed") break;
  if (state.status === "failed") throw new Error(state.error);
  await sleep(2000);
}

const transcript = await (await fetch(`${HARK_URL}/v1/transcripts/${id}`, { headers })).json();
console.log(transcript.text);
