// The client of OpenAI, pointed at this server. npm install openai
import { createReadStream } from "node:fs";
import OpenAI from "openai";

const { HARK_URL, HARK_KEY } = process.env;
const client = new OpenAI({ baseURL: `${HARK_URL}/v1`, apiKey: HARK_KEY });

const transcription = await client.audio.transcriptions.create({
  model: "whisper-1",
  file: createReadStream(process.argv[2]),
});
console.log(transcription.text);
