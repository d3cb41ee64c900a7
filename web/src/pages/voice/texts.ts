/** Texts of the page about voices. */

import { texts } from "../../i18n";
import de from "../../i18n/de/voice";
import en from "../../i18n/en/voice";

export const voiceTexts = texts({ en, de });
