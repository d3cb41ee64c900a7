import { expect, test } from "vitest";
import { collect, type Wanted } from "./collect";

const item = (id: number, title: string): Wanted => ({ id, title, created_at: "2026-11-18T10:00:00Z" });
const text = (words: string) => new TextEncoder().encode(words);

test("one that fails is told and the others are there", async () => {
  const told: [number, number | null][] = [];
  const found = await collect([item(1, "a"), item(2, "b"), item(3, "A")], {
    ending: "txt",
    load: async ({ id }) => {
      if (id === 2) throw new Error("gone");
      return text(`text ${id}`);
    },
    retryAfter: () => null,
    onProgress: (done, now) => told.push([done, now?.id ?? null]),
    signal: new AbortController().signal,
  });
  expect(found.count).toBe(2);
  expect(found.failed.map(({ item: { id }, error }) => [id, (error as Error).message])).toEqual([[2, "gone"]]);
  const whole = new TextDecoder().decode(await new Blob(found.parts as BlobPart[]).arrayBuffer());
  expect(whole).toContain("a.txttext 1");
  expect(whole).toContain("A (2).txttext 3");
  expect(told).toEqual([[0, 1], [1, 2], [2, 3], [3, null]]);
});

test("a server that is busy is asked again, not for ever", async () => {
  let asked = 0;
  const waited: number[] = [];
  const options = {
    ending: "txt",
    retryAfter: () => 2,
    onProgress: () => undefined,
    signal: new AbortController().signal,
    wait: async (seconds: number) => void waited.push(seconds),
  };
  const found = await collect([item(1, "a")], {
    ...options,
    load: async () => {
      asked += 1;
      if (asked < 3) throw new Error("busy");
      return text("here");
    },
  });
  expect([found.count, waited]).toEqual([1, [2, 2]]);
  const never = await collect([item(1, "a")], { ...options, load: async () => Promise.reject(new Error("busy")) });
  expect([never.parts, never.failed.length]).toEqual([null, 1]);
});

test("cancelling ends it", async () => {
  const abort = new AbortController();
  const running = collect([item(1, "a"), item(2, "b")], {
    ending: "txt",
    load: async () => {
      abort.abort();
      return text("x");
    },
    retryAfter: () => null,
    onProgress: () => undefined,
    signal: abort.signal,
  });
  await expect(running).rejects.toMatchObject({ name: "AbortError" });
});
