//! The search for a style: a trust region around the best one so far, in which a guess says where to try next.
//!
//! Every try costs a spoken sentence, so what is known of all tries is used: the map's guess is shifted to what was heard at the best style, and
//! its slope is corrected by what was heard elsewhere (Broyden's rank-one update). The region grows after a try that was nearer and shrinks
//! after one that was not.

use crate::embedding_map::{EMBEDDING, EmbeddingMap, add};
use crate::network::STYLE_WIDTH;

/// What a mean square coordinate of 1 costs, in cosine similarity. With less, similarity by other networks grows no further while the style
/// goes on to leave the voices behind; see docs/experiments/speech-synthesis.md.
const DISTANCE_COST: f32 = 0.2;
/// Root mean square of a move: at first, at most, and when the map has nothing more to say.
const FIRST_RADIUS: f32 = 1.0;
const MAX_RADIUS: f32 = 1.5;
const MIN_RADIUS: f32 = 0.05;
/// The radius after another move than the map's was nearer.
const RENEWED_RADIUS: f32 = 0.2;
const GROWTH: f32 = 1.3;
const SHRINKAGE: f32 = 0.5;
/// Share of an error that a correction takes up.
const LEARNING: f32 = 0.7;
/// Steps of the ascent on the guess, the length of each in radii, and what is kept of the direction before.
const STEPS: usize = 60;
const STEP: f32 = 0.48;
const MOMENTUM: f32 = 0.8;

/// The best style so far, and what was learned from all tries.
pub(crate) struct Search<'a> {
    map: Option<&'a EmbeddingMap>,
    wanted: &'a [f32],
    best: Vec<f32>,
    objective: f32,
    similarity: f32,
    /// What was heard at the best style, less the guess.
    residual: Vec<f32>,
    /// Corrections of the map's slope: `[embedding][coordinate]`.
    slope: Vec<f32>,
    radius: f32,
}

impl<'a> Search<'a> {
    /// Begins at coordinates at which `heard` was heard. Embeddings have length 1; one that the map does not know leaves the search without proposals.
    pub(crate) fn new(map: &'a EmbeddingMap, wanted: &'a [f32], coordinates: Vec<f32>, heard: &[f32]) -> Self {
        let map = (heard.len() == EMBEDDING).then_some(map);
        let mut search = Search {
            map,
            wanted,
            objective: f32::MIN,
            similarity: 0.0,
            residual: vec![0.0; heard.len()],
            slope: vec![0.0; heard.len() * STYLE_WIDTH],
            best: coordinates,
            radius: FIRST_RADIUS,
        };
        search.take(search.best.clone(), heard);
        search
    }

    /// The coordinates of the best style.
    pub(crate) fn best(&self) -> &[f32] {
        &self.best
    }

    /// Cosine similarity of what was heard there.
    pub(crate) fn similarity(&self) -> f32 {
        self.similarity
    }

    /// Where the guess is nearest within the region; none where the region became too small to be worth a try.
    pub(crate) fn proposal(&self) -> Option<Vec<f32>> {
        let map = self.map.filter(|_| self.radius >= MIN_RADIUS)?;
        let (mut place, mut direction) = (self.best.clone(), vec![0f32; STYLE_WIDTH]);
        for _ in 0..STEPS {
            let gradient = self.gradient(map, &place);
            direction.iter_mut().zip(&gradient).for_each(|(old, new)| *old = MOMENTUM * *old + new);
            let length = dot(&direction, &direction).sqrt().max(f32::MIN_POSITIVE);
            add(&mut place, STEP * self.radius / length, &direction);
            let moved: Vec<f32> = place.iter().zip(&self.best).map(|(new, old)| new - old).collect();
            let distance = mean_square(&moved).sqrt();
            if distance > self.radius {
                place.copy_from_slice(&self.best);
                add(&mut place, self.radius / distance, &moved);
            }
        }
        Some(place)
    }

    /// Learns from a try; whether it is the best so far. `is_proposal` says that the map proposed it.
    pub(crate) fn learn(&mut self, coordinates: Vec<f32>, heard: &[f32], is_proposal: bool) -> bool {
        let is_best = self.objective_of(&coordinates, heard) > self.objective;
        if let Some(map) = self.map {
            let moved: Vec<f32> = coordinates.iter().zip(&self.best).map(|(new, old)| new - old).collect();
            let square = dot(&moved, &moved).max(f32::MIN_POSITIVE);
            let expected = self.expected(&map.guess(&coordinates).embedding, &coordinates);
            for ((row, heard), expected) in self.slope.chunks_exact_mut(STYLE_WIDTH).zip(heard).zip(expected) {
                add(row, LEARNING * (heard - expected) / square, &moved);
            }
        }
        if is_best {
            self.take(coordinates, heard);
        }
        self.radius = match (is_best, is_proposal) {
            (true, true) => (self.radius * GROWTH).min(MAX_RADIUS),
            (true, false) => self.radius.max(RENEWED_RADIUS),
            (false, true) => self.radius * SHRINKAGE,
            (false, false) => self.radius,
        };
        is_best
    }

