/** A page in parts: a side navigation on a desk, one list to choose from on a phone. */

import type { ComponentChildren } from "preact";
import { Title } from "../../app";
import { common } from "../../i18n/common";
import { navigate } from "../../router";
import { LinkButton } from "../../ui/button";
import { Select } from "../../ui/field";
import { Empty } from "../../ui/states";
import "./account.css";

export interface Section {
  id: string;
  label: string;
}

/** The frame of a page in parts. The first part is at `base` itself. */
export function Sections({ title, pick, base, sections, current, children }: { title: string; pick: string; base: string; sections: Section[]; current: string; children: ComponentChildren }) {
  const shown = sections.find((section) => section.id === current);
  const href = (id: string) => (id === sections[0]?.id ? base : `${base}/${id}`);
  return (
    <div class="page account-page">
      <Title words={current === sections[0]?.id ? title : `${shown?.label ?? ""} · ${title}`} />
      <nav aria-label={title} class="account-side">
        <p class="account-side-title" aria-hidden="true">
          {title}
        </p>
        <ul class="account-side-links">
          {sections.map((section) => (
            <li key={section.id}>
              <a href={href(section.id)} aria-current={section.id === current ? "page" : undefined}>
                {section.label}
              </a>
            </li>
          ))}
        </ul>
        <div class="account-side-pick">
          <Select
            label={pick}
            hideLabel
            value={current}
            options={sections.map((section) => ({ value: section.id, label: section.label }))}
            onChange={(event) => navigate(href(event.currentTarget.value))}
          />
        </div>
      </nav>
      <div class="account-part stack loose">
        <h1 id="account-title" tabIndex={-1}>
          {shown?.label}
        </h1>
        {children}
      </div>
    </div>
  );
}

/** What the app shows for a page that is not there. */
export function Nothing() {
  const t = common();
  return (
    <div class="page">
      <Title words={t.notFoundTitle} />
      <h1 class="visually-hidden">{t.notFoundTitle}</h1>
      <Empty icon="search" title={t.notFoundTitle}>
        <p>{t.notFoundText}</p>
        <LinkButton kind="primary" href="/">
          {t.toStart}
        </LinkButton>
      </Empty>
    </div>
  );
}
