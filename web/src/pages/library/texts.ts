/** Texts of the library. */

import { texts } from "../../i18n";
import de from "../../i18n/de/library";
import en from "../../i18n/en/library";

export const libraryTexts = texts({ en, de });
