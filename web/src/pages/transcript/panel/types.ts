/** What the API makes of a transcript, by the names of its document. */

import type { Schema } from "../../../api/client";

export type TranscriptDetail = Schema<"TranscriptDetail">;
export type Segment = TranscriptDetail["segments"][number];

export const STYLES = ["brief", "detailed", "executive", "action_items", "bullet_points"] as const;
export type Style = (typeof STYLES)[number];

/** What the analysis tab offers: analyses, and two generated lists that are read rather than published. */
export const FINDINGS = ["chapter_markers", "key_quotes", "topics", "action_items", "questions", "sentiment", "entities", "pii_redact"] as const;
export type Finding = (typeof FINDINGS)[number];

export const GENERATIONS = [
  "blog_post",
  "meeting_notes",
  "newsletter",
  "social_media",
  "show_notes",
  "study_guide",
  "flashcards",
  "quiz",
  "chapter_markers",
  "key_quotes",
] as const;
export type GenerationKind = (typeof GENERATIONS)[number];

export interface Made {
  /** Whether it was made before: then it cost nothing. */
  cached?: boolean;
  model: string;
}

export interface Summary extends Made {
  summary: string;
  word_count: number;
  style: Style;
}

export interface Sentiment {
  label: "positive" | "neutral" | "negative" | "mixed";
  score: number;
  by_speaker?: { speaker: string; label: Sentiment["label"]; score: number }[];
}
export interface Topics {
  topics: { name: string; relevance: number }[];
}
export interface Entities {
  entities: { text: string; type: string; count: number }[];
}
export interface ActionItems {
  action_items: { task: string; assignee?: string | null; due?: string | null }[];
}
export interface Questions {
  questions: { question: string; asked_by?: string | null; answered: boolean; answer?: string | null }[];
}
export interface Redaction {
  redacted_text: string;
  entities: { type: string; start: number; end: number }[];
}

export interface Analysis extends Made {
  type: string;
  result: Sentiment | Topics | Entities | ActionItems | Questions | Redaction;
}

export interface Chapter {
  start?: number | null;
  title: string;
}
export interface Quote {
  quote: string;
  speaker?: string | null;
  start?: number | null;
}
export interface Flashcard {
  front: string;
  back: string;
}
export interface QuizQuestion {
  question: string;
  choices: string[];
  answer: string;
}

export interface Generation extends Made {
  type: GenerationKind;
  result: { content: string; word_count: number; items?: Chapter[] | Quote[] | Flashcard[] | QuizQuestion[] };
}

export type Translation = Schema<"TranscriptTranslation">;
export type ChatAnswer = Schema<"ChatAnswer">;
export type ChatSource = Schema<"ChatSource">;
