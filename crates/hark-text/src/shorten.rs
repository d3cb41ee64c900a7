//! Notes made shorter without the model, so that every part of a text keeps a share.

use crate::extract;

/// Tokens below which a line says nothing: where lines would get less, some are left out, evenly over the note.
const MIN_LINE_TOKENS: usize = 16;

/// Notes that were made to fit.
pub(crate) struct Shortened {
    pub(crate) notes: Vec<String>,
    /// Tokens that they had, and that they have.
    pub(crate) before: usize,
    pub(crate) after: usize,
}

/// Notes with `budget` tokens together: what the short ones leave is for the long ones, whose lines are shortened. A note is left out only where there is
/// not room for a line of each.
pub(crate) fn shorten_notes(notes: &[String], budget: usize, count_tokens: &dyn Fn(&str) -> usize) -> Shortened {
    let lines: Vec<Vec<Line<'_>>> = notes.iter().map(|note| lines(note, count_tokens)).collect();
    let sizes: Vec<usize> = lines.iter().map(|lines| total(lines)).collect();
    let notes: Vec<String> = shares(&sizes, budget)
        .into_iter()
        .map(|(note, share)| shorten_note(&lines[note], share, count_tokens))
        .filter(|note| !note.is_empty())
        .collect();
    let after = notes.iter().map(|note| total(&self::lines(note, count_tokens))).sum();
    Shortened { notes, before: sizes.iter().sum(), after }
}

struct Line<'a> {
    text: &'a str,
    /// Its tokens and its end.
    tokens: usize,
}

fn lines<'a>(note: &'a str, count_tokens: &dyn Fn(&str) -> usize) -> Vec<Line<'a>> {
    let lines = note.lines().filter(|line| !line.trim().is_empty());
    lines.map(|text| Line { text, tokens: count_tokens(text) + 1 }).collect()
}

fn total(lines: &[Line<'_>]) -> usize {
    lines.iter().map(|line| line.tokens).sum()
}

fn shorten_note(lines: &[Line<'_>], share: usize, count_tokens: &dyn Fn(&str) -> usize) -> String {
    let sizes: Vec<usize> = lines.iter().map(|line| line.tokens).collect();
    let kept = shares(&sizes, share).into_iter().map(|(line, share)| shorten_line(&lines[line], share, count_tokens));
    kept.collect::<Vec<_>>().join("\n")
}

/// A line of at most `share` tokens, cut at a word.
fn shorten_line(line: &Line<'_>, share: usize, count_tokens: &dyn Fn(&str) -> usize) -> String {
    if line.tokens <= share {
        return line.text.to_owned();
    }
    // The most characters that fit: more characters never have fewer tokens, or hardly.
    let (mut fits, mut too_long) = (0, line.text.chars().count());
    while too_long - fits > 1 {
        let middle = fits.midpoint(too_long);
        match count_tokens(&extract::shorten(line.text, middle)) < share {
            true => fits = middle,
            false => too_long = middle,
        }
    }
    extract::shorten(line.text, fits.max(1))
}

/// Which of some pieces are kept, and the tokens of each: all where that leaves [`MIN_LINE_TOKENS`] to each that has so many, else as many as that
/// allows, evenly spread. Shares are fair: pieces that need less than others may have all of it.
fn shares(sizes: &[usize], budget: usize) -> Vec<(usize, usize)> {
    let spread = |count: usize| (0..count).map(move |at| at * sizes.len() / count.max(1));
    let needed = |count: usize| spread(count).map(|at| sizes[at].min(MIN_LINE_TOKENS)).sum::<usize>();
    let count = (1..=sizes.len()).rev().find(|count| needed(*count) <= budget).unwrap_or(sizes.len().min(1));
    let kept: Vec<usize> = spread(count).collect();
    let mut order = kept.clone();
    order.sort_unstable_by_key(|at| sizes[*at]);
    let mut left = budget;
    let mut shares: Vec<(usize, usize)> = order
        .iter()
        .enumerate()
        .map(|(before, at)| {
            let share = sizes[*at].min(left / (count - before));
            left -= share;
            (*at, share)
        })
        .collect();
    shares.sort_unstable();
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> usize {
        text.split_whitespace().count()
    }

    fn note(part: usize, lines: usize, words: usize) -> String {
        let line = |line: usize| format!("- part{part} line{line} {}", "word ".repeat(words - 3)).trim().to_owned();
        (0..lines).map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn every_note_keeps_a_share_and_short_ones_all_of_theirs() {
        // One line that is longer than the share of its note, many lines, and a short note.
        let notes = [note(0, 1, 400), note(1, 12, 30), note(2, 1, 5), note(3, 2, 60)];
        let shortened = shorten_notes(&notes, 200, &tokens);
        assert_eq!(shortened.notes.len(), 4);
        assert_eq!((shortened.before, shortened.notes[2].as_str()), (401 + 12 * 31 + 6 + 122, notes[2].as_str()));
        assert!(shortened.after <= 200 && shortened.after > 160, "{}", shortened.after);
        for (part, note) in shortened.notes.iter().enumerate() {
            assert!(note.starts_with(&format!("- part{part} line0")), "{note}");
            assert!(part == 2 || note.ends_with('…') && tokens(note) > 40, "{note}");
        }
        // The lines of the second note that are kept come from all of it.
        let kept: Vec<&str> = shortened.notes[1].lines().map(|line| line.split(' ').nth(2).unwrap()).collect();
        assert_eq!(kept, ["line0", "line3", "line6", "line9"].map(|line| line.trim_end_matches('…')));
    }

    #[test]
    fn notes_that_fit_stay_as_they_are_and_too_many_are_thinned_evenly() {
        let notes = [note(0, 2, 20), note(1, 1, 9)];
        let shortened = shorten_notes(&notes, 100, &tokens);
        assert_eq!((shortened.notes, shortened.after), (notes.to_vec(), shortened.before));
        let many: Vec<String> = (0..100).map(|part| note(part, 3, 40)).collect();
        let shortened = shorten_notes(&many, 160, &tokens);
        let parts: Vec<String> = shortened.notes.iter().map(|note| note.split(' ').nth(1).unwrap().into()).collect();
        assert_eq!(
            parts,
            ["part0", "part10", "part20", "part30", "part40", "part50", "part60", "part70", "part80", "part90"]
        );
        assert!(shortened.after <= 160);
        let none = shorten_notes(&[String::new(), "\n".to_owned()], 10, &tokens);
        assert!(none.notes.is_empty());
    }

    #[test]
    fn a_line_without_spaces_is_shortened_too() {
        let characters = |text: &str| text.chars().count();
        let shortened = shorten_notes(&["预算".repeat(100), "预算和办公室".to_owned()], 60, &characters);
        assert_eq!(shortened.notes[1], "预算和办公室");
        assert!(shortened.notes[0].starts_with("预算预算") && shortened.notes[0].ends_with('…'));
        assert!((50..=60).contains(&shortened.after), "{}", shortened.after);
    }
}
