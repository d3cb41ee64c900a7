//! Tables for people: columns as wide as what they hold.

use std::fmt::Write as _;

/// A heading and rows; numbers stand to the right.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let columns = headings.len();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([headings[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let is_number = |column: usize| {
        !rows.is_empty() && rows.iter().all(|row| row[column].parse::<f64>().is_ok() || row[column] == "-")
    };
    let numbers: Vec<bool> = (0..columns).map(is_number).collect();
    let mut out = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (column, cell) in cells.enumerate() {
            let width = widths[column];
            let gap = if column == 0 { "" } else { "  " };
            let _ =
                if numbers[column] { write!(text, "{gap}{cell:>width$}") } else { write!(text, "{gap}{cell:width$}") };
        }
        out.push_str(text.trim_end());
        out.push('\n');
    };
    line(&mut headings.iter().copied());
    for row in rows {
        line(&mut row.iter().map(String::as_str));
    }
    out
}

/// A moment as a table shows it: to the minute, in UTC.
pub(crate) fn moment(at: hark_api::DateTime) -> String {
    let text = at.to_string();
    text.get(..16).map_or(text.clone(), |minute| minute.replace('T', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_they_hold_and_numbers_stand_to_the_right() {
        let rows = [vec!["ann@example.com".to_owned(), "5".to_owned()], vec!["bö".to_owned(), "600".to_owned()]];
        assert_eq!(
            table(&["email", "credits"], &rows),
            "email            credits\nann@example.com        5\nbö                   600\n"
        );
        assert_eq!(table(&["email", "credits"], &[]), "email  credits\n");
    }

    #[test]
    fn a_moment_is_shown_to_the_minute() {
        assert_eq!(moment(hark_api::DateTime(1_700_000_000_123_456)), "2023-11-14 22:13");
    }
}
