//! What windows promise, on random probability tracks and on planted ones.

use hark_speech::windows::{Window, WindowCutter, WindowOptions};

const CHUNK: usize = 512;
const SECOND: u64 = 16_000;

/// A small generator (xorshift), so that tracks differ but runs repeat.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
    fn unit(&mut self) -> f32 {
        self.below(1 << 20) as f32 / (1 << 20) as f32
    }
}

/// Runs of speech and silence of very different lengths, with dips and blips in them.
fn random_track(random: &mut Random, chunks: usize) -> Vec<f32> {
    let mut track = Vec::new();
    while track.len() < chunks {
        let scale = [5, 30, 150, 1_500][random.below(4)];
        for _ in 0..1 + random.below(scale) {
            track.push(if random.below(20) == 0 { random.unit() } else { 0.7 + 0.3 * random.unit() });
        }
        let scale = [3, 15, 60, 300][random.below(4)];
        for _ in 0..1 + random.below(scale) {
            track.push(if random.below(60) == 0 { random.unit() } else { 0.3 * random.unit() });
        }
    }
    track.truncate(chunks);
    track
}

/// Samples that say where they stand, so that a window's content can be checked.
fn numbered(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i % 65_521) as f32 / 65_521.0).collect()
}

fn cut(options: &WindowOptions, samples: &[f32], track: &[f32], block: usize) -> Vec<Window> {
    let mut cutter = WindowCutter::new(options);
    let (mut windows, mut given) = (Vec::new(), 0);
    for (i, part) in samples.chunks(block).enumerate() {
        let whole = (i * block + part.len()) / CHUNK;
        windows.extend(cutter.push(part, &track[given..whole]));
        given = whole;
    }
    windows.extend(cutter.push(&[], &track[given..]));
    windows.extend(cutter.finish());
    windows
}

/// Spans of speech found with the whole track in view: from a chunk at or above the threshold to the
/// first silence of `min_silence`, where silence is what follows a chunk below the lower threshold until the next
/// at or above the upper.
fn spans(options: &WindowOptions, track: &[f32], length: u64) -> Vec<(u64, u64)> {
    let min_silence = (options.min_silence * 16_000.0) as u64;
    let at = |chunk: usize| ((chunk * CHUNK) as u64).min(length);
    let mut spans = Vec::new();
    let mut i = 0;
    while i < track.len() {
        if track[i] < options.threshold {
            i += 1;
            continue;
        }
        let start = i;
        let mut end = track.len();
        let mut silence_over = track.len();
        while i < track.len() {
            if track[i] >= options.neg_threshold {
                i += 1;
                continue;
            }
            let risen = (i..track.len()).find(|&j| track[j] >= options.threshold).unwrap_or(track.len());
            if at(risen) - at(i) >= min_silence || risen == track.len() {
                (end, silence_over) = (i, risen);
                break;
            }
            i = risen;
        }
        i = silence_over;
        if at(end) - at(start) >= (options.min_speech * 16_000.0) as u64 {
            spans.push((at(start), at(end)));
        }
    }
    spans
}

#[test]
fn windows_keep_their_promises_on_random_tracks() {
    let mut random = Random(11);
    let strange = WindowOptions { max_gap: 0.5, speech_pad: 1.0, max_window: 7.0, ..WindowOptions::default() };
    let eager = WindowOptions { max_gap: 20.0, min_silence: 1.0, speech_pad: 0.0, ..WindowOptions::default() };
    let every = [WindowOptions::default(), strange, eager];
    for round in 0..150 {
        let options = &every[round % 3];
        let chunks = 1 + random.below(8_000);
        let track = random_track(&mut random, chunks);
        let samples = numbered(chunks * CHUNK - random.below(CHUNK));
        let length = samples.len() as u64;
        let windows = cut(options, &samples, &track, samples.len());

        let mut free_from = 0;
        for window in &windows {
            assert!(window.start >= free_from, "round {round}: windows overlap or go backwards");
            assert!(window.end() <= length && !window.samples.is_empty());
            assert!(window.samples.len() <= (options.max_window * 16_000.0) as usize);
            assert_eq!(window.samples, samples[window.start as usize..window.end() as usize]);
            assert!(!window.speech.is_empty());
            let mut after = window.start;
            for &(start, end) in &window.speech {
                assert!(start >= after && end > start && end <= window.end(), "round {round}: span {start}..{end}");
                after = end;
            }
            let seconds: u64 = window.speech.iter().map(|(start, end)| end - start).sum();
            assert!((window.stats.speech_seconds - seconds as f32 / 16_000.0).abs() < 1e-2);
            assert!((options.neg_threshold..=1.0).contains(&window.stats.peak_probability));
            assert!(window.stats.mean_probability <= window.stats.peak_probability);
            free_from = window.end();
        }
        for (start, end) in spans(options, &track, length) {
            let mut at = start;
            for window in &windows {
                if window.start <= at && at < window.end() {
                    at = window.end();
                }
            }
            assert!(at >= end, "round {round}: speech {start}..{end} is covered to {at} only");
        }
    }
}

