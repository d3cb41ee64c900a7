import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { canRecord, record, type MicrophoneFault } from "./microphone";

const OPTIONS = { bitsPerSecond: 96_000 };

/** What the browser was asked for, and what it still holds. */
const browser = { constraints: null as unknown, options: null as unknown, isOpen: false, isMetered: false, level: 0, supported: ["audio/webm;codecs=opus"] };

class FakeRecorder {
  static isTypeSupported = (type: string) => browser.supported.includes(type);
  static last: FakeRecorder;
  state = "inactive";
  mimeType: string;
  ondataavailable: ((event: { data: Blob }) => void) | null = null;
  onstop: (() => void) | null = null;
  onerror: (() => void) | null = null;
  constructor(_: unknown, options: { mimeType?: string }) {
    FakeRecorder.last = this;
    browser.options = options;
    this.mimeType = options.mimeType ?? "audio/own";
  }
  start(): void {
    this.state = "recording";
  }
  give(words: string): void {
    this.ondataavailable?.({ data: new Blob([words]) });
  }
  stop(): void {
    this.state = "inactive";
    this.give("end");
    this.onstop?.();
  }
}

class FakeContext {
  constructor() {
    browser.isMetered = true;
  }
  createAnalyser() {
    return { fftSize: 0, getFloatTimeDomainData: (samples: Float32Array) => samples.fill(-browser.level) };
  }
  createMediaStreamSource() {
    return { connect: () => undefined };
  }
  async close(): Promise<void> {
    browser.isMetered = false;
  }
}

const stream = { getTracks: () => [{ stop: () => (browser.isOpen = false) }] };

function microphone(answer: () => unknown): void {
  vi.stubGlobal("navigator", {
    mediaDevices: {
      getUserMedia: async (constraints: unknown) => {
        browser.constraints = constraints;
        return answer();
      },
    },
  });
}

beforeEach(() => {
  vi.useFakeTimers();
  Object.assign(browser, { constraints: null, options: null, isOpen: false, isMetered: false, level: 0, supported: ["audio/webm;codecs=opus"] });
  vi.stubGlobal("MediaRecorder", FakeRecorder);
  vi.stubGlobal("AudioContext", FakeContext);
  microphone(() => {
    browser.isOpen = true;
    return stream;
  });
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

async function faultOf(trying: Promise<unknown>): Promise<MicrophoneFault> {
  return trying.then(
    () => Promise.reject(new Error("it recorded")),
    (error: { fault: MicrophoneFault }) => error.fault,
  );
}

test("what was said is there once it is stopped, and the microphone is let go", async () => {
  const heard: [number, number][] = [];
  const recording = await record(OPTIONS, (...tick) => heard.push(tick));
  expect(browser.options).toEqual({ mimeType: "audio/webm;codecs=opus", audioBitsPerSecond: 96_000 });
  browser.level = 0.5;
  vi.advanceTimersByTime(160);
  FakeRecorder.last.give("words ");
  expect(heard).toEqual([[0.08, 0.5], [0.16, 0.5]]);
  expect([browser.isOpen, browser.isMetered]).toEqual([true, true]);
  recording.stop();
  const recorded = await recording.done;
  expect(await recorded?.sound.text()).toBe("words end");
  expect([recorded?.ending, recorded?.seconds, recorded?.sound.type]).toEqual(["webm", 0.16, "audio/webm;codecs=opus"]);
  expect([browser.isOpen, browser.isMetered]).toEqual([false, false]);
  // Nothing looks at the level any more.
  vi.advanceTimersByTime(1000);
  expect(heard.length).toBe(2);
});

test("a voice is recorded as it is", async () => {
  await record(OPTIONS, () => undefined);
  expect(browser.constraints).toEqual({ audio: { echoCancellation: false, noiseSuppression: false, autoGainControl: true, channelCount: 1 } });
});

test("one that is cancelled is thrown away, and the microphone is let go", async () => {
  const recording = await record(OPTIONS, () => undefined);
  FakeRecorder.last.give("words");
  recording.cancel();
  expect(await recording.done).toBeNull();
  expect(browser.isOpen).toBe(false);
});

test("it ends by itself when it is full", async () => {
  const heard: number[] = [];
  const recording = await record({ ...OPTIONS, longest: 3 }, (seconds) => heard.push(seconds));
  vi.advanceTimersByTime(5000);
  const recorded = await recording.done;
  expect(recorded?.seconds).toBe(3);
  expect(Math.max(...heard)).toBe(3);
  expect(browser.isOpen).toBe(false);
});

test("a microphone that is unplugged leaves what there is", async () => {
  const recording = await record(OPTIONS, () => undefined);
  FakeRecorder.last.give("half ");
  FakeRecorder.last.onerror?.();
  expect(await (await recording.done)?.sound.text()).toBe("half end");
});

test("the format is one that the browser has", async () => {
  browser.supported = ["audio/mp4"];
  const recording = await record(OPTIONS, () => undefined);
  recording.stop();
  expect((await recording.done)?.ending).toBe("m4a");
  browser.supported = [];
  await record(OPTIONS, () => undefined);
  expect(browser.options).toEqual({ audioBitsPerSecond: 96_000 });
});

test("why there is no microphone is told", async () => {
  const fails = (name: string) => microphone(() => Promise.reject(new DOMException("", name)));
  fails("NotAllowedError");
  expect(await faultOf(record(OPTIONS, () => undefined))).toBe("refused");
  fails("NotFoundError");
  expect(await faultOf(record(OPTIONS, () => undefined))).toBe("missing");
  fails("NotReadableError");
  expect(await faultOf(record(OPTIONS, () => undefined))).toBe("failed");
  vi.stubGlobal("navigator", {});
  expect(canRecord()).toBe(false);
  expect(await faultOf(record(OPTIONS, () => undefined))).toBe("insecure");
});

test("a browser without a recorder lets go of the microphone", async () => {
  vi.stubGlobal("AudioContext", class extends FakeContext {
    override createMediaStreamSource(): never {
      throw new Error("no");
    }
  });
  expect(await faultOf(record(OPTIONS, () => undefined))).toBe("failed");
  expect([browser.isOpen, browser.isMetered]).toEqual([false, false]);
});
