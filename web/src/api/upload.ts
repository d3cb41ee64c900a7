/** Bodies that are sent with progress: `fetch` does not tell how much has arrived, `XMLHttpRequest` does. */

import { callHeaders, Problem, problem, failed } from "./client";

export interface Upload {
  /** Bytes that were sent and of how many. */
  onProgress?: (sent: number, total: number) => void;
  /** Called when all was sent and the server works. */
  onSent?: () => void;
  signal?: AbortSignal;
  headers?: Record<string, string>;
  /** What the answer is read as. */
  as?: "json" | "blob";
}

export interface Uploaded<T> {
  body: T;
  status: number;
  header(name: string): string | null;
}

/** Sends a form, or with `PUT` a part of a file. */
export function upload<T>(url: string, body: FormData | Blob, options: Upload = {}, method: "POST" | "PUT" = "POST"): Promise<Uploaded<T>> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(method, url);
    for (const [name, value] of Object.entries({ Accept: "application/json", ...callHeaders(), ...options.headers })) {
      request.setRequestHeader(name, value);
    }
    request.responseType = options.as === "blob" ? "blob" : "text";
    request.upload.onprogress = (event) => {
      if (event.lengthComputable) options.onProgress?.(event.loaded, event.total);
    };
    request.upload.onload = () => options.onSent?.();
    request.onerror = () => reject(failed(null));
    request.onabort = () => reject(new DOMException("cancelled", "AbortError"));
    request.onload = () => void finish();
    options.signal?.addEventListener("abort", () => request.abort(), { once: true });
    if (options.signal?.aborted) {
      reject(new DOMException("cancelled", "AbortError"));
      return;
    }
    request.send(body);

    async function finish(): Promise<void> {
      const header = (name: string) => request.getResponseHeader(name);
      try {
        const isError = request.status < 200 || request.status > 299;
        if (options.as === "blob" && !isError) {
          resolve({ body: request.response as T, status: request.status, header });
          return;
        }
        const text: string = options.as === "blob" ? await (request.response as Blob).text() : request.responseText;
        const answer: unknown = parsed(text);
        if (isError) {
          reject(problem({ status: request.status, statusText: request.statusText, headers: { get: header } }, answer));
        } else if (answer === undefined) {
          reject(new Problem(request.status, "The answer of the server can't be read."));
        } else {
          resolve({ body: answer as T, status: request.status, header });
        }
      } catch (error) {
        reject(failed(error));
      }
    }
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
