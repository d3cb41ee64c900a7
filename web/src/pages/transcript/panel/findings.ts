/** Findings of analyses in the order and the form in which they are read and copied. Pure. */

import { clock } from "../../../ui/format";
import type { ActionItems, Analysis, Chapter, Entities, Generation, Questions, Quote, Redaction, Sentiment, Topics } from "./types";

/** The types of names, in the order in which they are shown. */
export const ENTITY_TYPES = ["person", "organization", "location", "date", "time", "money", "percent", "product", "event", "work", "law", "other"] as const;
export type EntityType = (typeof ENTITY_TYPES)[number];

/** Names by type; a type that nobody knows is among the others. */
export function groups(found: Entities): { type: EntityType; entities: Entities["entities"] }[] {
  const known = (type: string): EntityType => ((ENTITY_TYPES as readonly string[]).includes(type) ? (type as EntityType) : "other");
  return ENTITY_TYPES.map((type) => ({
    type,
    entities: found.entities.filter((entity) => known(entity.type) === type).sort((a, b) => b.count - a.count),
  })).filter((group) => group.entities.length > 0);
}

/** How often each kind of personal data was found, the most frequent first. */
export function counts(found: Redaction): { type: string; count: number }[] {
  const all = new Map<string, number>();
  for (const { type } of found.entities) all.set(type, (all.get(type) ?? 0) + 1);
  return [...all].map(([type, count]) => ({ type, count })).sort((a, b) => b.count - a.count);
}

/** A text cut at the places that were blacked out. */
export function blackened(text: string): { text: string; isMark: boolean }[] {
  return text
    .split(/(\[[A-Z][A-Z_]{2,20}\])/)
    .filter((piece) => piece !== "")
    .map((piece) => ({ text: piece, isMark: /^\[[A-Z][A-Z_]{2,20}\]$/.test(piece) }));
}

/** Where a score stands on its scale, in percent from the negative end. */
export function onScale(score: number): number {
  return Math.round((Math.min(1, Math.max(-1, Number.isFinite(score) ? score : 0)) + 1) * 50);
}

/** Words around the findings in a text that is copied. */
export interface Labels {
  moods: Record<Sentiment["label"], string>;
  overall: string;
  entityTypes: Record<EntityType, string>;
  assignee: (name: string) => string;
  due: (when: string) => string;
  notAnswered: string;
  speaker: (label: string) => string;
}

/** An analysis as a text to copy. */
export function analysisText(analysis: Pick<Analysis, "type" | "result">, labels: Labels): string {
  const { result } = analysis;
  switch (analysis.type) {
    case "topics":
      return (result as Topics).topics.map((topic) => `- ${topic.name}`).join("\n");
    case "entities":
      return groups(result as Entities)
        .map((group) => `${labels.entityTypes[group.type]}: ${group.entities.map((entity) => entity.text).join(", ")}`)
        .join("\n");
    case "action_items":
      return (result as ActionItems).action_items
        .map((item) => {
          const more = [item.assignee && labels.assignee(labels.speaker(item.assignee)), item.due && labels.due(item.due)].filter(Boolean).join(", ");
          return `- [ ] ${item.task}${more ? ` (${more})` : ""}`;
        })
        .join("\n");
    case "questions":
      return (result as Questions).questions.map((question) => `${question.question}\n${question.answer ? `— ${question.answer}` : labels.notAnswered}`).join("\n\n");
    case "sentiment": {
      const found = result as Sentiment;
      const line = (who: string, label: Sentiment["label"], score: number) => `${who}: ${labels.moods[label]} (${score.toFixed(2)})`;
      return [line(labels.overall, found.label, found.score), ...(found.by_speaker ?? []).map((one) => line(labels.speaker(one.speaker), one.label, one.score))].join("\n");
    }
    default:
      return (result as Redaction).redacted_text;
  }
}

/** Chapters or quotes as a text to copy. */
export function listText(made: Pick<Generation, "type" | "result">): string {
  const { items, content } = made.result;
  if (made.type === "chapter_markers" && items) {
    return (items as Chapter[]).map((chapter) => (chapter.start == null ? chapter.title : `${clock(chapter.start)} ${chapter.title}`)).join("\n");
  }
  if (made.type === "key_quotes" && items) {
    return (items as Quote[])
      .map((quote) => {
        const who = [quote.speaker, quote.start == null ? null : clock(quote.start)].filter(Boolean).join(", ");
        return `“${quote.quote}”${who ? ` — ${who}` : ""}`;
      })
      .join("\n\n");
  }
  return content;
}
