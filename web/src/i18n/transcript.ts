/** Texts of the page of a transcript. */

import { texts } from ".";
import de from "./de/transcript";
import en from "./en/transcript";

export const transcriptTexts = texts({ en, de });
