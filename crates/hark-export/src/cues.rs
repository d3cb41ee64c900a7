//! Cues: which words stand on the screen together, and from when to when.
//!
//! Cutting a turn into cues is a shortest path over its atoms: every possible cue has a cost, and the cheapest chain
//! from the first atom to the last wins. A cue may reach over as many atoms as its lines and its seconds hold, so the
//! cost of a turn is (atoms × atoms in a full cue), a second of work for days of speech.

use hark_transcript::TranscriptionResult;

use crate::SubtitleRules;
use crate::atoms::{Atom, Turn, line_width, turns};
use crate::lines::{Filling, break_lines};
use crate::script::{self, Ending};

/// A pause after which the next words always begin a new cue: text must not stand there long before it is said.
const LONG_PAUSE: f64 = 1.5;

/// A gap shorter than this flickers; the cue before it stays until the next one comes (half a second, as style guides
/// have it).
const FLICKER: u64 = 500;

/// Text on the screen from one moment to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cue {
    /// Milliseconds.
    pub(crate) start: u64,
    /// Milliseconds; after `start` and never after the next cue's start.
    pub(crate) end: u64,
    pub(crate) speaker: Option<String>,
    pub(crate) lines: Vec<String>,
}

/// How a cue says who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpeakerStyle {
    /// `Ann: ` before the first words of each turn.
    Prefix,
    /// Only in [`Cue::speaker`].
    Apart,
}

/// Cuts a transcript into cues in order of time that never overlap.
pub(crate) fn cues(transcript: &TranscriptionResult, rules: &SubtitleRules, style: SpeakerStyle) -> Vec<Cue> {
    let mut turns = turns(transcript);
    if style == SpeakerStyle::Prefix {
        turns.iter_mut().for_each(prefix_speaker);
    }
    let mut drafts = Vec::new();
    for n in 0..turns.len() {
        let turn = &turns[n];
        let next_start = turns.get(n + 1).map(|next| next.atoms[0].start);
        let mut from = 0;
        for to in cut(&turn.atoms, next_start, rules) {
            let atoms = &turn.atoms[from..to];
            drafts.push(Draft {
                start: milliseconds(atoms[0].start),
                spoken_until: milliseconds(atoms.iter().fold(0.0, |latest: f64, atom| latest.max(atom.end))),
                columns: line_width(atoms),
                speaker: turn.speaker.clone(),
                lines: break_lines(atoms, rules),
            });
            from = to;
        }
    }
    place(drafts, milliseconds(transcript.duration), rules)
}

/// The label and the first word are one atom, so no line ends with a label.
fn prefix_speaker(turn: &mut Turn) {
    if let (Some(speaker), Some(first)) = (&turn.speaker, turn.atoms.first_mut()) {
        let label = speaker.split_whitespace().collect::<Vec<_>>().join(" ");
        first.text = format!("{label}: {}", first.text);
        first.width = script::width(&first.text);
    }
}

/// Where the cues of a turn end: indexes one past their last atoms.
fn cut(atoms: &[Atom], next_start: Option<f64>, rules: &SubtitleRules) -> Vec<usize> {
    let mut best = vec![(f64::INFINITY, 0); atoms.len() + 1];
    best[0].0 = 0.0;
    for from in 0..atoms.len() {
        let mut filling = Filling::new(rules);
        let mut columns = 0;
        let mut inside = 0.0;
        for to in from + 1..=atoms.len() {
            let last = &atoms[to - 1];
            filling.add(last);
            columns += last.width + usize::from(last.spaced && to > from + 1);
            if to > from + 1 {
                let pause = last.start - atoms[to - 2].end;
                let too_long = last.end - atoms[from].start > rules.max_seconds;
                if filling.lines > rules.max_lines.max(1) || too_long || pause >= LONG_PAUSE {
                    break;
                }
                inside += cost_inside(&atoms[to - 2], pause);
            }
            let shown_until = atoms.get(to).map(|next| next.start).or(next_start);
            let cost = best[from].0
                + inside
                + cost_of_ending(last, atoms.get(to))
                + cost_of_shape(columns, atoms[from].start, shown_until, rules);
            if cost < best[to].0 {
                best[to] = (cost, from);
            }
        }
    }
    let mut ends = Vec::new();
    let mut to = atoms.len();
    while to > 0 {
        ends.push(to);
        to = best[to].1;
    }
    ends.reverse();
    ends
}

