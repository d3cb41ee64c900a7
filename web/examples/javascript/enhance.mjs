// The recording without its noise.
import { readFile, writeFile } from "node:fs/promises";
import { basename } from "node:path";

const { HARK_URL, HARK_KEY } = process.env;
const recording = process.argv[2];

const form = new FormData();
form.set("file", new Blob([await readFile(recording)]), basename(recording));
const answer = await fetch(`${HARK_URL}/v1/enhance-audio`, {
  method: "POST",
  // Also: audio/flac, audio/mpeg, audio/ogg
  headers: { Authorization: `Bearer ${HARK_KEY}`, Accept: "audio/wav" },
  body: form,
});
if (!answer.ok) throw new Error((await answer.json()).error);

await writeFile("clean.wav", Buffer.from(await answer.arrayBuffer()));
