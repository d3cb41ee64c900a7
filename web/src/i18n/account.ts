/** Texts of the account's page. */

import { texts } from ".";
import de from "./de/account";
import en from "./en/account";

export const accountTexts = texts({ en, de });
