// A summary of a stored transcript, with its progress.
const { HARK_URL, HARK_KEY } = process.env;

const answer = await fetch(`${HARK_URL}/v1/transcripts/${process.argv[2]}/summarize`, {
  method: "POST",
  headers: {
    Authorization: `Bearer ${HARK_KEY}`,
    "Content-Type": "application/json",
    Accept: "text/event-stream",
  },
  // Or: brief, detailed, executive, action_items
  body: JSON.stringify({ style: "bullet_points" }),
});
if (!answer.ok) throw new Error((await answer.json()).error);

let rest = "";
for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
  const events = (rest + piece).split("\n\n");
  rest = events.pop();
  for (const event of events) {
    const [, name, json] = event.match(/^event: (.*)\ndata: (.*)$/) ?? [];
    if (!name) continue;
    const data = JSON.parse(json);
    if (name === "progress") console.error(`step ${data.done} of ${data.total}`);
    if (name === "result") console.log(data.summary);
    if (name === "error") throw new Error(data.error);
  }
}
