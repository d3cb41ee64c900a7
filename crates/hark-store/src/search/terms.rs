//! Terms as the database has them: keyed hashes of words.
//!
//! A term is the first 80 bits of HMAC-SHA-256 over the word, keyed for the account: the same word of two accounts is two terms. The key is derived from the
//! account's data key. An account without one has a key that a reader of the database can compute: there the text itself is plaintext, too.

use zeroize::Zeroizing;

use crate::Store;
use crate::ids::AccountId;
use crate::mac::mac;
use crate::sealing::Sealer;

/// Separates this use of the data key from every other.
const PURPOSE: &[u8] = b"hark search terms 1";
/// Bytes of a term: in a million terms two are equal with a probability of 10^-12.
const TERM_BYTES: usize = 10;
/// RFC 4648 in lower case, so that a term is one token to every tokenizer.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The key of an account's terms.
pub(super) struct TermKey {
    key: Zeroizing<[u8; 32]>,
    /// Whether it is derived from a data key.
    pub(super) is_keyed: bool,
}

impl TermKey {
    pub(super) fn new(store: &Store, account: AccountId, sealer: &Sealer) -> TermKey {
        let key = match sealer.key() {
            Some(data_key) => data_key.derive(PURPOSE),
            None => Zeroizing::new(mac(store.id().as_bytes(), &[PURPOSE, &account.0.to_le_bytes()])),
        };
        TermKey { key, is_keyed: sealer.is_sealing() }
    }

    /// The term of a word: 16 letters and digits.
    pub(super) fn term(&self, word: &str) -> String {
        let hash = mac(&*self.key, &[word.as_bytes()]);
        let (mut bits, mut count) = (0_u32, 0);
        let mut term = String::with_capacity(TERM_BYTES * 8 / 5);
        for &byte in &hash[..TERM_BYTES] {
            bits = (bits << 8) | u32::from(byte);
            count += 8;
            while count >= 5 {
                count -= 5;
                term.push(char::from(ALPHABET[(bits >> count) as usize & 31]));
            }
        }
        term
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_is_the_hash_of_its_word_in_base32() {
        // RFC 4231, test case 2: 5bdcc146bf60754e6a04…
        let key = |key: &[u8]| TermKey {
            key: Zeroizing::new({
                let mut bytes = [0; 32];
                bytes[..key.len()].copy_from_slice(key);
                bytes
            }),
            is_keyed: true,
        };
        // A shorter key is padded with zeros, as HMAC does.
        assert_eq!(key(b"Jefe").term("what do ya want for nothing?"), "lpomcrv7mb2u42qe");
        assert_ne!(key(b"a").term("word"), key(b"b").term("word"));
    }
}
