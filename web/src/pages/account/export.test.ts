import { describe, expect, it } from "vitest";
import { ExportCounter, readExport } from "./export";

const whole = `{"type":"account","id":1}\n{"type":"transcript","id":2,"text":"${"ü\\n".repeat(500)}"}\n{"type":"transcript","id":3,"text":"{\\"type\\":\\"end\\"}"}\n{"type":"end","at":"2026"}\n`;
const bytes = new TextEncoder().encode(whole);

function stream(pieces: Uint8Array<ArrayBuffer>[]) {
  return new ReadableStream<Uint8Array<ArrayBuffer>>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece);
      controller.close();
    },
  });
}

describe("an export", () => {
  it("is counted however it is cut", () => {
    for (const size of [1, 7, 64, 4096]) {
      const counter = new ExportCounter();
      let count;
      for (let at = 0; at < bytes.length; at += size) count = counter.push(bytes.subarray(at, at + size));
      expect(count).toEqual({ lines: 3, transcripts: 2, bytes: bytes.length, isWhole: true });
    }
  });

  it("is not whole without its last line", () => {
    const counter = new ExportCounter();
    const cut = whole.slice(0, whole.indexOf('{"type":"end","at"'));
    expect(counter.push(new TextEncoder().encode(cut)).isWhole).toBe(false);
  });

  it("is read into one file, or into none", async () => {
    const read = await readExport(stream([bytes.slice(0, 50), bytes.slice(50)]), () => undefined);
    expect(await read?.blob.text()).toBe(whole);
    expect(await readExport(stream([bytes.slice(0, 50)]), () => undefined)).toBeNull();
    expect(await readExport(stream([]), () => undefined)).toBeNull();
  });
});
