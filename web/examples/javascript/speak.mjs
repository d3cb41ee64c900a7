// A text, spoken. GET /v1/voices lists the voices. npm install openai
import { writeFile } from "node:fs/promises";
import OpenAI from "openai";

const { HARK_URL, HARK_KEY } = process.env;
const client = new OpenAI({ baseURL: `${HARK_URL}/v1`, apiKey: HARK_KEY });

const speech = await client.audio.speech.create({
  model: "tts-1",
  voice: "af_heart",
  input: "Good morning.",
  response_format: "wav",
});
await writeFile("speech.wav", Buffer.from(await speech.arrayBuffer()));
