//! The secret key and the pseudorandom numbers that are drawn from it.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::WatermarkError;

/// The secret that places the mark: without it the mark can't be found, read or forged.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Key([u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// A key of these bytes, which should be random.
    pub fn new(bytes: [u8; 32]) -> Self {
        Key(bytes)
    }

    /// A new random key.
    pub fn generate() -> Result<Self, WatermarkError> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| WatermarkError::Random(error.to_string()))?;
        Ok(Key(bytes))
    }

    /// A key from 64 hexadecimal digits; white space around them is ignored.
    pub fn from_hex(text: &str) -> Result<Self, WatermarkError> {
        let digits = text.trim().as_bytes();
        if digits.len() != 64 {
            return Err(WatermarkError::Key);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| (pair[at] as char).to_digit(16).ok_or(WatermarkError::Key);
            *byte = (digit(0)? << 4 | digit(1)?) as u8;
        }
        Ok(Key(bytes))
    }

    /// The key as 64 hexadecimal digits, to be written to a file that only its owner can read.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// A keyed hash of a request, as a payload carries it: the log of requests can be matched with a payload, a payload tells nothing about the request.
    pub fn request_hash(&self, request: &[u8]) -> u32 {
        let hash = self.mac(b"hark watermark request", request);
        u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]])
    }

    /// Pseudorandom numbers for one purpose.
    pub(crate) fn stream(&self, purpose: &'static [u8]) -> Stream<'_> {
        Stream { key: self, purpose, counter: 0, block: [0; 32], used: 32 }
    }

    fn mac(&self, purpose: &[u8], data: &[u8]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of every length");
        mac.update(purpose);
        mac.update(&[0]);
        mac.update(data);
        mac.finalize().into_bytes().into()
    }
}

/// HMAC-SHA256 in counter mode.
pub(crate) struct Stream<'a> {
    key: &'a Key,
    purpose: &'static [u8],
    counter: u64,
    block: [u8; 32],
    used: usize,
}

impl Stream<'_> {
    fn next_u32(&mut self) -> u32 {
        if self.used == 32 {
            self.block = self.key.mac(self.purpose, &self.counter.to_be_bytes());
            self.counter += 1;
            self.used = 0;
        }
        let at = self.used;
        self.used += 4;
        u32::from_be_bytes([self.block[at], self.block[at + 1], self.block[at + 2], self.block[at + 3]])
    }

    /// A number below `bound`. The bias of the multiplication, `bound / 2^32`, is far below anything that matters here.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u64::from(self.next_u32()) * bound as u64) >> 32) as usize
    }

    /// +1 or -1.
    pub(crate) fn sign(&mut self) -> i8 {
        if self.next_u32() & 1 == 0 { 1 } else { -1 }
    }

    /// Puts a list in random order (Fisher and Yates).
    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_hexadecimal_text_and_never_shows_itself() {
        let key = Key::generate().unwrap();
        assert_eq!(Key::from_hex(&format!(" {}\n", key.to_hex())).unwrap(), key);
        assert!(!format!("{key:?}").contains(&key.to_hex()[..8]));
        for wrong in ["", "12", &"g".repeat(64), &"é".repeat(32)] {
            assert!(matches!(Key::from_hex(wrong), Err(WatermarkError::Key)), "{wrong}");
        }
    }

    #[test]
    fn streams_of_another_purpose_or_key_differ() {
        let (one, two) = (Key::new([1; 32]), Key::new([2; 32]));
        let take = |key: &Key, purpose| {
            let mut stream = key.stream(purpose);
            (0..20).map(|_| stream.below(1 << 20)).collect::<Vec<_>>()
        };
        assert_eq!(take(&one, b"a"), take(&one, b"a"));
        assert_ne!(take(&one, b"a"), take(&one, b"b"));
        assert_ne!(take(&one, b"a"), take(&two, b"a"));
        assert_ne!(one.request_hash(b"a"), two.request_hash(b"a"));
    }
}
