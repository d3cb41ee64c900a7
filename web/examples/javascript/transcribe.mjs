// The words of a recording, with their times.
import { readFile } from "node:fs/promises";
import { basename } from "node:path";

const { HARK_URL, HARK_KEY } = process.env;
const recording = process.argv[2];

const form = new FormData();
form.set("file", new Blob([await readFile(recording)]), basename(recording));
const answer = await fetch(`${HARK_URL}/v1/transcribe`, {
  method: "POST",
  headers: { Authorization: `Bearer ${HARK_KEY}` },
  body: form,
});
const transcript = await answer.json();
if (!answer.ok) throw new Error(transcript.error);

for (const segment of transcript.segments) console.log(segment.start.toFixed(2), segment.text);
