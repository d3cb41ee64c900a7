/** Speakers by name: labels that nobody has renamed yet are numbered for people, from 1. */

import { common } from "../i18n/common";
import { labelNumber } from "./labels";

export function speakerName(label: string): string {
  const number = labelNumber(label);
  return number === null ? label : common().speaker(number);
}
