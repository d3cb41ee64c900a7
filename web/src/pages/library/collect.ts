/** Many transcripts as one archive: fetched one after another, with what could not be fetched told at the end. */

import { UniqueNames } from "../../ui/download";
import { ZipWriter } from "./zip";

/** What is fetched. */
export interface Wanted {
  id: number;
  title: string;
  created_at: string;
}

/** What came of it. */
export interface Collected {
  /** The archive in pieces; null where nothing could be fetched. */
  parts: Uint8Array[] | null;
  count: number;
  failed: { item: Wanted; error: unknown }[];
}

/** How often a file is asked for that the server puts off. */
const TRIES = 4;
/** The longest that is waited for it, in seconds. */
const LONGEST_WAIT = 60;

/** Fetches files into an archive. Throws only where `signal` aborts. */
export async function collect(
  items: readonly Wanted[],
  options: {
    ending: string;
    load: (item: Wanted, signal: AbortSignal) => Promise<Uint8Array>;
    /** Seconds after which it is worth trying again; null where it is not. */
    retryAfter: (error: unknown) => number | null;
    onProgress: (done: number, item: Wanted | null) => void;
    signal: AbortSignal;
    wait?: (seconds: number, signal: AbortSignal) => Promise<void>;
  },
): Promise<Collected> {
  const { ending, load, retryAfter, onProgress, signal, wait = sleep } = options;
  const zip = new ZipWriter();
  const names = new UniqueNames();
  const failed: Collected["failed"] = [];
  for (const [done, item] of items.entries()) {
    onProgress(done, item);
    for (let tried = 1; ; tried += 1) {
      signal.throwIfAborted();
      try {
        const data = await load(item, signal);
        zip.add({ name: names.name(item.title, ending), data, date: new Date(item.created_at) });
        break;
      } catch (error) {
        signal.throwIfAborted();
        const after = retryAfter(error);
        if (after === null || after > LONGEST_WAIT || tried >= TRIES) {
          failed.push({ item, error });
          break;
        }
        await wait(after, signal);
      }
    }
  }
  signal.throwIfAborted();
  onProgress(items.length, null);
  return { parts: zip.count > 0 ? zip.finish() : null, count: zip.count, failed };
}

/** Waits, unless it is cancelled. */
function sleep(seconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        reject(signal.reason as Error);
      },
      { once: true },
    );
  });
}
