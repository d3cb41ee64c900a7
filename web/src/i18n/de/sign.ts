import type en from "../en/sign";
import type { Translated } from "..";

const de: Translated<typeof en> = {
  signIn: "Anmelden",
  signUp: "Konto anlegen",
  forgot: "Neues Passwort",
  email: "E-Mail-Adresse",
  password: "Passwort",
  newPasswordHint: "Mindestens 8 Zeichen. Ein paar Wörter ergeben ein gutes.",
  show: "Passwort zeigen",
  hide: "Passwort verbergen",
  doSignIn: "Anmelden",
  doSignUp: "Konto anlegen",
  doForgot: "Link senden",
  toSignUp: "Noch kein Konto?",
  toSignIn: "Schon ein Konto?",
  toForgot: "Passwort vergessen?",
  closed: "Konten legt auf diesem Server an, wer ihn betreibt.",
  checkMail: "Bitte sehen Sie in Ihre Mail",
  confirmSent: (email: string) => `Wenn ${email} hier ein Konto haben kann, ist ein Link unterwegs. Er gilt einen Tag.`,
  resetSent: (email: string) => `Wenn ${email} hier ein Konto hat, ist ein Link unterwegs. Er gilt eine Stunde.`,
  welcome: "Angemeldet.",
  back: "Zurück zur Anmeldung",
};
export default de;
