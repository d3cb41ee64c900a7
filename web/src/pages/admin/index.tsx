/** The server, for those who run it. A part that is added here is a line of `PARTS` and its name in the texts. */

import type { ComponentType } from "preact";
import { isAdmin, type PageProps } from "../../app";
import { adminTexts } from "../../i18n/admin";
import { session } from "../../session";
import { Nothing, Sections } from "../account/sections";
import { Accounts } from "./accounts";
import { AuditOfAll } from "./audit";
import { Health } from "./health";
import { Models } from "./models";
import { Nodes } from "./nodes";
import { Queue } from "./queue";
import "./admin.css";

const PARTS = { health: Health, nodes: Nodes, accounts: Accounts, queue: Queue, models: Models, audit: AuditOfAll } satisfies Record<string, ComponentType>;

type Part = keyof typeof PARTS;

export default function Page({ params }: PageProps) {
  const t = adminTexts();
  const part = params["part"] ?? "health";
  const account = session.value?.account;
  // Who does not manage the server learns nothing here, not even that the page exists.
  if (!account || !isAdmin(account) || !Object.hasOwn(PARTS, part)) return <Nothing />;
  const Shown = PARTS[part as Part];
  return (
    <Sections title={t.title} pick={t.section} base="/admin" current={part} sections={(Object.keys(PARTS) as Part[]).map((id) => ({ id, label: t.parts[id] }))}>
      <Shown />
    </Sections>
  );
}
