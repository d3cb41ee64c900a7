//! English text as plain words, so that two transcripts differ only where the words do.
//!
//! In the spirit of the normalizer that Whisper's paper scores with (appendix C): case, punctuation, fillers,
//! contractions, titles, numbers and the commonest British spellings are made the same on both sides.

use super::numbers;

/// The words of a text in one canonical spelling: lower case, no punctuation, numbers spelled out.
pub fn words(text: &str) -> Vec<String> {
    let plain = without_brackets(&folded(text));
    let mut words = Vec::new();
    for raw in plain.split_whitespace() {
        push_token(raw, &mut words);
    }
    numbers::drop_and_inside_numbers(&mut words);
    words
}

/// Lower case with plain apostrophes and Latin letters without their marks.
fn folded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars().flat_map(char::to_lowercase) {
        match letter {
            '’' | '‘' | 'ʼ' | '`' | '´' => out.push('\''),
            'à' | 'á' | 'â' | 'ã' | 'ä' | 'å' | 'ā' => out.push('a'),
            'è' | 'é' | 'ê' | 'ë' | 'ē' => out.push('e'),
            'ì' | 'í' | 'î' | 'ï' | 'ī' => out.push('i'),
            'ò' | 'ó' | 'ô' | 'õ' | 'ö' | 'ø' | 'ō' => out.push('o'),
            'ù' | 'ú' | 'û' | 'ü' | 'ū' => out.push('u'),
            'ç' => out.push('c'),
            'ñ' => out.push('n'),
            'œ' => out.push_str("oe"),
            'æ' => out.push_str("ae"),
            'ß' => out.push_str("ss"),
            '-' | '–' | '—' | '/' => out.push(' '),
            _ => out.push(letter),
        }
    }
    out
}

/// Drops `[applause]`, `(laughs)` and `<unk>`: they are notes about the sound, not words said.
fn without_brackets(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find(['[', '(', '<']) {
        let close = match rest.as_bytes()[open] {
            b'[' => ']',
            b'(' => ')',
            _ => '>',
        };
        let Some(length) = rest[open..].find(close) else {
            break;
        };
        out.push_str(&rest[..open]);
        out.push(' ');
        rest = &rest[open + length + 1..];
    }
    out.push_str(rest);
    out
}

fn push_token(raw: &str, words: &mut Vec<String>) {
    let token = raw.trim_matches(|letter: char| !letter.is_alphanumeric() && !"'$£€%".contains(letter));
    if token.chars().any(|letter| letter.is_ascii_digit()) {
        numbers::push_spelled(token, words);
        return;
    }
    let token = token.trim_matches('\'');
    if let Some((_, expanded)) = WHOLE.iter().find(|(short, _)| *short == token) {
        words.extend(expanded.split(' ').map(str::to_owned));
        return;
    }
    for (ending, expanded) in ENDINGS {
        if let Some(stem) = token.strip_suffix(ending).filter(|stem| !stem.is_empty()) {
            push_plain(stem, words);
            words.push((*expanded).to_owned());
            return;
        }
    }
    push_plain(token, words);
}

/// Splits at what is left of punctuation, drops fillers, settles the spelling.
fn push_plain(token: &str, words: &mut Vec<String>) {
    let joined = token.replace('\'', "");
    for word in joined.split(|letter: char| !letter.is_alphanumeric()) {
        if word.is_empty() || FILLERS.contains(&word) {
            continue;
        }
        let word = SPELLINGS.iter().find(|(british, _)| *british == word).map_or(word, |(_, american)| american);
        words.push(word.to_owned());
    }
}

const FILLERS: &[&str] = &["hmm", "mm", "mhm", "mmm", "uh", "um"];

const ENDINGS: &[(&str, &str)] = &[
    ("n't", "not"),
    ("'re", "are"),
    ("'ll", "will"),
    ("'ve", "have"),
    ("'m", "am"),
    ("'d", "would"),
    // Possessives become "is" too; both sides do, so nothing is lost by not parsing the sentence.
    ("'s", "is"),
];

const WHOLE: &[(&str, &str)] = &[
    ("won't", "will not"),
    ("can't", "can not"),
    ("cannot", "can not"),
    ("shan't", "shall not"),
    ("ain't", "aint"),
    ("let's", "let us"),
    ("y'all", "you all"),
    ("ma'am", "madam"),
    ("'tis", "it is"),
    ("tis", "it is"),
    ("twas", "it was"),
    ("wanna", "want to"),
    ("gonna", "going to"),
    ("gotta", "got to"),
    ("mr", "mister"),
    ("mrs", "missus"),
    ("ms", "miss"),
    ("dr", "doctor"),
    ("st", "saint"),
    ("prof", "professor"),
    ("capt", "captain"),
    ("gov", "governor"),
    ("gen", "general"),
    ("sen", "senator"),
    ("rep", "representative"),
    ("rev", "reverend"),
    ("hon", "honorable"),
    ("lt", "lieutenant"),
    ("col", "colonel"),
    ("jr", "junior"),
    ("sr", "senior"),
    ("esq", "esquire"),
    ("vs", "versus"),
    ("&", "and"),
    ("ok", "okay"),
];

