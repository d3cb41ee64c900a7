//! What is written and what is spoken, by tables: `tests/cases`.

use hark_say::{Language, normalize};

fn check(language: &str, cases: &str) -> usize {
    let language = Language::find(language).unwrap();
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in cases.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("# ")) {
        let (written, spoken) =
            line.split_once("=> ").or_else(|| line.split_once("=>")).unwrap_or_else(|| panic!("{line}"));
        let found = normalize(written.trim(), language);
        count += 1;
        if found != spoken.trim() {
            wrong.push(format!("{}\n  expected {}\n  found    {found}", written.trim(), spoken.trim()));
        }
    }
    assert!(wrong.is_empty(), "{} of {count} are read otherwise:\n{}", wrong.len(), wrong.join("\n"));
    count
}

#[test]
fn american_english_is_read_as_the_table_says() {
    assert!(check("en-us", include_str!("cases/en-us.txt")) > 300);
}

#[test]
fn british_english_differs_in_dates_and_numbers() {
    assert!(check("en-gb", include_str!("cases/en-gb.txt")) >= 12);
}

#[test]
fn other_languages_read_numbers_dates_times_money_and_percentages() {
    let mut count = 0;
    for line in include_str!("cases/other.txt").lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (language, case) = line.split_once(" | ").unwrap();
        count += check(language, case);
    }
    assert!(count > 40);
}
