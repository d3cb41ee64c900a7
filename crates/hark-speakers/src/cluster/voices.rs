//! How many people speak, and what each sounds like.
//!
//! Three steps: average linkage up to a distance at which a cluster is surely one voice; clusters too small to be a
//! person are given up; what is left is joined by centroids, which are far less noisy than single pieces. Where the
//! segmentation network heard two clusters as two voices inside the same ten seconds they must be much more alike to be
//! joined: it is the better judge in one room, the embeddings are across an hour.

use super::linkage::{Group, dot};
use super::{Blocks, Voice, nearest};

/// Distance up to which pieces are joined without asking further. On built conversations 0.55 to 0.70 count the same.
const LINKAGE: f32 = 0.60;
/// Least cosine of two centroids that are one person: 39 of 40 built conversations are counted right with 0.40, 37
/// with 0.35 and 0.45.
const SAME_PERSON: f32 = 0.40;
/// The same for two clusters that segmentation told apart.
const SAME_PERSON_TOLD_APART: f32 = 0.60;
/// Seconds that two clusters must have been heard as different voices of one window to count as told apart, and how
/// many times the seconds that they were heard as the same.
const TOLD_APART: (f32, f32) = (1.0, 2.0);
/// A person speaks this share of all speech, at least the first and at most the second number of seconds.
const LEAST_SHARE: f32 = 0.03;
const LEAST_SECONDS: (f32, f32) = (1.0, 3.0);

/// One piece of sound that was embedded.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard {
    /// Its embedding, centred and of length 1.
    pub vector: Voice,
    /// Seconds of speech that it stands for.
    pub seconds: f32,
    /// True when it is long enough to learn a voice from.
    pub clear: bool,
    /// The window it lies in and which of that window's voices it is, where segmentation could say.
    pub track: Option<(u32, u8)>,
}

/// The voices of a recording, the one that speaks most first; exactly `speakers` where that is given and the pieces
/// can be told apart that far.
pub fn find_voices(heard: &[Heard], speakers: Option<usize>) -> Vec<Voice> {
    let clear: Vec<&Heard> = heard.iter().filter(|piece| piece.clear).collect();
    let learned: Vec<&Heard> = if clear.len() < 2 { heard.iter().collect() } else { clear };
    let mut blocks = Blocks::default();
    learned.iter().for_each(|piece| blocks.push(&piece.vector, piece.seconds));
    let tree = blocks.tree();
    let seconds: f32 = heard.iter().map(|piece| piece.seconds).sum();
    let least = (LEAST_SHARE * seconds).clamp(LEAST_SECONDS.0, LEAST_SECONDS.1);
    let clusters = match speakers {
        None => tree.clusters_at(LINKAGE),
        // Fewer than asked for are split further, as long as the parts are persons; more are joined below.
        Some(wanted) => (wanted..=4 * wanted + 16)
            .map(|count| tree.clusters_into(count))
            .find(|clusters| lasting(clusters, least).len() >= wanted)
            .unwrap_or_else(|| tree.clusters_into(wanted)),
    };
    let mut voices = lasting(&clusters, least);
    if voices.len() < speakers.unwrap_or(1) {
        voices = clusters.iter().take(speakers.unwrap_or(1)).map(Group::centroid).collect();
    }
    for _ in 0..2 {
        voices = relearned(&learned, &voices);
    }
    while let Some((one, other)) = to_join(&learned, &voices, speakers) {
        let mut owners = owners(&learned, &voices);
        owners.iter_mut().filter(|owner| **owner == other).for_each(|owner| *owner = one);
        voices = centroids(&learned, &owners, &voices);
        voices.remove(other);
    }
    let mut spoken = vec![0.0; voices.len()];
    for (piece, owner) in learned.iter().zip(owners(&learned, &voices)) {
        spoken[owner] += piece.seconds;
    }
    let mut order: Vec<usize> = (0..voices.len()).collect();
    order.sort_by(|&a, &b| spoken[b].total_cmp(&spoken[a]));
    order.into_iter().map(|voice| voices[voice]).collect()
}

/// The centroids of the clusters that speak for at least so many seconds, or of the largest if none does.
fn lasting(clusters: &[Group], least: f32) -> Vec<Voice> {
    let lasting: Vec<Voice> = clusters.iter().filter(|cluster| cluster.seconds >= least).map(Group::centroid).collect();
    if lasting.is_empty() { clusters.iter().take(1).map(Group::centroid).collect() } else { lasting }
}

/// The nearest voice of each piece.
fn owners(heard: &[&Heard], voices: &[Voice]) -> Vec<usize> {
    heard.iter().map(|piece| nearest(&piece.vector, voices).map_or(0, |(voice, _)| voice)).collect()
}

fn relearned(heard: &[&Heard], voices: &[Voice]) -> Vec<Voice> {
    centroids(heard, &owners(heard, voices), voices)
}

/// What each voice sounds like by the pieces it owns, weighted by their time; one that owns none stays as it was.
fn centroids(heard: &[&Heard], owners: &[usize], voices: &[Voice]) -> Vec<Voice> {
    let mut sums = vec![[0.0; crate::EMBEDDING_WIDTH]; voices.len()];
    let mut spoken = vec![0.0; voices.len()];
    for (piece, &owner) in heard.iter().zip(owners) {
        sums[owner].iter_mut().zip(&piece.vector).for_each(|(sum, value)| *sum += value * piece.seconds);
        spoken[owner] += piece.seconds;
    }
    let voice = |place: usize| if spoken[place] > 0.0 { super::unit_length(&sums[place]) } else { voices[place] };
    (0..voices.len()).map(voice).collect()
}

