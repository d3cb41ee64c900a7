//! What the mark says, as bits with a checksum.

use serde::{Deserialize, Serialize};

/// The layout of patterns and payload that this crate writes.
pub const VERSION: u8 = 1;

/// Bits of a payload with its checksum.
pub(crate) const BITS: usize = 4 + 16 + 16 + 32 + CRC_BITS;
const CRC_BITS: usize = 24;
/// CRC-24 of OpenPGP (RFC 9580, section 6.1).
const CRC_POLYNOMIAL: u32 = 0x86_4cfb;
const CRC_START: u32 = 0xb7_04ce;

/// What a mark carries: 68 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// The layout, 4 bits: [`VERSION`].
    pub version: u8,
    /// Who made the sound: a number that an operator chooses for an installation.
    pub issuer: u16,
    /// The day it was made, in days since 1970-01-01 (UTC).
    pub day: u16,
    /// A keyed hash of the request, to be matched with a log: [`crate::Key::request_hash`].
    pub request: u32,
}

impl Payload {
    /// A payload of the current version.
    pub fn new(issuer: u16, day: u16, request: u32) -> Self {
        Payload { version: VERSION, issuer, day, request }
    }

    /// The day of a moment, given in seconds since 1970.
    pub fn day_of(unix_seconds: u64) -> u16 {
        u16::try_from(unix_seconds / 86_400).unwrap_or(u16::MAX)
    }

    pub(crate) fn to_bits(self) -> [bool; BITS] {
        let word = u128::from(self.version & 15) << 64
            | u128::from(self.issuer) << 48
            | u128::from(self.day) << 32
            | u128::from(self.request);
        let word = word << CRC_BITS | u128::from(crc(word));
        std::array::from_fn(|at| word >> (BITS - 1 - at) & 1 == 1)
    }

    /// None where the checksum is wrong or the version is unknown.
    pub(crate) fn from_bits(bits: &[bool; BITS]) -> Option<Self> {
        let word = bits.iter().fold(0u128, |word, &bit| word << 1 | u128::from(bit));
        let (data, check) = (word >> CRC_BITS, (word & ((1 << CRC_BITS) - 1)) as u32);
        let version = (data >> 64) as u8;
        (crc(data) == check && version == VERSION).then_some(Payload {
            version,
            issuer: (data >> 48) as u16,
            day: (data >> 32) as u16,
            request: data as u32,
        })
    }
}

/// The checksum of the 68 bits of a payload.
fn crc(data: u128) -> u32 {
    (0..BITS - CRC_BITS).rev().fold(CRC_START, |crc, at| {
        let bit = (data >> at & 1) as u32 ^ (crc >> (CRC_BITS - 1) & 1);
        let shifted = crc << 1 & ((1 << CRC_BITS) - 1);
        if bit == 1 { shifted ^ CRC_POLYNOMIAL } else { shifted }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_survives_and_no_wrong_bit_passes() {
        for payload in
            [Payload::new(0, 0, 0), Payload::new(u16::MAX, 20_775, u32::MAX), Payload::new(7, 1, 0x1234_5678)]
        {
            let bits = payload.to_bits();
            assert_eq!(Payload::from_bits(&bits), Some(payload));
            for first in 0..BITS {
                for second in first..BITS {
                    let mut wrong = bits;
                    wrong[first] ^= true;
                    if second != first {
                        wrong[second] ^= true;
                    }
                    assert_eq!(Payload::from_bits(&wrong), None);
                }
            }
        }
    }

    #[test]
    fn days_are_counted_from_1970() {
        assert_eq!(Payload::day_of(0), 0);
        assert_eq!(Payload::day_of(1_795_000_000), 20_775);
        assert_eq!(Payload::day_of(u64::MAX), u16::MAX);
    }
}
