import { readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { example, LANGUAGES, TASKS } from "./examples";
import { pieces } from "./highlight";
import { filtered, kindOf, operations } from "./operations";

const DOCUMENT = {
  tags: [{ name: "speech", description: "Words." }],
  security: [{ bearer: [] }],
  paths: {
    "/v1/transcribe": {
      post: {
        tags: ["speech"],
        operationId: "transcribe",
        summary: "Transcribe a recording",
        security: [{}, { bearer: [] }],
        parameters: [{ name: "async", in: "query", required: false, schema: { type: ["boolean", "null"] }, description: "at once" }],
        requestBody: { content: { "multipart/form-data": { schema: { $ref: "#/components/schemas/Form" } } } },
        responses: { "200": { description: "done" } },
      },
    },
    "/health": { get: { security: [], responses: {} } },
    "/v1/keys": { get: { tags: ["speech"], summary: "List keys" } },
  },
  components: {
    schemas: {
      Form: { type: "object", required: ["file"], properties: { file: { type: "string", format: "binary" }, style: { $ref: "#/components/schemas/Style" } } },
      Style: { oneOf: [{ type: "string", enum: ["brief"] }, { const: "detailed" }], description: "How." },
      Loop: { $ref: "#/components/schemas/Loop" },
    },
  },
};

describe("operations", () => {
  it("are grouped by tag, with parameters, body and who may call them", () => {
    const groups = operations(DOCUMENT);
    expect(groups.map((group) => [group.tag, group.operations.map((one) => `${one.method} ${one.path} ${one.key}`)])).toEqual([
      ["speech", ["POST /v1/transcribe optional", "GET /v1/keys needed"]],
      ["", ["GET /health none"]],
    ]);
    expect(groups[0]?.operations[0]).toMatchObject({
      parameters: [{ name: "async", where: "query", kind: "boolean or null", isRequired: false, meaning: "at once" }],
      body: {
        types: ["multipart/form-data"],
        fields: [
          { name: "file", kind: "file", isRequired: true },
          { name: "style", kind: "brief | detailed", isRequired: false, meaning: "How." },
        ],
      },
    });
  });

  it("survive a document that is none", () => {
    for (const nothing of [null, 1, [], { paths: { "/a": null, "/b": { get: 3 } } }]) expect(operations(nothing)).toEqual([]);
    expect(kindOf(DOCUMENT, { $ref: "#/components/schemas/Loop" })).toBe("Loop");
  });

  it("are filtered by all words", () => {
    const groups = operations(DOCUMENT);
    expect(filtered(groups, " post TRANSCRIBE ").flatMap((group) => group.operations.map((one) => one.path))).toEqual(["/v1/transcribe"]);
    expect(filtered(groups, "nothing like it")).toEqual([]);
    expect(filtered(groups, "").length).toBe(2);
  });
});

describe("examples", () => {
  it("are there for every task in every language", () => {
    for (const language of LANGUAGES) for (const task of TASKS) expect(example(language, task), `${language} ${task}`).toMatch(/HARK_URL/);
  });

  it("are all on the page", () => {
    const folder = new URL("../../../examples/", import.meta.url);
    const names = (path: string) => readdirSync(new URL(path, folder)).map((name) => name.split(".")[0]).sort();
    for (const path of ["curl", "python", "javascript", "rust/src/bin"]) expect(names(path)).toEqual([...TASKS].sort());
  });
});

describe("colours of programs", () => {
  it("leave nothing out", () => {
    for (const language of LANGUAGES) {
      for (const task of TASKS) expect(pieces(example(language, task), language).map((piece) => piece.text).join("")).toBe(example(language, task));
    }
  });

  it("know comments and texts", () => {
    expect(pieces('a = "x # y"  # z', "python")).toEqual([
      { text: "a = ", kind: "plain" },
      { text: '"x # y"', kind: "string" },
      { text: "  ", kind: "plain" },
      { text: "# z", kind: "comment" },
    ]);
    expect(pieces("let url = `http://x`; // y", "javascript").map((piece) => piece.kind)).toEqual(["plain", "string", "plain", "comment"]);
  });
});