    fn take(&mut self, coordinates: Vec<f32>, heard: &[f32]) {
        self.objective = self.objective_of(&coordinates, heard);
        self.similarity = dot(heard, self.wanted);
        if let Some(map) = self.map {
            let guess = map.guess(&coordinates).embedding;
            self.residual = heard.iter().zip(guess).map(|(heard, guess)| heard - guess).collect();
        }
        self.best = coordinates;
    }

    fn objective_of(&self, coordinates: &[f32], heard: &[f32]) -> f32 {
        dot(heard, self.wanted) - DISTANCE_COST * mean_square(coordinates)
    }

    /// A guess with what was learned, not of length 1.
    fn expected(&self, guess: &[f32], coordinates: &[f32]) -> Vec<f32> {
        let moved: Vec<f32> = coordinates.iter().zip(&self.best).map(|(new, old)| new - old).collect();
        let rows = self.slope.chunks_exact(STYLE_WIDTH).zip(guess).zip(&self.residual);
        rows.map(|((row, guess), residual)| guess + residual + dot(row, &moved)).collect()
    }

    /// The gradient of what the objective is expected to be.
    fn gradient(&self, map: &EmbeddingMap, place: &[f32]) -> Vec<f32> {
        let guess = map.guess(place);
        let expected = self.expected(&guess.embedding, place);
        let length = dot(&expected, &expected).sqrt().max(f32::MIN_POSITIVE);
        let cosine = dot(&expected, self.wanted) / length;
        let by_embedding: Vec<f32> =
            expected.iter().zip(self.wanted).map(|(x, wanted)| (wanted - cosine * x / length) / length).collect();
        let mut gradient = map.gradient(&guess, &by_embedding);
        for (row, share) in self.slope.chunks_exact(STYLE_WIDTH).zip(&by_embedding) {
            add(&mut gradient, *share, row);
        }
        add(&mut gradient, -2.0 * DISTANCE_COST / STYLE_WIDTH as f32, place);
        gradient
    }
}

fn dot(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(x, y)| x * y).sum()
}

fn mean_square(numbers: &[f32]) -> f32 {
    dot(numbers, numbers) / numbers.len() as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_numeric::SplitMix64;

    /// Hears what the map guesses, and a slope that the map knows nothing of.
    fn hear(map: &EmbeddingMap, slope: &[f32], place: &[f32]) -> Vec<f32> {
        let mut heard = map.guess(place).embedding;
        for (heard, row) in heard.iter_mut().zip(slope.chunks_exact(STYLE_WIDTH)) {
            *heard += dot(row, place);
        }
        let length = dot(&heard, &heard).sqrt();
        heard.iter().map(|x| x / length).collect()
    }

    #[test]
    fn a_map_that_is_partly_wrong_leads_to_the_wanted_voice_and_is_corrected() {
        let (map, mut random) = (EmbeddingMap::new(), SplitMix64::new(5));
        let mut numbers =
            |count: usize, width: f32| -> Vec<f32> { (0..count).map(|_| (random.unit() - 0.5) * width).collect() };
        let slope = numbers(EMBEDDING * STYLE_WIDTH, 0.02);
        let wanted = hear(&map, &slope, &numbers(STYLE_WIDTH, 1.2));
        let start = numbers(STYLE_WIDTH, 0.5);
        let heard = hear(&map, &slope, &start);
        let mut search = Search::new(&map, &wanted, start, &heard);
        let before = search.similarity();
        let mut nearer = 0;
        for _ in 0..20 {
            let Some(place) = search.proposal() else { break };
            let heard = hear(&map, &slope, &place);
            nearer += usize::from(search.learn(place, &heard, true));
        }
        let heard = hear(&map, &slope, search.best());
        assert!((dot(&heard, &wanted) - search.similarity()).abs() < 1e-5);
        assert!(nearer >= 3 && before < 0.7 && search.similarity() > 0.9, "{nearer}: {before} {}", search.similarity());
    }

    #[test]
    fn proposals_end_when_none_is_nearer_and_begin_again_after_another_move() {
        let map = EmbeddingMap::new();
        let start = vec![0f32; STYLE_WIDTH];
        let heard = map.guess(&start).embedding;
        let wanted: Vec<f32> = map.guess(&vec![0.2; STYLE_WIDTH]).embedding;
        let mut search = Search::new(&map, &wanted, start, &heard);
        let opposite: Vec<f32> = wanted.iter().map(|x| -x).collect();
        let mut tries = 0;
        while let Some(place) = search.proposal() {
            assert!(!search.learn(place, &opposite, true));
            tries += 1;
        }
        assert_eq!(tries, 5, "the radius is halved until it is below the smallest");
        assert!(search.learn(vec![0.01; STYLE_WIDTH], &wanted, false));
        assert!(search.proposal().is_some());
        let mut strange = Search::new(&map, &wanted[..4], vec![0.0; STYLE_WIDTH], &heard[..4]);
        assert!(strange.proposal().is_none(), "an embedding that the map does not know");
        assert!(strange.learn(vec![0.1; STYLE_WIDTH], &wanted[..4], false));
    }
}
