/** Texts of the panel beside a transcript. */

import { texts } from ".";
import de from "./de/panel";
import en from "./en/panel";

export const panel = texts({ en, de });
