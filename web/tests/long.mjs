/**
 * How fast the page of a two-hour transcript is: node tests/long.mjs URL EMAIL PASSWORD [ROUNDS].
 *
 * The text (25,000 words, three speakers) is generated and given to the page in place of the server's answer: what is measured is the page.
 * Printed are the medians and the worst over all rounds: opening from the library until two frames were drawn, the time between frames while the
 * whole text is scrolled through, and for each key typed into a passage the time of our code and the time until its frame.
 */

import { launch, signedIn } from "./browser.mjs";

const [url, email, password, wanted = "5"] = process.argv.slice(2);
if (!password) throw new Error("usage: long.mjs URL EMAIL PASSWORD [ROUNDS]");

const WORDS = "the quick brown fox jumps over a lazy dog and then it rests near old river banks while everybody watches quietly".split(" ");

function transcript(count) {
  const segments = [];
  let words = 0;
  let time = 0;
  while (words < count) {
    const length = 8 + ((segments.length * 7) % 9);
    const said = Array.from({ length }, (_, at) => {
      const start = time;
      time += 0.288;
      return { word: WORDS[(words * 13 + at * 5) % WORDS.length] + (at === length - 1 ? "." : ""), start, end: start + 0.26, confidence: (words + at) % 23 ? 0.95 : 0.3 };
    });
    words += length;
    const text = said.map((word) => word.word).join(" ");
    segments.push({ start: said[0].start, end: time, text, speaker: `SPEAKER_0${Math.floor(segments.length / 5) % 3}`, confidence: 0.9, words: said });
  }
  const text = segments.map((segment) => segment.text).join(" ");
  return {
    id: 77, title: "Two hours", status: "completed", language: "en", duration_seconds: time, word_count: words, num_speakers: 3, source_type: "web",
    summary: null, is_encrypted: false, created_at: "2026-11-19T10:00:00Z", share_token: null, text, segments,
  };
}

const detail = transcript(25_000);
const body = JSON.stringify(detail);
const browser = await launch();
const context = await signedIn(browser, url, email, password, { viewport: { width: 1280, height: 900 } });

const opened = [];
const frames = [];
const code = [];
const keys = [];
for (let round = 0; round < Number(wanted); round += 1) {
  const page = await context.newPage();
  await page.route("**/v1/transcripts/77", (route) => route.fulfill({ contentType: "application/json", body }));
  await page.route("**/v1/transcripts/77/recording", (route) => route.fulfill({ status: 404, contentType: "application/json", body: '{"error":"not kept"}' }));
  await page.goto("/library");
  await page.waitForTimeout(1500);
  opened.push(
    await page.evaluate(async () => {
      const began = performance.now();
      const link = document.createElement("a");
      link.href = "/t/77";
      document.body.append(link);
      link.click();
      while (!document.querySelector(".transcript-segment")) await new Promise((resolve) => setTimeout(resolve, 4));
      await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
      return performance.now() - began;
    }),
  );
  await page.waitForTimeout(500);
  frames.push(
    ...(await page.evaluate(async () => {
      const gaps = [];
      let last = performance.now();
      const end = last + 4000;
      while (performance.now() < end) {
        scrollBy(0, 120);
        await new Promise((resolve) => requestAnimationFrame(resolve));
        gaps.push(performance.now() - last);
        last = performance.now();
      }
      return gaps;
    })),
  );
  const passage = page.locator(".transcript-segment").nth(900);
  await passage.scrollIntoViewIfNeeded();
  await passage.dblclick();
  await page.evaluate(() => {
    globalThis.measured = { code: [], keys: [] };
    let began = 0;
    addEventListener("beforeinput", () => (began = performance.now()), true);
    addEventListener("input", () => globalThis.measured.code.push(performance.now() - began));
    document.addEventListener("keydown", () => {
      const pressed = performance.now();
      requestAnimationFrame(() => {
        const after = new MessageChannel();
        after.port1.onmessage = () => globalThis.measured.keys.push(performance.now() - pressed);
        after.port2.postMessage(0);
      });
    }, true);
  });
  await page.keyboard.type("some words are typed here quite quickly to see how long each key takes ", { delay: 30 });
  const measured = await page.evaluate(() => globalThis.measured);
  code.push(...measured.code);
  keys.push(...measured.keys);
  await page.close();
}
await browser.close();

function line(name, values, limit) {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))].toFixed(1);
  const over = limit ? `, ${sorted.filter((value) => value > limit).length} over ${limit}` : "";
  console.log(`${name.padEnd(24)} median ${at(0.5)} ms, p95 ${at(0.95)}, worst ${at(1)} (${sorted.length})${over}`);
}
console.log(`${detail.word_count} words in ${detail.segments.length} segments, ${(detail.duration_seconds / 3600).toFixed(1)} h, ${(body.length / 1e6).toFixed(1)} MB of JSON, ${wanted} rounds`);
line("opened", opened, 1000);
line("frame while scrolling", frames, 34);
line("key, our code", code, 16);
line("key to its frame", keys, 16);
