import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { crc32, dosTime, ZipWriter } from "./zip";

const bytes = (text: string) => new TextEncoder().encode(text);

function joined(parts: Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** The files of an archive by its directory, as an unpacker reads it. */
function unpacked(archive: Uint8Array): { name: string; data: string }[] {
  const view = new DataView(archive.buffer);
  const end = archive.length - 22;
  expect(view.getUint32(end, true)).toBe(0x06054b50);
  const count = view.getUint16(end + 10, true);
  const size = view.getUint32(end + 12, true);
  let at = view.getUint32(end + 16, true);
  expect(at + size).toBe(end);
  const files = [];
  for (let file = 0; file < count; file += 1) {
    expect(view.getUint32(at, true)).toBe(0x02014b50);
    expect(view.getUint16(at + 8, true) & 0x0800).toBe(0x0800);
    const crc = view.getUint32(at + 16, true);
    const length = view.getUint32(at + 24, true);
    const nameLength = view.getUint16(at + 28, true);
    const local = view.getUint32(at + 42, true);
    expect(view.getUint32(local, true)).toBe(0x04034b50);
    const from = local + 30 + view.getUint16(local + 26, true);
    const data = archive.slice(from, from + length);
    expect(crc32(data)).toBe(crc);
    files.push({ name: new TextDecoder().decode(archive.slice(at + 46, at + 46 + nameLength)), data: new TextDecoder().decode(data) });
    at += 46 + nameLength;
  }
  expect(at).toBe(end);
  return files;
}

test("the checksum is that of the standard's check value", () => {
  expect(crc32(bytes("123456789"))).toBe(0xcbf43926);
  expect(crc32(new Uint8Array())).toBe(0);
});

test("dates are those of MS-DOS, within its years", () => {
  expect(dosTime(new Date(2026, 10, 18, 13, 7, 45))).toEqual({ time: (13 << 11) | (7 << 5) | 22, day: (46 << 9) | (11 << 5) | 18 });
  expect(dosTime(new Date(1970, 0, 1))).toEqual({ time: 0, day: 33 });
  expect(dosTime(new Date(Number.NaN))).toEqual({ time: 0, day: 33 });
  expect(dosTime(new Date(2200, 0, 1)).day >> 9).toBe(127);
});

test("an archive has its files with their names in any script", () => {
  const zip = new ZipWriter();
  const files = [
    { name: "Größe.txt", data: "Größe\n" },
    { name: "会議 🎙.srt", data: "1\n" },
    { name: "empty.txt", data: "" },
  ];
  for (const file of files) zip.add({ name: file.name, data: bytes(file.data), date: new Date(2026, 0, 2) });
  expect(zip.count).toBe(3);
  expect(unpacked(joined(zip.finish()))).toEqual(files);
});

test("an archive without files is one", () => {
  expect(unpacked(joined(new ZipWriter().finish()))).toEqual([]);
});

test("python's zipfile reads what was written", ({ skip }) => {
  try {
    execFileSync("python3", ["--version"], { stdio: "ignore" });
  } catch {
    skip();
  }
  const folder = mkdtempSync(join(tmpdir(), "hark-zip-"));
  try {
    const zip = new ZipWriter();
    const big = new Uint8Array(300_000).map((_, at) => at % 251);
    zip.add({ name: "Größe/会議 🎙.txt", data: bytes("Guten Tag"), date: new Date(2026, 10, 18, 9, 30, 2) });
    zip.add({ name: "big.bin", data: big, date: new Date(2026, 10, 18) });
    const path = join(folder, "a.zip");
    writeFileSync(path, joined(zip.finish()));
    const script = [
      "import sys, zipfile, json, zlib",
      "z = zipfile.ZipFile(sys.argv[1])",
      "assert z.testzip() is None",
      "print(json.dumps([[i.filename, list(i.date_time), i.file_size, i.compress_type, zlib.crc32(z.read(i))] for i in z.infolist()]))",
    ].join("\n");
    const told: unknown = JSON.parse(execFileSync("python3", ["-c", script, path], { encoding: "utf8" }));
    expect(told).toEqual([
      ["Größe/会議 🎙.txt", [2026, 11, 18, 9, 30, 2], 9, 0, crc32(bytes("Guten Tag"))],
      ["big.bin", [2026, 11, 18, 0, 0, 0], 300_000, 0, crc32(big)],
    ]);
    expect(readFileSync(path).length).toBeGreaterThan(300_000);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
