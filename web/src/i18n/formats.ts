/** Names of the files that a transcript can be saved as. */

import { texts } from ".";
import de from "./de/formats";
import en from "./en/formats";

export const formatNames = texts({ en, de });
