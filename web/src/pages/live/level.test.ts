import { expect, it } from "vitest";
import { heard, NO_LEVEL, waited, type Level, type Measure } from "./level";

const speech: Measure = { peak: 0.3, rms: 0.1, clipped: 0, seconds: 0.1 };
const nothing: Measure = { peak: 0.0005, rms: 0.0002, clipped: 0, seconds: 0.1 };

function after(level: Level, measure: Measure, times: number): Level {
  for (let count = 0; count < times; count += 1) level = heard(level, measure);
  return level;
}

it("warns after five seconds without sound, until there is some", () => {
  expect(after(NO_LEVEL, nothing, 49).warning).toBe(null);
  const silent = after(NO_LEVEL, nothing, 50);
  expect(silent.warning).toBe("silent");
  expect(heard(silent, speech).warning).toBe(null);
});

it("warns of sound that is cut off, for a while", () => {
  const loud = heard(NO_LEVEL, { peak: 1, rms: 0.6, clipped: 12, seconds: 0.1 });
  expect(loud.warning).toBe("clipped");
  expect(after(loud, speech, 20).warning).toBe("clipped");
  expect(after(loud, speech, 41).warning).toBe(null);
  expect(heard(NO_LEVEL, { peak: 1, rms: 0.2, clipped: 1, seconds: 0.1 }).warning).toBe(null);
});

it("rises at once and falls slowly", () => {
  const level = heard(NO_LEVEL, speech);
  expect(level.value).toBeCloseTo(1 - 20 / 60);
  const falling = heard(level, nothing);
  expect(falling.value).toBeLessThan(level.value);
  expect(falling.value).toBeGreaterThan(level.value - 0.1);
  expect(after(level, nothing, 30).value).toBe(0);
});

it("takes a source that gives nothing at all for a silent one", () => {
  let level = heard(NO_LEVEL, speech);
  for (let second = 0; second < 4; second += 1) level = waited(level, 1);
  expect(level.warning).toBe(null);
  expect(waited(level, 1).warning).toBe("silent");
});
