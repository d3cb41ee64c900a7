import { expect, test } from "vitest";
import { pageCount, period, readView, startOfDay, titleMatches } from "./address";

const view = (text: string) => readView(new URLSearchParams(text));

test("an address that makes no sense is the plain list", () => {
  const plain = { q: "", mode: "all", page: 1, status: "", language: "", title: "", from: "", to: "", ask: false };
  expect(view("")).toEqual(plain);
  expect(view("page=-3&status=lost&mode=deep&from=yesterday&to=2026-99-99&language=../x")).toEqual(plain);
});

test("an address says what is shown", () => {
  const found = view("q=the+%22red+line%22&mode=text&page=3&language=pt-BR&from=2026-11-01&to=2026-11-18&status=failed&ask=1");
  expect(found).toMatchObject({ q: 'the "red line"', mode: "text", page: 3, language: "pt-BR", status: "failed", ask: true });
});

test("days are those of the reader, and the last one is included", () => {
  expect(startOfDay("2026-02-28", 1)).toBe(new Date(2026, 2, 1).toISOString());
  const found = period({ from: "2026-11-01", to: "2026-11-01" });
  const hours = (Date.parse(found.created_before ?? "") - Date.parse(found.created_after ?? "")) / 3_600_000;
  expect(hours).toBe(24);
  expect(period({ from: "", to: "" })).toEqual({});
});

test("titles are compared word by word without case and accents", () => {
  expect(titleMatches("Größe der Müllabfuhr.mp3", "mull grosse")).toBe(false);
  expect(titleMatches("Café am Markt.mp3", "markt cafe")).toBe(true);
  expect(titleMatches("anything", "  ")).toBe(true);
});

test("pages are counted, and there is at least one", () => {
  expect([pageCount(0, 20), pageCount(20, 20), pageCount(21, 20)]).toEqual([1, 1, 2]);
});
