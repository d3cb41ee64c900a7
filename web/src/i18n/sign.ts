import { texts } from ".";
import de from "./de/sign";
import en from "./en/sign";

export const signTexts = texts({ en, de });