#[test]
fn windows_of_all_sound_cover_the_whole_recording_and_mark_the_speech_in_it() {
    let mut random = Random(13);
    let options = WindowOptions { only_speech: false, ..WindowOptions::default() };
    for _ in 0..30 {
        let chunks = 1 + random.below(8_000);
        let track = random_track(&mut random, chunks);
        let samples = numbered(chunks * CHUNK - random.below(CHUNK));
        let windows = cut(&options, &samples, &track, 16_000);
        let mut end = 0;
        for window in &windows {
            assert_eq!(window.start, end, "no sound between two windows");
            assert!(window.samples.len() <= 480_000);
            end = window.end();
            assert!(window.speech.iter().all(|span| span.0 >= window.start && span.1 <= end && span.0 < span.1));
        }
        assert_eq!(end, samples.len() as u64);
    }
    let (track, samples) = planted(&[(10.0, 0.1), (5.0, 0.9), (8.0, 0.0)]);
    let windows = cut(&options, &samples, &track, samples.len());
    assert_eq!(windows.len(), 1);
    let seconds = windows[0].speech.iter().map(|span| (span.0 / SECOND, span.1 / SECOND)).collect::<Vec<_>>();
    assert_eq!(seconds, [(10, 15)], "speech is still known");
}

#[test]
fn the_size_of_blocks_does_not_change_the_windows() {
    let mut random = Random(12);
    for options in [WindowOptions::default(), WindowOptions { max_gap: 0.2, speech_pad: 0.9, ..Default::default() }] {
        let track = random_track(&mut random, 9_000);
        let samples = numbered(9_000 * CHUNK - 200);
        let whole = cut(&options, &samples, &track, samples.len());
        assert!(whole.len() > 5);
        for block in [97, 512, 1_000, 16_000, 70_001] {
            assert_eq!(cut(&options, &samples, &track, block), whole, "blocks of {block}");
        }
        // Probabilities may also run ahead of their samples.
        let mut cutter = WindowCutter::new(&options);
        let mut ahead = cutter.push(&[], &track);
        ahead.extend(samples.chunks(3_333).flat_map(|part| cutter.push(part, &[])).collect::<Vec<_>>());
        ahead.extend(cutter.finish());
        assert_eq!(ahead, whole);
    }
}

/// A track from `(seconds, probability)` pieces and a steady tone under it.
fn planted(pieces: &[(f32, f32)]) -> (Vec<f32>, Vec<f32>) {
    let track: Vec<f32> = pieces.iter().flat_map(|&(seconds, p)| vec![p; (seconds * 31.25).round() as usize]).collect();
    let samples = (0..track.len() * CHUNK).map(|i| 0.1 * (i as f32 * 0.3).sin()).collect();
    (track, samples)
}

#[test]
fn long_speech_is_cut_where_the_probability_dips() {
    let (track, samples) = planted(&[(22.0, 0.95), (0.16, 0.4), (20.0, 0.95)]);
    let windows = cut(&WindowOptions::default(), &samples, &track, 16_000);
    assert_eq!(windows.len(), 2);
    let cut_at = windows[0].end() as f32 / 16_000.0;
    assert!((22.0..22.16).contains(&cut_at), "cut at {cut_at}");
    assert_eq!(windows[1].start, windows[0].end(), "no sample of speech is lost at the cut");
}

