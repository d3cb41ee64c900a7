/** Labels of speakers as the server gives them. */

/** The number in a label (`SPEAKER_00` is 1); null for a name. */
export function labelNumber(label: string): number | null {
  const found = /^SPEAKER_(\d{1,4})$/.exec(label);
  return found ? Number(found[1]) + 1 : null;
}
