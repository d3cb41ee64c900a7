// Words while they are spoken. Browsers and Node.js 22 have WebSocket built in.
import { spawn } from "node:child_process";

const { HARK_URL, HARK_KEY } = process.env;
const socket = new WebSocket(`${HARK_URL.replace("http", "ws")}/v1/stream`);

socket.onopen = () => {
  socket.send(JSON.stringify({ token: HARK_KEY, language: "en" }));
  // A file as if it were a microphone; instead of it, for example: -f pulse -i default
  const format = ["-f", "s16le", "-ar", "16000", "-ac", "1", "-"];
  const ffmpeg = spawn("ffmpeg", ["-v", "error", "-re", "-i", process.argv[2], ...format]);
  ffmpeg.stdout.on("data", (sound) => socket.send(sound));
  ffmpeg.stdout.on("end", () => socket.send(JSON.stringify({ action: "stop" })));
};

socket.onmessage = ({ data }) => {
  const said = JSON.parse(data);
  if (said.error) throw new Error(said.error);
  if (said.is_final) socket.close(1000);
  else if (said.text) console.log(said.text);
  else if (said.partial) console.error("…", said.partial);
};
socket.onerror = () => {
  throw new Error("the connection failed");
};
