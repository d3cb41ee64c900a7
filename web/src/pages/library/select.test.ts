import { expect, test } from "vitest";
import { between, share } from "./select";

test("a click with the shift key takes every row in between, in both directions", () => {
  expect(between([1, 2, 3, 4, 5], 2, 4)).toEqual([2, 3, 4]);
  expect(between([1, 2, 3, 4, 5], 4, 2)).toEqual([2, 3, 4]);
  expect(between([1, 2, 3], null, 2)).toEqual([2]);
  expect(between([1, 2, 3], 9, 2)).toEqual([2]);
  expect(between([1, 2, 3], 1, 9)).toEqual([]);
});

test("the box of the page knows none, some and all", () => {
  expect(share([1, 2], new Set())).toBe("none");
  expect(share([1, 2], new Set([2, 9]))).toBe("some");
  expect(share([1, 2], new Set([1, 2]))).toBe("all");
  expect(share([], new Set([1]))).toBe("none");
});