#[test]
fn long_speech_of_even_probability_is_cut_where_it_is_quiet() {
    let (track, mut samples) = planted(&[(45.0, 0.97)]);
    samples[25 * 16_000..25 * 16_000 + 3_200].fill(0.001);
    // A louder pause in the first half must not draw the cut there.
    samples[5 * 16_000..6 * 16_000].fill(0.0);
    let windows = cut(&WindowOptions::default(), &samples, &track, 16_000);
    assert_eq!(windows.len(), 2);
    let cut_at = windows[0].end() as f32 / 16_000.0;
    assert!((25.0..25.2).contains(&cut_at), "cut at {cut_at}");
}

#[test]
fn speech_is_gathered_up_to_the_last_pause_that_fits() {
    // Sentences of 8 s with 0.8 s between them: three fit into 30 s, the fourth does not.
    let (track, samples) = planted(&[(8.0, 0.9), (0.8, 0.05)].repeat(6));
    let windows = cut(&WindowOptions::default(), &samples, &track, 16_000);
    let sizes: Vec<usize> = windows.iter().map(|window| window.speech.len()).collect();
    assert_eq!(sizes, [3, 3]);
}

#[test]
fn a_long_silence_parts_windows_and_a_short_one_does_not() {
    let options = WindowOptions::default();
    for (silence, expected) in [(2.5, 1), (3.5, 2)] {
        let (track, samples) = planted(&[(1.0, 0.0), (2.0, 0.9), (silence, 0.0), (2.0, 0.9), (5.0, 0.0)]);
        let windows = cut(&options, &samples, &track, 16_000);
        assert_eq!(windows.len(), expected, "silence of {silence} s");
        let pad = (options.speech_pad * 16_000.0) as u64;
        let first = windows[0].speech[0].0;
        assert_eq!(windows[0].start, first - pad);
        let last = windows[expected - 1].speech.last().expect("a window has speech").1;
        assert_eq!(windows[expected - 1].end(), last + pad);
    }
}

#[test]
fn what_never_reaches_the_threshold_or_only_for_a_moment_gives_no_window() {
    for pieces in [vec![(60.0, 0.45)], vec![(10.0, 0.0), (0.2, 0.99), (10.0, 0.1)], vec![]] {
        let (track, samples) = planted(&pieces);
        assert_eq!(cut(&WindowOptions::default(), &samples, &track, 16_000), []);
    }
}

#[test]
fn a_window_leaves_as_soon_as_the_silence_after_it_is_long_enough() {
    let (track, samples) = planted(&[(2.0, 0.9), (10.0, 0.0)]);
    let mut cutter = WindowCutter::new(&WindowOptions { max_gap: 1.0, ..WindowOptions::default() });
    let mut pushed = 0;
    for (part, p) in samples.chunks(CHUNK).zip(&track) {
        pushed += part.len() as u64;
        if !cutter.push(part, &[*p]).is_empty() {
            break;
        }
    }
    assert!((3 * SECOND..3 * SECOND + 2 * CHUNK as u64).contains(&pushed), "after {pushed} samples");
}

#[test]
fn ten_hours_are_cut_in_flat_memory() {
    let mut random = Random(13);
    let mut cutter = WindowCutter::new(&WindowOptions::default());
    let (mut most, mut found) = (0, 0);
    // In blocks of 10 s: talk for the first half of each hour, then silence.
    let block = vec![0.01f32; 312 * CHUNK];
    for i in 0..3_600 {
        let track = if i % 360 < 180 { random_track(&mut random, 312) } else { vec![0.01; 312] };
        found += cutter.push(&block, &track).len();
        most = most.max(cutter.buffered());
        if i % 360 > 200 {
            assert!(cutter.buffered() < 3 * SECOND as usize, "silence is held: {} samples", cutter.buffered());
        }
    }
    assert!(found > 500, "{found} windows");
    // The window being gathered, the gap after it, and the block.
    assert!(most < 45 * SECOND as usize, "{most} samples held");
}
