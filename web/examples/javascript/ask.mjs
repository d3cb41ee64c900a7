// Ask a stored transcript, and ask on.
const { HARK_URL, HARK_KEY } = process.env;
let session = null;

for (const question of ["What are they going to buy?", "And where?"]) {
  const answer = await fetch(`${HARK_URL}/v1/transcripts/${process.argv[2]}/chat`, {
    method: "POST",
    headers: { Authorization: `Bearer ${HARK_KEY}`, "Content-Type": "application/json" },
    body: JSON.stringify({ question, session_id: session }),
  });
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.error);
  session = said.session_id;
  console.log(said.answer);
  for (const source of said.sources) console.log(`    ${source.start_time} s: ${source.text}`);
}
