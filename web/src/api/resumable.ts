/** A file that is sent in parts, so that a connection that breaks costs one part at most, also when the page was closed in between. */

import { remembered } from "../ui/remembered";
import { api, isAbort, Problem, unwrap } from "./client";
import { upload } from "./upload";

/** Files that are smaller are sent at once. */
export const IN_PARTS_FROM = 8 * 1024 * 1024;
/** Bytes of a part. */
const PART = 32 * 1024 * 1024;
/** Tries without a byte more before it is given up: some five minutes. */
const TRIES = 12;

export interface Resumable {
  signal: AbortSignal;
  onProgress: (sent: number) => void;
  /** The connection broke, or is there again. */
  onBroken: (isBroken: boolean) => void;
  /** Waits; replaced in tests. */
  pause: (seconds: number) => Promise<void>;
}

/** Sends a file, or what is missing of it, and answers with the number of its upload. */
export async function sendInParts(file: File, options: Resumable): Promise<number> {
  // The same file, chosen again after the page was closed, goes on where it was.
  const memory = remembered(`upload.${file.name}.${file.size}.${file.lastModified}`);
  const known = Number(memory.read());
  let state = known ? await stateOf(known, options).catch((error: unknown) => (isMissing(error) ? null : Promise.reject(error))) : null;
  if (state?.size !== file.size) {
    state = await persist(options, () => unwrap(api.POST("/v1/uploads", { body: { name: file.name, size: file.size }, signal: options.signal })));
    memory.write(String(state.id));
  }
  let { offset } = state;
  const { id } = state;
  options.onProgress(offset);
  for (let tries = 0; offset < file.size; ) {
    const from = offset;
    try {
      const answer = await upload<{ offset: number }>(
        `/v1/uploads/${id}?offset=${from}`,
        file.slice(from, from + PART),
        {
          signal: options.signal,
          headers: { "Content-Type": "application/octet-stream" },
          onProgress: (sent) => {
            options.onBroken(false);
            options.onProgress(Math.min(file.size, from + sent));
          },
        },
        "PUT",
      );
      offset = answer.body.offset;
      tries = 0;
    } catch (error) {
      if (isAbort(error)) {
        void api.DELETE("/v1/uploads/{id}", { params: { path: { id } } });
        memory.write(null);
        throw error;
      }
      const isPassing = error instanceof Problem && (error.status === 0 || error.status === 408 || error.status === 409 || error.status === 503 || error.status === 429);
      if (!isPassing || tries >= TRIES) throw error;
      options.onBroken(true);
      await options.pause(Math.min(60, 2 ** tries));
      tries += 1;
      offset = await stateOf(id, options).then((there) => there.offset, (failure: unknown) => (isMissing(failure) ? Promise.reject(failure) : from));
      if (offset > from) tries = 0;
    }
  }
  options.onBroken(false);
  return id;
}

/** Forgets a file whose upload was used. */
export function forget(file: File): void {
  remembered(`upload.${file.name}.${file.size}.${file.lastModified}`).write(null);
}

function stateOf(id: number, { signal }: Resumable) {
  return unwrap(api.GET("/v1/uploads/{id}", { params: { path: { id } }, signal }));
}

function isMissing(error: unknown): boolean {
  return error instanceof Problem && error.status === 404;
}

/** Tries again while the server can't be reached. */
async function persist<T>(options: Resumable, call: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof Problem && error.status === 0) || tries >= TRIES) throw error;
      options.onBroken(true);
      await options.pause(Math.min(60, 2 ** tries));
    }
  }
}
