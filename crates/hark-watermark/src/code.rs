//! The error-correcting code: a tail-biting convolutional code of rate 1/4 and constraint length 15.
//!
//! A payload of some 90 bits is a very short block. There, tail-biting convolutional codes with many states come closest to what is possible
//! (about 0.3 dB; Coskun and others, "Efficient error-correcting codes in the short blocklength regime", 2019), ahead of LDPC and of
//! polar codes with short lists, and the decoder is a plain soft Viterbi search. Tail-biting spends no bits on a known end.
//!
//! The generators are those of NASA's Galileo mission. Decoding goes round the circle until the best path ends in the state it began with
//! (wrap-around Viterbi): 2^14 states, 92 steps and 2 laps are some 3 million compare-selects.

/// Coded bits for each bit.
pub(crate) const RATE: usize = 4;
const MEMORY: usize = 14;
const STATES: usize = 1 << MEMORY;
const GENERATORS: [u32; RATE] = [0o46321, 0o51271, 0o63667, 0o70535];
/// Laps after which a path that does not bite its tail is taken as it is; the checksum judges it.
const MAX_LAPS: usize = 3;

/// The code with the table of its branches.
pub(crate) struct Code {
    /// For each content of the register (the state and the new bit), the coded bits, the first generator in the lowest bit.
    outputs: Vec<u8>,
}

impl Code {
    pub(crate) fn new() -> Self {
        let output = |register: u32| {
            GENERATORS
                .iter()
                .enumerate()
                .fold(0, |bits, (at, generator)| bits | ((register & generator).count_ones() as u8 & 1) << at)
        };
        Code { outputs: (0..2 * STATES as u32).map(output).collect() }
    }

    /// The coded bits, `RATE` for each bit.
    pub(crate) fn encode(&self, bits: &[bool]) -> Vec<bool> {
        // The register begins with the last bits, so that the circle closes.
        let start = (0..MEMORY).map(|back| bits[(bits.len() * MEMORY - MEMORY + back) % bits.len()]);
        let mut state = start.fold(0, |state, bit| state << 1 | usize::from(bit));
        let mut coded = Vec::with_capacity(bits.len() * RATE);
        for &bit in bits {
            let register = state << 1 | usize::from(bit);
            let output = self.outputs[register];
            coded.extend((0..RATE).map(|at| output >> at & 1 == 1));
            state = register & (STATES - 1);
        }
        coded
    }

    /// The likeliest bits. `soft` has a number for each coded bit: positive for 1, larger when surer.
    pub(crate) fn decode(&self, soft: &[f32]) -> Vec<bool> {
        let steps = soft.len() / RATE;
        let mut metrics = vec![0f32; STATES];
        let mut next = vec![0f32; STATES];
        let mut decisions = vec![0u8; steps * STATES];
        let mut bits = Vec::new();
        for lap in 0..MAX_LAPS {
            for (soft, decisions) in soft.chunks_exact(RATE).zip(decisions.chunks_exact_mut(STATES)) {
                let branch: [f32; 1 << RATE] = std::array::from_fn(|output| {
                    (0..RATE).map(|at| if output >> at & 1 == 1 { soft[at] } else { -soft[at] }).sum()
                });
                let (low, high) = metrics.split_at(STATES / 2);
                let (low_out, high_out) = self.outputs.split_at(STATES);
                for (at, (next, decision)) in next.iter_mut().zip(decisions.iter_mut()).enumerate() {
                    let from_low = low[at / 2] + branch[usize::from(low_out[at] & 15)];
                    let from_high = high[at / 2] + branch[usize::from(high_out[at] & 15)];
                    *decision = u8::from(from_high > from_low);
                    *next = if from_high > from_low { from_high } else { from_low };
                }
                std::mem::swap(&mut metrics, &mut next);
            }
            let best = (0..STATES).max_by(|&a, &b| metrics[a].total_cmp(&metrics[b])).unwrap_or(0);
            let (start, read) = self.trace_back(best, &decisions);
            // The first lap begins in any state, so its path may close by a wrong one.
            if start == best && lap > 0 {
                return read;
            }
            // The last decisions of a lap were made without what follows them on the circle; from the state in which it begins they are better.
            bits = self.trace_back(start, &decisions).1;
        }
        bits
    }

    /// Follows the decisions of a lap from the state at its end to that at its begin.
    fn trace_back(&self, mut state: usize, decisions: &[u8]) -> (usize, Vec<bool>) {
        let mut bits = vec![false; decisions.len() / STATES];
        for (bit, decisions) in bits.iter_mut().zip(decisions.chunks_exact(STATES)).rev() {
            *bit = state & 1 == 1;
            state = state >> 1 | usize::from(decisions[state]) << (MEMORY - 1);
        }
        (state, bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;

    #[test]
    fn what_was_coded_is_decoded_through_noise_that_turns_a_fifth_of_its_bits() {
        let code = Code::new();
        let key = Key::new([3; 32]);
        let mut random = key.stream(b"test of the code");
        let mut wrong = 0;
        for _ in 0..20 {
            let bits: Vec<bool> = (0..92).map(|_| random.sign() > 0).collect();
            let coded = code.encode(&bits);
            assert_eq!(coded.len(), 92 * RATE);
            // Noise of the deviation 1.15 (a sum of uniform numbers) on bits of ±1: Eb/N0 is 1.8 dB.
            let soft: Vec<f32> = coded
                .iter()
                .map(|&bit| {
                    let noise = (0..12).map(|_| random.below(1 << 20) as f32 / (1 << 20) as f32).sum::<f32>() - 6.0;
                    (if bit { 1.0 } else { -1.0 }) + 1.15 * noise
                })
                .collect();
            wrong += coded.iter().zip(&soft).filter(|&(&bit, &soft)| bit != (soft > 0.0)).count();
            assert_eq!(code.decode(&soft), bits);
        }
        assert!(wrong > 20 * 92 * RATE / 6, "{wrong} coded bits were wrong");
    }
}
