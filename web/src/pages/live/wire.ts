/** The connection of a session: a WebSocket of the browser. */

import { api, Problem, unwrap } from "../../api/client";
import type { LiveFailure, Wire, WireEvents } from "./session";

/** Connects to the server that the page came from; the cookie of the session says who it is. */
export function openWire(events: WireEvents): Wire {
  const url = new URL("/v1/stream", location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(url);
  let isClosed = false;
  socket.addEventListener("open", () => {
    if (!isClosed) events.onOpen();
  });
  socket.addEventListener("message", ({ data }: MessageEvent<unknown>) => {
    if (!isClosed && typeof data === "string") events.onMessage(data);
  });
  socket.addEventListener("close", ({ code }) => {
    if (!isClosed) events.onClose(code);
    isClosed = true;
  });
  return {
    send(message) {
      if (socket.readyState === WebSocket.OPEN) socket.send(typeof message === "string" ? message : (message as Int16Array<ArrayBuffer>));
    },
    close(code) {
      isClosed = true;
      socket.close(code);
    },
    buffered: () => socket.bufferedAmount,
  };
}

/** A browser does not say why a WebSocket was refused; a call with the same credential does. */
export async function whyNot(): Promise<LiveFailure | null> {
  try {
    await unwrap(api.GET("/v1/credits"));
    return null;
  } catch (error) {
    if (error instanceof Problem) return { status: error.status, message: error.message, upgrade: error.upgrade };
    return { status: 0, message: String(error), upgrade: false };
  }
}
