import { texts } from ".";
import de from "./de/start";
import en from "./en/start";

export const startTexts = texts({ en, de });
