import { expect, it } from "vitest";
import { captionMessage } from "./channel";
import { FIRST_LOOK, readLook, sized, SIZES } from "./caption-look";

it("remembers a look, and takes nothing that is none", () => {
  const look = { size: 7, lines: 2, colours: "yellow" as const, font: "wide" as const, hasNames: false };
  expect(readLook(JSON.stringify(look))).toEqual(look);
  for (const text of [null, "{", "[]", "null", '{"size":"big","colours":"pink","font":3,"lines":1.5,"hasNames":0}']) expect(readLook(text)).toEqual(FIRST_LOOK);
  expect(readLook('{"size":99,"lines":0}')).toMatchObject({ size: SIZES.length - 1, lines: 1 });
});

it("grows and shrinks within what there is", () => {
  expect(sized(FIRST_LOOK, 1).size).toBe(FIRST_LOOK.size + 1);
  expect(sized({ ...FIRST_LOOK, size: SIZES.length - 1 }, 1).size).toBe(SIZES.length - 1);
  expect(sized({ ...FIRST_LOOK, size: 0 }, -1).size).toBe(0);
});

it("hears only messages of the channel", () => {
  expect(captionMessage({ kind: "hello", more: 1 })).toEqual({ kind: "hello" });
  for (const data of [null, 7, "hello", {}, { kind: "text" }, { kind: "text", from: "a", partial: "", paragraphs: 5 }]) expect(captionMessage(data)).toBe(null);
  expect(captionMessage({ kind: "text", from: "a", partial: "", paragraphs: [], state: "live" })).toMatchObject({ from: "a" });
});