/// The British spellings that read prose brings up most; both sides become American.
const SPELLINGS: &[(&str, &str)] = &[
    ("analyse", "analyze"),
    ("armour", "armor"),
    ("behaviour", "behavior"),
    ("catalogue", "catalog"),
    ("centre", "center"),
    ("centres", "centers"),
    ("cheque", "check"),
    ("civilisation", "civilization"),
    ("colour", "color"),
    ("coloured", "colored"),
    ("colours", "colors"),
    ("defence", "defense"),
    ("dialogue", "dialog"),
    ("endeavour", "endeavor"),
    ("endeavoured", "endeavored"),
    ("endeavouring", "endeavoring"),
    ("favour", "favor"),
    ("favourable", "favorable"),
    ("favoured", "favored"),
    ("favourite", "favorite"),
    ("favours", "favors"),
    ("fibre", "fiber"),
    ("fulfil", "fulfill"),
    ("glamour", "glamor"),
    ("grey", "gray"),
    ("harbour", "harbor"),
    ("honour", "honor"),
    ("honourable", "honorable"),
    ("honoured", "honored"),
    ("honours", "honors"),
    ("humour", "humor"),
    ("jewellery", "jewelry"),
    ("judgement", "judgment"),
    ("labour", "labor"),
    ("labourer", "laborer"),
    ("labours", "labors"),
    ("licence", "license"),
    ("marvellous", "marvelous"),
    ("metre", "meter"),
    ("mould", "mold"),
    ("neighbour", "neighbor"),
    ("neighbourhood", "neighborhood"),
    ("neighbours", "neighbors"),
    ("odour", "odor"),
    ("offence", "offense"),
    ("organisation", "organization"),
    ("organise", "organize"),
    ("parlour", "parlor"),
    ("plough", "plow"),
    ("practise", "practice"),
    ("programme", "program"),
    ("realise", "realize"),
    ("realised", "realized"),
    ("recognise", "recognize"),
    ("recognised", "recognized"),
    ("rumour", "rumor"),
    ("savour", "savor"),
    ("sceptical", "skeptical"),
    ("splendour", "splendor"),
    ("storey", "story"),
    ("theatre", "theater"),
    ("towards", "toward"),
    ("traveller", "traveler"),
    ("travellers", "travelers"),
    ("travelling", "traveling"),
    ("tyre", "tire"),
    ("valour", "valor"),
    ("vapour", "vapor"),
    ("vigour", "vigor"),
    ("waggon", "wagon"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(text: &str) -> String {
        words(text).join(" ")
    }

    #[test]
    fn case_and_punctuation_do_not_count() {
        assert_eq!(joined("\"Hello, World!\" — he said…"), "hello world he said");
    }

    #[test]
    fn contractions_are_written_out() {
        assert_eq!(
            joined("I can't, won’t and don't; they're sure we've"),
            "i can not will not and do not they are sure we have"
        );
        assert_eq!(joined("There's iron"), "there is iron");
        assert_eq!(joined("let's go"), "let us go");
    }

    #[test]
    fn titles_are_written_out_with_and_without_their_stop() {
        assert_eq!(
            joined("Mr. Hale and Mrs Hale saw Dr. St. John"),
            joined("mister hale and missus hale saw doctor saint john")
        );
    }

    #[test]
    fn digits_become_the_words_one_says() {
        assert_eq!(joined("They had 7 ships and 21 boats."), "they had seven ships and twenty one boats");
        assert_eq!(joined("1,250"), joined("one thousand two hundred and fifty"));
        assert_eq!(joined("105"), joined("one hundred and five"));
    }

    #[test]
    fn the_word_and_outside_a_number_stays() {
        assert_eq!(joined("five and a hundred and a half"), "five and a hundred and a half");
    }

    #[test]
    fn fillers_and_sound_notes_are_dropped() {
        assert_eq!(joined("Um, [applause] so (laughs) uh yes"), "so yes");
    }

    #[test]
    fn an_open_bracket_without_its_end_keeps_the_words() {
        assert_eq!(joined("so (he said"), "so he said");
    }

    #[test]
    fn british_and_american_spellings_agree() {
        assert_eq!(joined("the colour of honour towards grey"), joined("the color of honor toward gray"));
    }

    #[test]
    fn hyphens_split_and_inner_apostrophes_join() {
        assert_eq!(joined("well-known o'clock 'quoted'"), "well known oclock quoted");
    }

    #[test]
    fn marks_over_letters_are_folded() {
        assert_eq!(joined("Café Brontë naïve"), "cafe bronte naive");
    }

    #[test]
    fn nothing_said_gives_no_words() {
        assert!(words(" ... — [music] ").is_empty());
    }
}