/// The two voices most alike, if they are one person or more voices are left than were asked for.
fn to_join(heard: &[&Heard], voices: &[Voice], speakers: Option<usize>) -> Option<(usize, usize)> {
    let apart = told_apart(heard, &owners(heard, voices), voices.len());
    let mut best: Option<(f32, usize, usize)> = None;
    for one in 0..voices.len() {
        for other in one + 1..voices.len() {
            let held_back = if apart[one][other] { SAME_PERSON_TOLD_APART - SAME_PERSON } else { 0.0 };
            let alike = dot(&voices[one], &voices[other]) - held_back;
            if best.is_none_or(|(most, ..)| alike > most) {
                best = Some((alike, one, other));
            }
        }
    }
    let (alike, one, other) = best?;
    let join = speakers.map_or(alike >= SAME_PERSON, |wanted| voices.len() > wanted);
    join.then_some((one, other))
}

/// For each two voices whether segmentation heard them as different ones where both speak in one window.
fn told_apart(heard: &[&Heard], owners: &[usize], count: usize) -> Vec<Vec<bool>> {
    let mut same = vec![vec![0.0_f32; count]; count];
    let mut different = same.clone();
    // Pieces come in the order of time, so those of one window stand together.
    let tracked: Vec<(usize, (u32, u8), f32)> =
        heard.iter().zip(owners).filter_map(|(piece, &owner)| Some((owner, piece.track?, piece.seconds))).collect();
    for window in tracked.chunk_by(|a, b| a.1.0 == b.1.0) {
        let mut spoken: Vec<[f32; 3]> = vec![[0.0; 3]; count];
        for &(owner, (_, voice), seconds) in window {
            spoken[owner][usize::from(voice) % 3] += seconds;
        }
        let present: Vec<usize> = (0..count).filter(|&voice| spoken[voice].iter().any(|&time| time > 0.0)).collect();
        for (&one, &other) in present.iter().flat_map(|one| present.iter().map(move |other| (one, other))) {
            for (here, &time) in spoken[one].iter().enumerate() {
                for (there, &beside) in spoken[other].iter().enumerate() {
                    let table = if here == there { &mut same } else { &mut different };
                    table[one][other] += time.min(beside);
                }
            }
        }
    }
    let apart = |one: usize, other: usize| {
        different[one][other] >= TOLD_APART.0 && different[one][other] > TOLD_APART.1 * same[one][other]
    };
    (0..count).map(|one| (0..count).map(|other| one != other && apart(one, other)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{noisy_voices, unit};
    use super::super::unit_length;
    use super::*;

    fn heard(vectors: &[Voice]) -> Vec<Heard> {
        vectors.iter().map(|&vector| Heard { vector, seconds: 0.75, clear: true, track: None }).collect()
    }

    #[test]
    fn as_many_voices_are_found_as_speak() {
        for sizes in [&[30][..], &[20, 15], &[30, 8, 12, 20], &[10, 10, 10, 10, 10, 10]] {
            let (vectors, _) = noisy_voices(sizes.len() as u64, sizes, 1.0);
            assert_eq!(find_voices(&heard(&vectors), None).len(), sizes.len());
        }
    }

    #[test]
    fn the_given_number_is_kept_to_whether_more_or_fewer_would_be_found() {
        let (vectors, _) = noisy_voices(1, &[20, 20, 20], 0.9);
        for speakers in 1..=5 {
            assert_eq!(find_voices(&heard(&vectors), Some(speakers)).len(), speakers);
        }
        assert_eq!(find_voices(&heard(&vectors[..2]), Some(5)).len(), 2, "two pieces are two voices at most");
    }

    #[test]
    fn a_cough_is_nobody() {
        let (mut vectors, _) = noisy_voices(6, &[40, 30], 0.8);
        vectors.push(unit(424_242));
        assert_eq!(find_voices(&heard(&vectors), None).len(), 2);
    }

    #[test]
    fn who_speaks_most_comes_first() {
        let (vectors, _) = noisy_voices(8, &[10, 25], 0.6);
        let voices = find_voices(&heard(&vectors), None);
        assert!(dot(&voices[0], &vectors[20]) > 0.5 && dot(&voices[1], &vectors[0]) > 0.5);
    }

    /// Two people whose centroids have a cosine of about 0.5.
    fn alike() -> Vec<Voice> {
        let (one, other) = (unit(1), unit(2));
        let between = unit_length(&std::array::from_fn(|place| 0.5 * one[place] + 0.866 * other[place]));
        let noisy = |centre: &Voice, piece: u64| {
            let noise = unit(1_000 + piece);
            unit_length(&std::array::from_fn(|place| centre[place] + 0.8 * noise[place]))
        };
        (0..40).map(|piece| noisy(if piece % 4 < 2 { &one } else { &between }, piece)).collect()
    }

    #[test]
    fn alike_voices_are_one_person_unless_segmentation_heard_two_in_one_window() {
        let mut pieces = heard(&alike());
        assert_eq!(find_voices(&pieces, None).len(), 1);
        for (place, piece) in pieces.iter_mut().enumerate() {
            piece.track = Some((place as u32 / 4, u8::from(place % 4 >= 2)));
        }
        assert_eq!(find_voices(&pieces, None).len(), 2);
        for piece in &mut pieces {
            piece.track = piece.track.map(|(window, _)| (window, 0));
        }
        assert_eq!(find_voices(&pieces, None).len(), 1, "heard as the same voice in every window");
    }

    #[test]
    fn nothing_heard_is_nobody() {
        assert_eq!(find_voices(&[], None), [] as [Voice; 0]);
        assert_eq!(find_voices(&[], Some(2)), [] as [Voice; 0]);
    }
}
