/** The catalogue in groups: models by what they do. */

import type { Schema } from "../../api/client";

export type CatalogueModel = Schema<"CatalogueModel">;

/** The groups in the order of the page, each with its roles. */
const GROUPS = {
  speech: ["transcription"],
  speakers: ["vad", "segmentation", "embedding"],
  language: ["language"],
  search: ["text-embedding"],
  translation: ["translation", "language-identification"],
  voice: ["voice", "pronunciation"],
  enhance: ["enhance"],
  other: [] as string[],
} as const satisfies Record<string, readonly string[]>;

export type GroupId = keyof typeof GROUPS;

export interface ModelGroup {
  id: GroupId;
  /** In the order of the catalogue. */
  models: CatalogueModel[];
  installed: number;
  /** Whether its models do several things. */
  isMixed: boolean;
}

/** The models in groups; what this version has no group for is the last one. Empty groups are left out. */
export function grouped(models: CatalogueModel[]): ModelGroup[] {
  const ids = Object.keys(GROUPS) as GroupId[];
  const groupOf = (role: string) => ids.find((id) => (GROUPS[id] as readonly string[]).includes(role)) ?? "other";
  return ids
    .map((id) => {
      const own = models.filter((model) => groupOf(model.role) === id);
      return { id, models: own, installed: own.filter((model) => model.installed).length, isMixed: new Set(own.map((model) => model.role)).size > 1 };
    })
    .filter((group) => group.models.length > 0);
}

/** How much of a pull is done; null where that is not known. */
export function pulled(model: Pick<CatalogueModel, "bytes_done" | "bytes_total">): number | null {
  const { bytes_done: done, bytes_total: total } = model;
  return done != null && total ? Math.min(1, done / total) : null;
}

/** The list with the answer to a pull in it. */
export function withModel(models: CatalogueModel[], changed: CatalogueModel): CatalogueModel[] {
  return models.map((model) => (model.name === changed.name ? changed : model));
}
