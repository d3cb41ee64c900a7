/** Which rows are selected: several at once with the shift key, all of a page with one box. */

/** The ids between two rows of a list, both included; only `to` where `from` is not there. */
export function between(ids: readonly number[], from: number | null, to: number): number[] {
  const end = ids.indexOf(to);
  const start = from === null ? -1 : ids.indexOf(from);
  if (end < 0) return [];
  if (start < 0) return [to];
  return ids.slice(Math.min(start, end), Math.max(start, end) + 1);
}

/** Whether none, some or all rows of a page are selected. */
export function share(ids: readonly number[], selected: { has(id: number): boolean }): "none" | "some" | "all" {
  const count = ids.filter((id) => selected.has(id)).length;
  return count === 0 ? "none" : count === ids.length ? "all" : "some";
}
