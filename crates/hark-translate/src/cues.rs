//! Cues of subtitles and segments of transcripts: a sentence that spans several of them is translated as one text, and its translation is distributed over them.

use std::ops::Range;

use hark_transcript::is_unspaced;

use crate::protect;
use crate::segment::{self, Part};

/// A sentence does not continue after a pause of so many seconds.
const MAX_PAUSE: f64 = 3.0;
/// Limits of a run: speech without punctuation would otherwise be one sentence without end.
const MAX_RUN_CUES: usize = 12;
const MAX_RUN_BYTES: usize = 800;
/// What a cut costs that does not follow punctuation, in average lengths of a cue; more where the source has punctuation at its cut.
const OPEN_CUT: f64 = 0.3;
const MISSED_CLAUSE: f64 = 0.6;

/// A cue or segment to translate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cue<'a> {
    /// The text.
    pub text: &'a str,
    /// The speaker, where one is known.
    pub speaker: Option<&'a str>,
    /// Its time in seconds.
    pub start: f64,
    /// Its time in seconds.
    pub end: f64,
}

/// A part of a run: a sentence, or what stands between two and is copied.
struct Piece {
    text: String,
    is_copied: bool,
    /// The first cue that it touches, and the characters that it has in that one and those behind.
    first: usize,
    weights: Vec<usize>,
    /// Whether punctuation stands at the end of each cue but the last.
    clauses: Vec<bool>,
}

