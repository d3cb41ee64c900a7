import { describe, expect, it } from "vitest";
import { grouped, pulled, withModel, type CatalogueModel } from "./catalogue";

const model = (name: string, role: string, part: Partial<CatalogueModel> = {}): CatalogueModel => ({
  name,
  title: name,
  role,
  description: "",
  bytes: 1,
  license: "MIT",
  license_note: "",
  is_default: false,
  installed: false,
  pulling: false,
  ...part,
});

describe("the catalogue", () => {
  it("is grouped by what models do, in an order of its own", () => {
    const groups = grouped([model("runtime", "runtime"), model("e", "embedding"), model("tiny", "transcription", { installed: true }), model("base", "transcription"), model("v", "vad")]);
    expect(groups.map((group) => [group.id, group.models.map((one) => one.name), group.installed, group.isMixed])).toEqual([
      ["speech", ["tiny", "base"], 1, false],
      ["speakers", ["e", "v"], 0, true],
      ["other", ["runtime"], 0, false],
    ]);
    expect(grouped([model("x", "a role of tomorrow")]).map((group) => group.id)).toEqual(["other"]);
    expect(grouped([])).toEqual([]);
  });

  it("knows how far a pull is", () => {
    expect(pulled({ bytes_done: 5, bytes_total: 10 })).toBe(0.5);
    expect(pulled({ bytes_done: 11, bytes_total: 10 })).toBe(1);
    expect(pulled({ bytes_done: 5 })).toBeNull();
    expect(pulled({ bytes_done: 0, bytes_total: 0 })).toBeNull();
    expect(pulled({})).toBeNull();
  });

  it("takes the answer to a pull in", () => {
    const pulling = model("b", "vad", { pulling: true });
    expect(withModel([model("a", "vad"), model("b", "vad")], pulling)).toEqual([model("a", "vad"), pulling]);
  });
});
