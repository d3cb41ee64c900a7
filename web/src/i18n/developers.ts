/** Texts of the developers page. */

import { texts } from ".";
import de from "./de/developers";
import en from "./en/developers";

export const developersTexts = texts({ en, de });
