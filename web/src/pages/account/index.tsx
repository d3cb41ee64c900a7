/** The account: what it has, what it used, its keys, voices, sessions and data. */

import type { ComponentType } from "preact";
import type { PageProps } from "../../app";
import { accountTexts } from "../../i18n/account";
import { Credits } from "./credits";
import { Data } from "./data";
import { Keys } from "./keys";
import { Overview } from "./overview";
import { Nothing, Sections } from "./sections";
import { Security } from "./security";
import { Usage } from "./usage";
import { Voices } from "./voices";
import { Webhooks } from "./webhooks";

const PARTS = { overview: Overview, usage: Usage, credits: Credits, keys: Keys, webhooks: Webhooks, voices: Voices, security: Security, data: Data } satisfies Record<string, ComponentType>;

type Part = keyof typeof PARTS;

export default function Page({ params }: PageProps) {
  const t = accountTexts();
  const part = params["part"] ?? "overview";
  if (!Object.hasOwn(PARTS, part)) return <Nothing />;
  const Shown = PARTS[part as Part];
  return (
    <Sections title={t.title} pick={t.section} base="/account" current={part} sections={(Object.keys(PARTS) as Part[]).map((id) => ({ id, label: t.parts[id] }))}>
      <Shown />
    </Sections>
  );
}
