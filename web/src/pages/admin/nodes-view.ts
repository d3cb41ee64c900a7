/** How a process of the service is, of what it says of itself. */

import type { Schema } from "../../api/client";

export type Node = Schema<"Node">;

export type NodeLook = "silent" | "draining" | "trouble" | "works";

/** The worst of what is true of it: one that is silent says nothing else that still holds. */
export function lookOf(node: Pick<Node, "is_responding" | "is_draining" | "is_paused" | "failing" | "models">): NodeLook {
  if (!node.is_responding) return "silent";
  if (node.is_draining) return "draining";
  const isBroken = node.is_paused || node.failing.length > 0 || node.models.some((model) => !model.is_running);
  return isBroken ? "trouble" : "works";
}
