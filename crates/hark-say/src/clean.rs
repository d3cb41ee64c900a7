//! Characters: what means nothing to a reader is taken out, variants of a sign become one.

use unicode_normalization::UnicodeNormalization;

/// Rewrites a text to the characters that the rules know: composed letters, single plain spaces, one kind of quotation mark and dash, no emoji, no control and formatting characters. Line breaks stay.
pub(crate) fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.nfc() {
        match c {
            '\r' => {}
            '\n' | '\u{2028}' | '\u{2029}' | '\u{85}' | '\u{0b}' | '\u{0c}' => out.push('\n'),
            '\t' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => {
                push_space(&mut out)
            }
            ' ' => push_space(&mut out),
            '‘' | '’' | 'ʼ' | '′' | '`' | '´' | '＇' => out.push('\''),
            '„' | '“' | '«' | '‹' | '「' | '『' | '《' | '【' => out.push('“'),
            '”' | '»' | '›' | '」' | '』' | '》' | '】' | '‟' => out.push('”'),
            '″' | '"' | '＂' => out.push('"'),
            '‐' | '‑' | '‒' | '﹣' | '－' => out.push('-'),
            '−' => out.push('−'),
            '–' => out.push('–'),
            '—' | '―' | '⸺' | '⸻' => out.push('—'),
            '…' => out.push('…'),
            '\u{2044}' | '∕' => out.push('/'),
            '％' => out.push('%'),
            // Fullwidth forms of ASCII.
            '\u{ff01}'..='\u{ff5e}' => out.push(char::from_u32(c as u32 - 0xfee0).unwrap_or(' ')),
            '¼' | '½' | '¾' | '⅐'..='⅞' => push_fraction(&mut out, c),
            'ﬀ'..='ﬆ' => out.extend(std::iter::once(c).nfkc()),
            _ if is_left_out(c) => {
                // An emoji between words separates them.
                if is_emoji(c) && !out.ends_with('\n') {
                    push_space(&mut out);
                }
            }
            _ => out.push(c),
        }
    }
    out
}

/// One space for any number of them: a long run would be read again at each of its spaces.
fn push_space(out: &mut String) {
    if !out.ends_with(' ') {
        out.push(' ');
    }
}

fn push_fraction(out: &mut String, c: char) {
    if out.ends_with(|before: char| before.is_ascii_digit()) {
        out.push(' ');
    }
    out.extend(std::iter::once(c).nfkc().map(|part| if part == '\u{2044}' { '/' } else { part }));
}

fn is_left_out(c: char) -> bool {
    c.is_control()
        || is_emoji(c)
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffd}' | '\u{e000}'..='\u{f8ff}'
            | '\u{e0000}'..='\u{e0fff}' | '\u{f0000}'..='\u{10ffff}')
}

fn is_emoji(c: char) -> bool {
    matches!(c,
        '\u{1f000}'..='\u{1faff}' | '\u{1fb00}'..='\u{1fbff}' | '\u{2600}'..='\u{27bf}' | '\u{2b00}'..='\u{2bff}'
        | '\u{2300}'..='\u{23ff}' | '\u{25a0}'..='\u{25ff}' | '\u{20e3}' | '\u{2500}'..='\u{259f}')
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn what_means_nothing_to_a_reader_is_taken_out() {
        for (text, cleaned) in [
            ("a\u{200b}b\u{202e}c\u{feff}", "abc"),
            ("well😀done", "well done"),
            ("nice 👍🏽 work", "nice work"),
            ("a \t\u{a0} b", "a b"),
            ("it’s “so”", "it's “so”"),
            ("1½ cups", "1 1/2 cups"),
            ("ｆｕｌｌ １２", "full 12"),
            ("e\u{301}", "é"),
            ("a\u{0}\u{7}b", "ab"),
            ("soft\u{ad}hyphen", "softhyphen"),
            ("ﬁne", "fine"),
        ] {
            assert_eq!(clean(text), cleaned, "{text:?}");
        }
    }
}
