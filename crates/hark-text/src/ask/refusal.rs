//! "Not in the transcript", in the language of the question.

use super::{Answer, Refused};
use crate::language::Language;

const REFUSALS: &[(&str, &str)] = &[
    ("en", "The transcript does not say that."),
    ("de", "Das wird im Transkript nicht gesagt."),
    ("fr", "La transcription ne le dit pas."),
    ("es", "La transcripción no lo dice."),
    ("pt", "A transcrição não diz isso."),
    ("it", "La trascrizione non lo dice."),
    ("nl", "Dat staat niet in het transcript."),
    ("pl", "Transkrypcja tego nie podaje."),
    ("sv", "Det framgår inte av transkriptet."),
    ("da", "Det fremgår ikke af udskriften."),
    ("no", "Det framgår ikke av transkripsjonen."),
    ("fi", "Litteraatissa ei sanota sitä."),
    ("cs", "V přepisu to není uvedeno."),
    ("tr", "Bu, dökümde söylenmiyor."),
    ("ro", "Transcrierea nu spune asta."),
    ("hu", "Ez nem szerepel az átiratban."),
    ("ru", "В расшифровке об этом не говорится."),
    ("uk", "У розшифровці про це не йдеться."),
    ("el", "Η απομαγνητοφώνηση δεν το αναφέρει."),
    ("ar", "لم يُذكر ذلك في النص."),
    ("he", "זה לא נאמר בתמליל."),
    ("hi", "प्रतिलेख में यह नहीं कहा गया है।"),
    ("th", "บันทึกถอดเสียงไม่ได้กล่าวถึงเรื่องนี้"),
    ("zh", "文字记录中没有提到这一点。"),
    ("ja", "文字起こしにはその記述がありません。"),
    ("ko", "녹취록에는 그런 내용이 없습니다."),
];

/// The answer that there is none.
pub(super) fn answer(language: Option<Language>, refused: Refused) -> Answer {
    let text = not_found(language).to_owned();
    Answer { text, found: false, sources: Vec::new(), refused: Some(refused) }
}

/// The sentence that says that there is no answer; in English where the language is unknown.
fn not_found(language: Option<Language>) -> &'static str {
    let code = language.map_or("en", |language| language.code);
    REFUSALS.iter().find(|(known, _)| *known == code).unwrap_or(&REFUSALS[0]).1
}

/// How models say that there is no answer, in lower case.
const PHRASES: &[&str] = &[
    "not mentioned",
    "not specified",
    "not stated",
    "not provided",
    "not given in",
    "not said in",
    "not discussed",
    "not in the transcript",
    "not found in",
    "not explicitly",
    "does not mention",
    "does not say",
    "does not state",
    "does not specify",
    "does not provide",
    "does not contain",
    "does not include",
    "does not answer",
    "doesn't mention",
    "doesn't say",
    "doesn't state",
    "doesn't specify",
    "doesn't provide",
    "doesn't contain",
    "isn't mentioned",
    "isn't specified",
    "isn't stated",
    "no information",
    "no mention of",
    "cannot be determined",
    "can't be determined",
    "cannot be answered",
    "unable to answer",
    "i don't know",
    "i do not know",
    "nicht erwähnt",
    "nicht genannt",
    "nicht angegeben",
    "keine information",
    "keine angabe",
    "geht nicht aus",
    "wird nicht gesagt",
    "não menciona",
    "não é mencionad",
    "não diz",
    "não informa",
    "não foi mencionad",
    "não há informaç",
    "não especifica",
    "no menciona",
    "no se menciona",
    "no dice",
    "no hay información",
    "no especifica",
    "ne mentionne pas",
    "n'est pas mentionné",
    "ne dit pas",
    "ne précise pas",
    "pas d'information",
    "non menziona",
    "non è menzionat",
    "non dice",
    "没有提到",
    "未提及",
    "没有说明",
    "言及されていません",
    "記載がありません",
];

/// Whether a sentence says that the transcript has no answer.
pub(super) fn says_not_found(sentence: &str) -> bool {
    let lower = sentence.to_lowercase().replace('’', "'");
    PHRASES.iter().any(|phrase| lower.contains(phrase))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language;

    #[test]
    fn a_refusal_is_in_the_language_of_the_question() {
        assert_eq!(not_found(language::by_code("pt")), "A transcrição não diz isso.");
        assert_eq!(not_found(language::by_code("sw")), not_found(None));
        for (code, sentence) in REFUSALS {
            assert!(language::by_code(code).is_some(), "{code}");
            assert_eq!(*sentence, not_found(language::by_code(code)));
        }
    }

    #[test]
    fn a_refusal_of_a_model_is_recognized_and_an_answer_is_not() {
        assert!(says_not_found("The transcript doesn’t mention the price."));
        assert!(says_not_found("Der Preis wird nicht genannt."));
        assert!(!says_not_found("They did not sign the contract."));
    }
}
