/** Texts of the live page and of the captions. */

import { texts } from ".";
import de from "./de/live";
import en from "./en/live";

export const liveTexts = texts({ en, de });