/// Ending a cue here: free at the end of a sentence or a turn, dear in the middle of a clause; a pause makes up for it.
fn cost_of_ending(last: &Atom, next: Option<&Atom>) -> f64 {
    let Some(next) = next else { return 0.0 };
    let cost = match last.ending {
        Ending::Sentence => 0.0,
        _ if last.ends_segment => 0.6,
        Ending::Clause => 1.2,
        Ending::Open if last.ends_word => 3.0,
        Ending::Open => 4.5,
    };
    (cost - 2.0 * (next.start - last.end).clamp(0.0, 1.0)).max(0.0)
}

/// Running on over this place: the end of a sentence and a pause are better places for a new cue, unless that makes
/// the cue too short to read.
fn cost_inside(atom: &Atom, pause: f64) -> f64 {
    let sentence = if atom.ending == Ending::Sentence { 1.2 } else { 0.0 };
    sentence + pause.max(0.0)
}

/// Each cue costs a little, so there are few; full ones cost more, so the parts of a sentence come out even; those
/// that can't be read in their time cost most.
fn cost_of_shape(columns: usize, start: f64, shown_until: Option<f64>, rules: &SubtitleRules) -> f64 {
    let full = columns as f64 / (rules.max_line_width * rules.max_lines).max(1) as f64;
    let mut cost = 1.0 + 1.5 * full * full;
    if let Some(until) = shown_until {
        let seconds = (until - start).max(0.0);
        cost += 4.0 * (rules.min_seconds - seconds).max(0.0);
        let needed = columns as f64 / rules.max_columns_per_second.max(1.0);
        cost += 2.0 * (needed / seconds.max(0.1) - 1.0).clamp(0.0, 2.0);
    }
    cost
}

struct Draft {
    start: u64,
    spoken_until: u64,
    columns: usize,
    speaker: Option<String>,
    lines: Vec<String>,
}

/// Gives every cue its time: as long as reading takes, as far as the next cue and the end of the recording allow.
fn place(drafts: Vec<Draft>, duration: u64, rules: &SubtitleRules) -> Vec<Cue> {
    let gap = milliseconds(rules.min_gap);
    let starts: Vec<u64> = drafts.iter().map(|draft| draft.start).collect();
    let mut free_from = 0;
    let mut cues = Vec::with_capacity(drafts.len());
    for (n, draft) in drafts.into_iter().enumerate() {
        let start = draft.start.max(free_from);
        let latest = match starts.get(n + 1) {
            Some(&next) if next > start + 2 * gap => next - gap,
            Some(&next) => next,
            None if duration > start => duration.max(draft.spoken_until),
            None => u64::MAX,
        };
        let longest = start + milliseconds(rules.max_seconds);
        let reading = milliseconds(draft.columns as f64 / rules.max_columns_per_second.max(1.0));
        let readable = start + reading.max(milliseconds(rules.min_seconds));
        let mut end = draft.spoken_until.max(readable).min(latest).min(longest);
        if n + 1 < starts.len() && latest <= longest && latest < end + FLICKER {
            end = latest;
        }
        // Words that came with one and the same time still become cues of their own, one after the other.
        end = end.max(start + 1);
        free_from = end;
        cues.push(Cue { start, end, speaker: draft.speaker, lines: draft.lines });
    }
    cues
}

/// Times beyond this, some thirty thousand years, are nobody's; sums of those below can't overflow.
const LATEST: f64 = 1e15;

fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1000.0).round().clamp(0.0, LATEST) as u64
}
