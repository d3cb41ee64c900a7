/** Texts of the page for those who run the server. */

import { texts } from ".";
import de from "./de/admin";
import en from "./en/admin";

export const adminTexts = texts({ en, de });
