//! Check digits. Digits are numbers from 0 to 9.

/// The sum of digits times weights.
pub(super) fn weighted(digits: &[u8], weights: &[u32]) -> u32 {
    digits.iter().zip(weights).map(|(digit, weight)| u32::from(*digit) * weight).sum()
}

/// Luhn: cards, Swedish and Canadian numbers.
pub(super) fn luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, digit)| {
            let doubled = u32::from(*digit) * (1 + at as u32 % 2);
            if doubled > 9 { doubled - 9 } else { doubled }
        })
        .sum();
    sum.is_multiple_of(10)
}

/// ISO 7064 MOD 11,10: the German tax number.
pub(super) fn mod_11_10(digits: &[u8]) -> bool {
    let Some((check, payload)) = digits.split_last() else { return false };
    let mut product = 10;
    for digit in payload {
        let sum = (u32::from(*digit) + product) % 10;
        product = if sum == 0 { 10 } else { sum } * 2 % 11;
    }
    (11 - product) % 10 == u32::from(*check)
}

/// Verhoeff: Aadhaar.
pub(super) fn verhoeff(digits: &[u8]) -> bool {
    const PERMUTATION: [[u8; 10]; 8] = [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        [1, 5, 7, 6, 2, 8, 3, 0, 9, 4],
        [5, 8, 0, 3, 7, 9, 6, 1, 4, 2],
        [8, 9, 1, 6, 0, 4, 3, 5, 2, 7],
        [9, 4, 5, 3, 1, 2, 6, 8, 7, 0],
        [4, 2, 8, 6, 5, 7, 3, 9, 0, 1],
        [2, 7, 9, 3, 8, 0, 6, 4, 1, 5],
        [7, 0, 4, 6, 9, 1, 3, 2, 5, 8],
    ];
    let check = digits.iter().rev().enumerate().fold(0, |check, (at, digit)| {
        let permuted = PERMUTATION[at % 8][usize::from(*digit)];
        dihedral(check, permuted)
    });
    check == 0
}

/// The product in the dihedral group of order 10.
fn dihedral(one: u8, other: u8) -> u8 {
    match (one < 5, other < 5) {
        (true, true) => (one + other) % 5,
        (true, false) => (one + other - 5) % 5 + 5,
        (false, true) => (one - 5 + 5 - other) % 5 + 5,
        (false, false) => (one + 5 - other) % 5,
    }
}

/// The remainder by 97 of a number in digits.
pub(super) fn mod_97(digits: impl Iterator<Item = u8>) -> u32 {
    digits.fold(0, |remainder, digit| (remainder * 10 + u32::from(digit)) % 97)
}

/// The number that digits write.
pub(super) fn value(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |value, digit| value * 10 + u64::from(*digit))
}

/// Whether there is such a day: two digits of the month and of the day.
pub(super) fn is_day(month: &[u8], day: &[u8]) -> bool {
    (1..=12).contains(&value(month)) && (1..=31).contains(&value(day))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(text: &str) -> Vec<u8> {
        text.bytes().map(|byte| byte - b'0').collect()
    }

    #[test]
    fn published_examples_are_right_and_one_digit_off_is_wrong() {
        for (check, number) in [
            (luhn as fn(&[u8]) -> bool, "4111111111111111"),
            (luhn, "79927398713"),
            (mod_11_10, "86095742719"),
            (verhoeff, "2363"),
            (verhoeff, "123451"),
        ] {
            let number = digits(number);
            assert!(check(&number), "{number:?}");
            for at in 0..number.len() {
                let mut other = number.clone();
                other[at] = (other[at] + 1) % 10;
                assert!(!check(&other), "{other:?}");
            }
        }
    }
}
