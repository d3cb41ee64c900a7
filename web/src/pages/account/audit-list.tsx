/** The audit log in plain words: of one account, or of all. */

import type { ComponentChildren } from "preact";
import { accountTexts } from "../../i18n/account";
import { dateTime, duration, number } from "../../ui/format";
import { Icon } from "../../ui/icon";
import { eventAbout, eventActor, eventName, needsAttention, type AuditEvent } from "./audit";

export function AuditList({ events, isOwn, keyName, accountOf }: { events: AuditEvent[]; isOwn: boolean; keyName?: (id: number) => string | undefined; /** Names the account of an event, where there are several. */ accountOf?: (event: AuditEvent) => ComponentChildren }) {
  const t = accountTexts().audit;
  const help = { number, duration, ...(keyName ? { keyName } : {}) };
  return (
    <ol class="account-log">
      {events.map((event) => {
        const about = eventAbout(event, t, help, isOwn);
        const actor = eventActor(event, t, help, isOwn);
        return (
          <li key={event.id}>
            <time class="soft small numeric" dateTime={event.at}>
              {dateTime(event.at)}
            </time>
            <span class="account-log-what">
              <span class="account-strong">{eventName(event, t)}</span>{" "}
              {needsAttention(event) && (
                <span class="badge warn">
                  <Icon name="warning" class="account-badge-icon" />
                  {t.attention}
                </span>
              )}
              {about.map((text, index) => (
                <span key={index} class="soft small account-under" dir="auto">
                  {text}
                </span>
              ))}
            </span>
            <span class="small account-log-who">
              {accountOf?.(event)}
              {actor && (
                <span class="account-under" dir="auto">
                  {actor}
                </span>
              )}
              {event.address && <span class="soft account-under">{t.from(event.address)}</span>}
            </span>
          </li>
        );
      })}
    </ol>
  );
}
