//! The lines of one cue: as few as hold it, balanced, broken where the sentence breaks.

use crate::SubtitleRules;
use crate::atoms::{Atom, line_text, line_width};
use crate::script::Ending;

/// Counts the lines a growing cue needs when each line is filled as far as it goes, which is the least possible.
pub(crate) struct Filling {
    max_width: usize,
    pub(crate) lines: usize,
    width: usize,
}

impl Filling {
    pub(crate) fn new(rules: &SubtitleRules) -> Self {
        Self { max_width: rules.max_line_width.max(1), lines: 0, width: 0 }
    }

    pub(crate) fn add(&mut self, atom: &Atom) {
        let wider = self.width + usize::from(atom.spaced) + atom.width;
        if self.lines > 0 && wider <= self.max_width {
            self.width = wider;
        } else {
            self.lines += 1;
            self.width = atom.width;
        }
    }
}

/// Breaks `atoms` into lines no wider than the rules allow; a single wider atom gets a line for itself.
pub(crate) fn break_lines(atoms: &[Atom], rules: &SubtitleRules) -> Vec<String> {
    let mut filling = Filling::new(rules);
    atoms.iter().for_each(|atom| filling.add(atom));
    let lines = filling.lines;
    if lines <= 1 {
        return vec![line_text(atoms)];
    }
    let max_width = rules.max_line_width.max(1);
    let even = line_width(atoms) as f64 / lines as f64;
    let cost_of_line = |from: usize, to: usize| {
        let width = line_width(&atoms[from..to]);
        if width > max_width && to - from > 1 {
            return f64::INFINITY;
        }
        let off = (width as f64 - even) / max_width as f64;
        4.0 * off * off + if to == atoms.len() { 0.0 } else { break_cost(&atoms[to - 1]) }
    };

    // best[n][to]: the cheapest way to put the first `to` atoms on n lines, and where its last line begins.
    let mut best = vec![vec![(f64::INFINITY, 0); atoms.len() + 1]; lines + 1];
    best[0][0].0 = 0.0;
    for n in 1..=lines {
        for to in n..=atoms.len() {
            for from in (n - 1..to).rev() {
                let line = cost_of_line(from, to);
                if line.is_infinite() {
                    break;
                }
                let cost = best[n - 1][from].0 + line;
                if cost < best[n][to].0 {
                    best[n][to] = (cost, from);
                }
            }
        }
    }

    let mut broken = Vec::with_capacity(lines);
    let mut to = atoms.len();
    for n in (1..=lines).rev() {
        let from = best[n][to].1;
        broken.push(line_text(&atoms[from..to]));
        to = from;
    }
    broken.reverse();
    broken
}

fn break_cost(atom: &Atom) -> f64 {
    match atom.ending {
        Ending::Sentence => 0.0,
        Ending::Clause => 0.3,
        Ending::Open if atom.ends_word => 1.0,
        Ending::Open => 1.6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_transcript::{Segment, TranscriptionResult};

    fn broken(text: &str, max_line_width: usize) -> Vec<String> {
        let segment = Segment { end: 5.0, text: text.into(), ..Default::default() };
        let transcript = TranscriptionResult { segments: vec![segment], ..Default::default() };
        let rules = SubtitleRules { max_line_width, ..Default::default() };
        break_lines(&crate::atoms::turns(&transcript)[0].atoms, &rules)
    }

    #[test]
    fn a_short_text_stays_on_one_line() {
        assert_eq!(broken("No breaks are needed here.", 42), ["No breaks are needed here."]);
    }

    #[test]
    fn lines_are_balanced_rather_than_filled() {
        assert_eq!(
            broken("the quick brown fox jumps over the lazy dog tonight", 42),
            ["the quick brown fox jumps", "over the lazy dog tonight"]
        );
    }

    #[test]
    fn a_comma_near_the_middle_wins_over_perfect_balance() {
        assert_eq!(
            broken("When the rain finally stopped, everybody went outside", 42),
            ["When the rain finally stopped,", "everybody went outside"]
        );
    }

    #[test]
    fn a_text_that_does_not_fit_a_cue_gets_more_lines_and_loses_nothing() {
        let text = "word after word ".repeat(20);
        let lines = crate::break_cue(&text, &SubtitleRules::default());
        assert!(lines.len() > 2 && lines.iter().all(|line| line.len() <= 42), "{lines:?}");
        assert_eq!(lines.join(" "), text.trim());
        assert_eq!(crate::break_cue("", &SubtitleRules::default()), [""]);
    }

    #[test]
    fn wide_characters_count_twice() {
        for line in broken("今日は天気がとても良いので散歩に出かけましょう", 24) {
            assert!(crate::script::width(&line) <= 24, "{line}");
        }
    }

    #[test]
    fn a_word_longer_than_the_line_stays_whole() {
        let word = "Donaudampfschifffahrtsgesellschaft";
        assert!(broken(&format!("the {word} sails"), 20).contains(&word.to_owned()));
    }
}
