/** Short messages at the bottom of the page, which go by themselves. */

import { signal } from "@preact/signals";
import { isAbort, messageOf } from "../api/client";

interface Message {
  id: number;
  text: string;
  action?: { label: string; run: () => void };
}

const messages = signal<Message[]>([]);
let next = 1;

/** Says something, with an action where there is one (undo). */
export function toast(text: string, action?: { label: string; run: () => void }): void {
  const id = next++;
  messages.value = [...messages.value.slice(-2), { id, text, ...(action ? { action } : {}) }];
  setTimeout(() => dismiss(id), action ? 10_000 : 5_000);
}

/** Says what went wrong with something that has no place of its own on the page. */
export function toastError(error: unknown): void {
  if (!isAbort(error)) toast(messageOf(error));
}

function dismiss(id: number): void {
  messages.value = messages.value.filter((message) => message.id !== id);
}

/** Where the messages are; once, in the frame. */
export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {messages.value.map((message) => (
        <div class="toast" key={message.id}>
          <span>{message.text}</span>
          {message.action && (
            <button
              type="button"
              onClick={() => {
                message.action?.run();
                dismiss(message.id);
              }}
            >
              {message.action.label}
            </button>
          )}
        </div>
      ))}
    </div>
  );
}