/// The translations of cues, one for each, in their order.
///
/// Cues of one speaker whose text goes on in the next are read as one text. Its sentences are given to `translate`, which answers with as many texts; the
/// translation of a sentence that spans cues is cut at punctuation or between words, in proportion to the source. A cue stays empty where a translation has
/// fewer words than cues. Cues with markup or several lines are translated on their own.
pub fn translate_cues<E>(
    cues: &[Cue<'_>],
    translate: impl FnOnce(&[&str]) -> Result<Vec<String>, E>,
) -> Result<Vec<String>, E> {
    let pieces: Vec<Piece> = runs(cues).into_iter().flat_map(|run| pieces(cues, run)).collect();
    let wanted: Vec<&str> = pieces.iter().filter(|piece| !piece.is_copied).map(|piece| piece.text.as_str()).collect();
    let mut translated = translate(&wanted)?.into_iter();
    let mut out = vec![String::new(); cues.len()];
    for piece in &pieces {
        let text = match piece.is_copied {
            true => piece.text.clone(),
            false => translated.next().unwrap_or_else(|| piece.text.clone()),
        };
        for (cue, part) in distribute(&text, &piece.weights, &piece.clauses).into_iter().enumerate() {
            append(&mut out[piece.first + cue], &part);
        }
    }
    Ok(out)
}

/// Appends to a text, with a space unless the script has none.
fn append(text: &mut String, more: &str) {
    let is_tight = text.chars().next_back().is_none_or(is_unspaced) && more.chars().next().is_none_or(is_unspaced);
    if !text.is_empty() && !more.is_empty() && !is_tight {
        text.push(' ');
    }
    text.push_str(more);
}

/// Cues that are read as one text.
fn runs(cues: &[Cue<'_>]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0;
    for (index, cue) in cues.iter().enumerate() {
        bytes += cue.text.len();
        match runs.last_mut() {
            Some(run) if run.len() < MAX_RUN_CUES && bytes <= MAX_RUN_BYTES && continues(&cues[index - 1], cue) => {
                run.end = index + 1;
            }
            _ => {
                runs.push(index..index + 1);
                bytes = cue.text.len();
            }
        }
    }
    runs
}

/// Whether a sentence may go on from one cue in the next.
fn continues(before: &Cue<'_>, next: &Cue<'_>) -> bool {
    let is_alone = |text: &str| text.trim().is_empty() || text.contains(['<', '\n', '♪', '♫']);
    // Dialogue in one file: "- Yes.", "Ann: Yes."
    let is_turn = next.text.trim_start().starts_with(['-', '–', '—', '>', '[', '('])
        || next
            .text
            .split_once(": ")
            .is_some_and(|(name, _)| name.split_whitespace().count() <= 3 && name.starts_with(char::is_uppercase));
    let is_pause = next.start - before.end >= MAX_PAUSE;
    before.speaker == next.speaker
        && !is_pause
        && !is_turn
        && !is_alone(before.text)
        && !is_alone(next.text)
        && !segment::ends_sentence(before.text)
}

/// The sentences of a run, with the cues that they are in.
fn pieces(cues: &[Cue<'_>], run: Range<usize>) -> Vec<Piece> {
    let first = run.start;
    if run.len() == 1 {
        let text = cues[first].text.to_owned();
        let is_copied = !text.chars().any(char::is_alphabetic);
        return vec![Piece { text, is_copied, first, weights: vec![1], clauses: Vec::new() }];
    }
    let mut text = String::new();
    let mut ends = Vec::with_capacity(run.len());
    for cue in &cues[run] {
        append(&mut text, &cue.text.split_whitespace().collect::<Vec<_>>().join(" "));
        ends.push(text.len());
    }
    let cue_at = |byte: usize| ends.partition_point(|end| *end <= byte);
    let mut at = 0;
    let mut pieces = Vec::new();
    for part in segment::split(&text) {
        let (Part::Sentence(part_text) | Part::Verbatim(part_text)) = part;
        let range = at..at + part_text.len();
        at = range.end;
        if part_text.trim().is_empty() {
            continue;
        }
        let touched = cue_at(range.start)..cue_at(range.end - 1) + 1;
        let weights = touched.clone().map(|cue| {
            let begin = if cue == 0 { 0 } else { ends[cue - 1] };
            text[begin.max(range.start)..ends[cue].min(range.end)].trim().chars().count()
        });
        let clauses = touched.clone().take(touched.len() - 1).map(|cue| ends_clause(&text[..ends[cue]]));
        pieces.push(Piece {
            text: part_text.to_owned(),
            is_copied: matches!(part, Part::Verbatim(_)),
            first: first + touched.start,
            weights: weights.collect(),
            clauses: clauses.collect(),
        });
    }
    pieces
}

fn ends_clause(text: &str) -> bool {
    text.trim_end().ends_with([',', ';', ':', '–', '—', '、', '，', '；', '：', '،', '؛'])
        || segment::ends_sentence(text)
}

/// A text over cues in proportion to `weights`; the cut behind each cue but the last prefers punctuation, the more where `clauses` says so.
fn distribute(text: &str, weights: &[usize], clauses: &[bool]) -> Vec<String> {
    let count = weights.len();
    if count <= 1 {
        return vec![text.to_owned()];
    }
    let text = text.trim();
    let places = cut_places(text);
    let cuts = match places.len() < count - 1 {
        true => places.iter().map(|place| place.byte).collect(),
        false => best_cuts(&places, text.chars().count(), weights, clauses),
    };
    let mut parts = Vec::with_capacity(count);
    let mut from = 0;
    for cut in cuts.into_iter().chain([text.len()]) {
        parts.push(text[from..cut].trim().to_owned());
        from = cut;
    }
    parts.resize(count, String::new());
    parts
}

/// A place where a cue may begin.
struct Place {
    byte: usize,
    /// Characters before it.
    characters: usize,
    is_clause: bool,
}

/// The places where a text may be cut: words begin there, or characters of a script without spaces.
fn cut_places(text: &str) -> Vec<Place> {
    let tokens = protect::tokens(text, &|_| false);
    let mut places = Vec::new();
    let mut before: Option<char> = None;
    for (characters, (byte, c)) in text.char_indices().enumerate() {
        let is_place = before.is_some_and(|before| match before.is_whitespace() {
            true => !c.is_whitespace(),
            false => may_cut_unspaced(before, c),
        });
        if is_place && !tokens.iter().any(|token| token.range.start < byte && byte < token.range.end) {
            places.push(Place { byte, characters, is_clause: ends_clause(&text[..byte]) });
        }
        before = Some(c);
    }
    places
}

/// Chinese and Japanese may be cut before any character that may begin a line; Thai and its like only at spaces, since their words would need a dictionary.
fn may_cut_unspaced(before: char, after: char) -> bool {
    let is_cjk = |c: char| {
        matches!(c, '\u{3041}'..='\u{30FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}'
            | '\u{20000}'..='\u{3FFFF}')
    };
    let is_closing = |c: char| "、。，！？：；）」』】》〉".contains(c);
    let may_begin = is_cjk(after) && !"ーぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶゝゞヽヾ・々".contains(after);
    let is_opening = "（「『【《〈“".contains(after);
    match is_closing(before) {
        true => !is_closing(after) && !after.is_whitespace(),
        false => (is_cjk(before) && (may_begin || is_opening)) || (may_begin && before.is_alphanumeric()),
    }
}

/// The cheapest cuts in ascending order, one fewer than `weights`; there are at least as many places.
///
/// A cut costs its distance from the proportion of the source. Costs are summed over cuts place by place: cost (cuts × places).
fn best_cuts(places: &[Place], length: usize, weights: &[usize], clauses: &[bool]) -> Vec<usize> {
    let cuts = weights.len() - 1;
    let total = weights.iter().sum::<usize>().max(1) as f64;
    let average = (length as f64 / weights.len() as f64).max(1.0);
    // For each cut and place the cheapest way to put this cut there, and where the cut before it is.
    let mut ways: Vec<Vec<(f64, usize)>> = Vec::with_capacity(cuts);
    let mut share = 0;
    for cut in 0..cuts {
        share += weights[cut];
        let ideal = length as f64 * share as f64 / total;
        let open = if clauses.get(cut).copied().unwrap_or(false) { MISSED_CLAUSE } else { OPEN_CUT };
        let mut cheapest = (f64::INFINITY, 0);
        let way = places.iter().enumerate().map(|(index, place)| {
            if let Some(previous) = ways.last()
                && index > 0
                && previous[index - 1].0 < cheapest.0
            {
                cheapest = (previous[index - 1].0, index - 1);
            }
            let till_here = if cut == 0 { 0.0 } else { cheapest.0 };
            let off = (place.characters as f64 - ideal).abs() / average;
            (till_here + off + if place.is_clause { 0.0 } else { open }, cheapest.1)
        });
        let way = way.collect();
        ways.push(way);
    }
    let last = ways[cuts - 1].iter().enumerate().min_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let mut place = last.map_or(0, |(index, _)| index);
    let mut chosen = Vec::with_capacity(cuts);
    for way in ways.iter().rev() {
        chosen.push(places[place].byte);
        place = way[place].1;
    }
    chosen.reverse();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cues<'a>(texts: &[&'a str]) -> Vec<Cue<'a>> {
        let cue = |(index, text): (usize, &&'a str)| Cue {
            text,
            speaker: None,
            start: index as f64,
            end: index as f64 + 1.0,
        };
        texts.iter().enumerate().map(cue).collect()
    }

    /// What is asked for, and the cues when it is answered with `answers`.
    fn translated(cues: &[Cue<'_>], answers: &[&str]) -> (Vec<String>, Vec<String>) {
        let mut asked = Vec::new();
        let out = translate_cues(cues, |texts| {
            asked = texts.iter().map(|text| (*text).to_owned()).collect();
            Ok::<_, ()>(answers.iter().map(|text| (*text).to_owned()).collect())
        });
        (asked, out.unwrap())
    }

    #[test]
    fn a_sentence_over_several_cues_is_translated_as_one_and_distributed_in_proportion() {
        let cues = cues(&["When the rain stopped,", "everybody went", "outside. Nobody", "came back."]);
        let (asked, out) =
            translated(&cues, &["Quando a chuva parou, toda a gente foi lá para fora.", "Ninguém voltou."]);
        assert_eq!(asked, ["When the rain stopped, everybody went outside.", "Nobody came back."]);
        assert_eq!(out, ["Quando a chuva parou,", "toda a gente foi lá", "para fora. Ninguém", "voltou."]);
    }

    #[test]
    fn speakers_pauses_turns_markup_and_ends_of_sentences_keep_cues_apart() {
        let alone = |cues: &[Cue<'_>]| {
            let texts: Vec<String> = cues.iter().map(|cue| cue.text.to_owned()).collect();
            let (asked, _) = translated(cues, &texts.iter().map(String::as_str).collect::<Vec<_>>());
            asked == texts
        };
        assert!(!alone(&cues(&["It goes", "on and on."])));
        assert!(alone(&cues(&["It ends here.", "And begins."])));
        assert!(alone(&cues(&["Who is", "- Me."])));
        assert!(alone(&cues(&["Who is", "Ann Miller: me"])));
        assert!(alone(&cues(&["<i>It goes</i>", "<i>on and on.</i>"])));
        assert!(alone(&cues(&["- Yes\n- No", "and more"])));
        let mut two = cues(&["It goes", "on and on."]);
        two[1].start = 10.0;
        assert!(alone(&two));
        two[1].start = 1.0;
        two[1].speaker = Some("Ann");
        assert!(alone(&two));
    }

    #[test]
    fn no_word_is_lost_and_no_cue_is_empty_while_there_are_words() {
        let text = "um dois três quatro cinco seis sete oito nove dez";
        for weights in [vec![1, 1], vec![1, 100, 1], vec![50, 1, 1, 1], vec![0, 0, 7], vec![3; 10]] {
            let parts = distribute(text, &weights, &vec![false; weights.len() - 1]);
            assert_eq!(parts.len(), weights.len());
            assert_eq!(parts.join(" "), text);
            assert!(parts.iter().all(|part| !part.is_empty()), "{parts:?}");
        }
        assert_eq!(distribute("dois", &[1, 1, 1], &[false, false]), ["dois", "", ""]);
        assert_eq!(distribute("", &[1, 1], &[false]), ["", ""]);
    }

    #[test]
    fn cuts_prefer_punctuation_near_the_proportion() {
        let parts = distribute("Sim, claro que podemos falar, mas não hoje de manhã", &[14, 10], &[true]);
        assert_eq!(parts, ["Sim, claro que podemos falar,", "mas não hoje de manhã"]);
    }

    #[test]
    fn scripts_without_spaces_are_cut_between_characters_but_not_before_closing_punctuation() {
        let parts = distribute("今天天气很好，我们出去走走吧。", &[7, 8], &[true]);
        assert_eq!(parts, ["今天天气很好，", "我们出去走走吧。"]);
        let parts = distribute("キャットフードを買いました。", &[1, 1, 1], &[false, false]);
        assert_eq!(parts.concat(), "キャットフードを買いました。");
        assert!(parts.iter().all(|part| !part.starts_with(['ャ', 'ッ', 'ー', '。'])), "{parts:?}");
    }

    #[test]
    fn placeholders_with_spaces_stay_whole() {
        let parts = distribute("a {first name} b", &[1, 1], &[false]);
        assert!(parts.iter().any(|part| part.contains("{first name}")), "{parts:?}");
    }

    #[test]
    fn speech_without_punctuation_is_cut_into_runs() {
        let texts = vec!["word after word after word"; 1000];
        let cues = cues(&texts);
        let out = translate_cues(&cues, |texts| {
            assert!(texts.len() > 50 && texts.iter().all(|text| text.len() < 900));
            Ok::<_, ()>(texts.iter().map(|text| text.to_uppercase()).collect())
        });
        assert!(out.unwrap().iter().all(|text| text == "WORD AFTER WORD AFTER WORD"));
    }
}
