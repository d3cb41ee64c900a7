import { beforeAll, expect, test, vi } from "vitest";

vi.stubGlobal("location", { origin: "http://hark.test", pathname: "/", search: "" });
vi.stubGlobal("navigator", { languages: ["en"] });
vi.stubGlobal("document", { documentElement: {} });

let exports: typeof import("./exports");
let i18n: typeof import("../i18n");
let speakers: typeof import("../ui/speakers");

beforeAll(async () => {
  exports = await import("./exports");
  i18n = await import("../i18n");
  speakers = await import("../ui/speakers");
});

test("files name speakers as the pages do, but for programs", () => {
  for (const language of ["de", "en"] as const) {
    i18n.chooseLanguage(language);
    for (const format of exports.FORMATS) {
      const word = new URL(exports.exportPath(7, format), "http://hark.test").searchParams.get("unnamed_speaker");
      expect(word === null ? null : `${word} 3`).toBe(format === "json" ? null : speakers.speakerName("SPEAKER_02"));
    }
  }
  expect(exports.exportPath(7, "srt", "zh-Hant")).toBe("/v1/transcripts/7/export/srt?language=zh-Hant&unnamed_speaker=Speaker");
  expect(exports.exportPath(7, "json")).toBe("/v1/transcripts/7/export/json");
});
