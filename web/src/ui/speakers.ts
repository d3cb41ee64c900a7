/** Speakers by name: labels that nobody has renamed yet are numbered for people, from 1. */

import { common } from "../i18n/common";

export function speakerName(label: string): string {
  const number = /^SPEAKER_(\d+)$/.exec(label)?.[1];
  return number === undefined ? label : common().speaker(Number(number) + 1);
}
