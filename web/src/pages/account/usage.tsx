/** What the account used, day by day. */

import { useState } from "preact/hooks";
import { api, unwrap, type Schema } from "../../api/client";
import { accountTexts } from "../../i18n/account";
import { query, setQuery } from "../../router";
import { LinkButton } from "../../ui/button";
import { duration, number } from "../../ui/format";
import { useLoaded } from "../../ui/loaded";
import { Empty, ErrorNotice } from "../../ui/states";
import { everyDay, type Day, type Measure } from "./chart";
import { DayChart, dayName } from "./day-chart";
import { Segments } from "./pieces";

const PERIODS = ["7", "30", "90"] as const;
type Period = (typeof PERIODS)[number];

export function Usage() {
  const t = accountTexts().usage;
  const asked = query.value.get("days") as Period;
  const period: Period = PERIODS.includes(asked) ? asked : "30";
  const usage = useLoaded(period, (signal) => unwrap(api.GET("/v1/usage", { params: { query: { days: Number(period) } }, signal })));
  return (
    <>
      <Segments label={t.period} current={period} choices={PERIODS.map((id) => ({ id, label: t.days(Number(id)) }))} onChange={(days) => setQuery({ days: days === "30" ? null : days })} />
      {usage.error ? <ErrorNotice error={usage.error} onRetry={usage.reload} /> : <Shown usage={usage.value} count={Number(period)} />}
    </>
  );
}

function Shown({ usage, count }: { usage: Schema<"Usage"> | null; count: number }) {
  const t = accountTexts().usage;
  const totals = usage?.summary;
  const tiles: { label: string; value: string | null; about: string }[] = [
    { label: t.audio, value: totals ? duration(totals.total_duration_seconds) : null, about: t.lastDays(count) },
    { label: t.transcripts, value: totals ? number(totals.total_transcripts) : null, about: t.lastDays(count) },
    { label: t.words, value: totals ? number(totals.total_words) : null, about: t.lastDays(count) },
    { label: t.creditsLeft, value: totals ? number(totals.credits_remaining) : null, about: t.now },
  ];
  return (
    <>
      <dl class="account-tiles" aria-busy={!usage}>
        {tiles.map((tile) => (
          <div key={tile.label} class="panel account-tile">
            <dt>{tile.label}</dt>
            <dd class="account-figure numeric">{tile.value ?? <span class="skeleton account-figure-wait" />}</dd>
            <dd class="soft small">{tile.about}</dd>
          </div>
        ))}
      </dl>
      {!usage ? (
        <div class="skeleton account-chart-wait" />
      ) : usage.summary.total_transcripts === 0 ? (
        <Empty icon="clock" title={t.emptyTitle}>
          <p>{t.emptyText}</p>
          <LinkButton href="/">{t.toStart}</LinkButton>
        </Empty>
      ) : (
        <Days usage={usage} count={count} />
      )}
    </>
  );
}

function Days({ usage, count }: { usage: Schema<"Usage">; count: number }) {
  const t = accountTexts().usage;
  const [measure, setMeasure] = useState<Measure>("minutes");
  const days = everyDay(usage.daily, count, new Date());
  const title = { minutes: t.chartMinutes, transcripts: t.chartTranscripts, words: t.chartWords }[measure];
  const rounded = (value: number) => (value > 0 && value < 10 ? Math.max(0.1, Math.round(value * 10) / 10) : Math.round(value));
  const said = (day: Day) => {
    const value = rounded(day[measure]);
    const words = { minutes: t.minutesOf, transcripts: t.transcriptsOf, words: t.wordsOf }[measure];
    return words(value, number(value));
  };
  const most = days.reduce((best, day) => (day[measure] > best[measure] ? day : best));
  const measures: Measure[] = ["minutes", "transcripts", "words"];
  return (
    <section class="stack" aria-label={title}>
      <div class="row between">
        <h2 class="account-chart-title">{title}</h2>
        <Segments label={t.measure} current={measure} choices={measures.map((id) => ({ id, label: t.measures[id] }))} onChange={setMeasure} />
      </div>
      <DayChart days={days} measure={measure} valueOf={said} label={t.chartSummary(title, count, said(most), dayName(most.date, "long"))} />
      <p class="soft small">{t.utc}</p>
      <details class="account-more">
        <summary>{t.table}</summary>
        <div class="table-scroll account-table" tabIndex={0} role="group" aria-label={t.table}>
          <table class="table">
            <caption class="visually-hidden">{t.lastDays(count)}</caption>
            <thead>
              <tr>
                <th scope="col">{t.day}</th>
                <th scope="col" class="number">
                  {t.audio}
                </th>
                <th scope="col" class="number">
                  {t.transcripts}
                </th>
                <th scope="col" class="number">
                  {t.words}
                </th>
              </tr>
            </thead>
            <tbody>
              {days
                .filter((day) => day.transcripts > 0 || day.minutes > 0)
                .reverse()
                .map((day) => (
                  <tr key={day.date}>
                    <th scope="row">{dayName(day.date, "table")}</th>
                    <td class="number">{duration(day.minutes * 60)}</td>
                    <td class="number">{number(day.transcripts)}</td>
                    <td class="number">{number(day.words)}</td>
                  </tr>
                ))}
            </tbody>
          </table>
        </div>
      </details>
    </section>
  );
}
