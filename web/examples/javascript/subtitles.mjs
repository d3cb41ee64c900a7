// Tell the speakers apart, and take the stored transcript as subtitles.
import { readFile } from "node:fs/promises";
import { basename } from "node:path";

const { HARK_URL, HARK_KEY } = process.env;
const headers = { Authorization: `Bearer ${HARK_KEY}` };
const recording = process.argv[2];

const form = new FormData();
form.set("file", new Blob([await readFile(recording)]), basename(recording));
form.set("diarize", "true");
const answer = await fetch(`${HARK_URL}/v1/transcribe`, { method: "POST", headers, body: form });
if (!answer.ok) throw new Error((await answer.json()).error);

// Other formats: txt, vtt, json, csv, docx, pdf.
const id = answer.headers.get("X-Transcript-Id");
const subtitles = await fetch(`${HARK_URL}/v1/transcripts/${id}/export/srt`, { headers });
console.log(await subtitles.text());
