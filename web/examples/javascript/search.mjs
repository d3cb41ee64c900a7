// Passages of all your transcripts in which something is said, best first.
const { HARK_URL, HARK_KEY } = process.env;

const query = new URLSearchParams({ q: "apples and bread", limit: "5" });
const answer = await fetch(`${HARK_URL}/v1/search?${query}`, {
  headers: { Authorization: `Bearer ${HARK_KEY}` },
});
const found = await answer.json();
if (!answer.ok) throw new Error(found.error);

for (const hit of found.hits) console.log(`${hit.title}, ${hit.start_time} s: ${hit.text}`);
