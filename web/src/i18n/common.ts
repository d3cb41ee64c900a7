/** Texts that all pages share. */

import { texts } from ".";
import de from "./de/common";
import en from "./en/common";

export const common = texts({ en, de });
