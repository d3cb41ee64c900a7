/** Parts of a file against a server that breaks off, forgets, and is elsewhere. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";

type Answer = { status: number; body: unknown } | "broken";

/** What the requests of a test were, and what they are answered with. */
let sent: { method: string; url: string; bytes: number }[];
let answers: ((url: string, bytes: number) => Answer)[];

class FakeRequest {
  status = 0;
  statusText = "";
  responseType = "";
  responseText = "";
  response: unknown = null;
  upload: { onprogress?: (event: unknown) => void; onload?: () => void } = {};
  onload?: () => void;
  onerror?: () => void;
  #method = "";
  #url = "";
  open(method: string, url: string): void {
    this.#method = method;
    this.#url = url;
  }
  setRequestHeader(): void {}
  getResponseHeader(): string | null {
    return null;
  }
  abort(): void {}
  send(body: Blob): void {
    sent.push({ method: this.#method, url: this.#url, bytes: body.size });
    const answer = answers.shift()?.(this.#url, body.size) ?? "broken";
    queueMicrotask(() => {
      if (answer === "broken") this.onerror?.();
      else {
        this.status = answer.status;
        this.responseText = JSON.stringify(answer.body);
        this.onload?.();
      }
    });
  }
}

const MB = 1024 * 1024;
let there: { id: number; size: number; offset: number } | null;

beforeEach(() => {
  sent = [];
  answers = [];
  there = null;
  const store = new Map<string, string>();
  vi.stubGlobal("location", { origin: "http://hark.test" });
  vi.stubGlobal("localStorage", { getItem: (key: string) => store.get(key) ?? null, setItem: (key: string, value: string) => store.set(key, value), removeItem: (key: string) => store.delete(key) });
  vi.stubGlobal("XMLHttpRequest", FakeRequest);
  vi.stubGlobal("fetch", async (request: Request) => {
    sent.push({ method: request.method, url: new URL(request.url).pathname, bytes: 0 });
    if (request.method === "POST") there = { id: 7, size: ((await request.json()) as { size: number }).size, offset: 0 };
    return there ? Response.json(there, { status: request.method === "POST" ? 201 : 200 }) : Response.json({ error: "not found" }, { status: 404 });
  });
});

afterEach(() => {
  vi.unstubAllGlobals();
  vi.resetModules();
});

async function send(file: File) {
  const { sendInParts } = await import("./resumable");
  const progress: number[] = [];
  const broken: boolean[] = [];
  const id = await sendInParts(file, { signal: new AbortController().signal, onProgress: (bytes) => progress.push(bytes), onBroken: (is) => broken.push(is), pause: async () => undefined });
  return { id, progress, broken };
}

const file = (size: number) => new File([new Uint8Array(size)], "talk.wav", { lastModified: 1 });

function stores(_: string, bytes: number): Answer {
  if (there) there.offset += bytes;
  return { status: 200, body: there };
}

test("a file is sent part by part", async () => {
  answers = [stores, stores, stores];
  const { id } = await send(file(70 * MB));
  expect(id).toBe(7);
  expect(sent.filter((request) => request.method === "PUT").map(({ url, bytes }) => [url, bytes])).toEqual([
    ["/v1/uploads/7?offset=0", 32 * MB],
    [`/v1/uploads/7?offset=${32 * MB}`, 32 * MB],
    [`/v1/uploads/7?offset=${64 * MB}`, 6 * MB],
  ]);
});

test("after a break it goes on where the server is", async () => {
  answers = [
    () => {
      if (there) there.offset = 8 * MB;
      return "broken";
    },
    stores,
  ];
  const { broken } = await send(file(20 * MB));
  expect(broken).toContain(true);
  expect(broken.at(-1)).toBe(false);
  expect(sent.filter((request) => request.method === "PUT").map(({ url, bytes }) => [url, bytes])).toEqual([
    ["/v1/uploads/7?offset=0", 20 * MB],
    [`/v1/uploads/7?offset=${8 * MB}`, 12 * MB],
  ]);
});

test("the same file goes on in another visit, and begins anew where its upload is gone", async () => {
  answers = [() => ({ status: 400, body: { error: "no" } })];
  await expect(send(file(20 * MB))).rejects.toThrow("no");
  if (there) there.offset = 16 * MB;
  answers = [stores];
  await send(file(20 * MB));
  expect(sent.at(-1)).toEqual({ method: "PUT", url: `/v1/uploads/7?offset=${16 * MB}`, bytes: 4 * MB });
  there = null;
  answers = [stores];
  await send(file(20 * MB));
  expect(sent.at(-1)).toEqual({ method: "PUT", url: "/v1/uploads/7?offset=0", bytes: 20 * MB });
});

test("what does not pass is told at once", async () => {
  answers = [() => ({ status: 413, body: { error: "too large" } })];
  await expect(send(file(20 * MB))).rejects.toMatchObject({ status: 413, message: "too large" });
  expect(sent.filter((request) => request.method === "PUT").length).toBe(1);
});
