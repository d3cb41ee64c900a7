/** Whether the server has what the panel needs. Pure. */

import type { Schema } from "../../../api/client";

export type ModelReady = "ready" | "pulling" | "unreachable" | "missing";

/** How the language model stands: the first that is listed, which is the one that works. */
export function languageModel(models: readonly Pick<Schema<"TextModel">, "task" | "state">[]): ModelReady {
  const model = models.find((one) => one.task === "chat");
  switch (model?.state) {
    case "pulling":
    case "unreachable":
    case "missing":
      return model.state;
    default:
      // None at all may be one that is not of the list: then the calls tell.
      return "ready";
  }
}
