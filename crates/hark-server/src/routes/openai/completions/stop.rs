//! Ends an answer before the first of some texts. What may be the beginning of one is held back.

/// Looks for texts in an answer that comes in pieces.
pub(super) struct StopFilter {
    stops: Vec<String>,
    /// The end of the answer so far that may be the beginning of a stop text.
    held: String,
}

impl StopFilter {
    pub(super) fn new(stops: Vec<String>) -> Self {
        StopFilter { stops, held: String::new() }
    }

    /// Adds a piece of the answer; returns what of it may be shown, and whether the answer ends with that.
    pub(super) fn push(&mut self, piece: &str) -> (String, bool) {
        self.held.push_str(piece);
        let found = self.stops.iter().filter_map(|stop| self.held.find(stop)).min();
        if let Some(at) = found {
            self.held.truncate(at);
            return (std::mem::take(&mut self.held), true);
        }
        let is_beginning = |at: &usize| {
            let end = &self.held[*at..];
            self.stops.iter().any(|stop| stop.starts_with(end))
        };
        let starts = self.held.char_indices().map(|(at, _)| at);
        let longest = self.stops.iter().map(String::len).max().unwrap_or(0);
        let from = self.held.len().saturating_sub(longest);
        let keep = starts.filter(|at| *at >= from).find(is_beginning).unwrap_or(self.held.len());
        let rest = self.held.split_off(keep);
        (std::mem::replace(&mut self.held, rest), false)
    }

    /// The rest of an answer that ended by itself.
    pub(super) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer in pieces of one character, and whether it was ended.
    fn run(stops: &[&str], answer: &str) -> (String, bool) {
        let mut filter = StopFilter::new(stops.iter().map(|stop| (*stop).to_owned()).collect());
        let mut shown = String::new();
        for c in answer.chars() {
            let (text, is_stop) = filter.push(&c.to_string());
            shown.push_str(&text);
            if is_stop {
                return (shown, true);
            }
        }
        (shown + &filter.finish(), false)
    }

    #[test]
    fn an_answer_ends_before_the_first_stop_text_however_it_is_cut_into_pieces() {
        let whole = |stops: &[&str], answer: &str| {
            let mut filter = StopFilter::new(stops.iter().map(|stop| (*stop).to_owned()).collect());
            let (text, is_stop) = filter.push(answer);
            if is_stop { (text, true) } else { (text + &filter.finish(), false) }
        };
        for (stops, answer, shown, is_stop) in [
            (&["END"][..], "one two END three", "one two ", true),
            (&["END", "two"], "one two END", "one ", true),
            (&["aab"], "aaab", "a", true),
            (&["aab"], "aaa", "aaa", false),
            (&["é!"], "caféé!x", "café", true),
            (&["\n\n"], "a\nb\n\nc", "a\nb", true),
            (&["x"], "", "", false),
            (&[], "abc", "abc", false),
        ] {
            assert_eq!(run(stops, answer), (shown.to_owned(), is_stop), "{stops:?} in {answer:?}");
            assert_eq!(whole(stops, answer), (shown.to_owned(), is_stop), "{stops:?} in {answer:?}");
        }
    }

    #[test]
    fn only_what_may_be_a_stop_text_is_held_back() {
        let mut filter = StopFilter::new(vec!["STOP".to_owned()]);
        assert_eq!(filter.push("Hello ST"), ("Hello ".to_owned(), false));
        assert_eq!(filter.push("ART"), ("START".to_owned(), false));
        assert_eq!(filter.push(" STO"), (" ".to_owned(), false));
        assert_eq!(filter.push("P now"), (String::new(), true));
    }
}
