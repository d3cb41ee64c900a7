//! The watermark of an installation, put into samples on their way.

use hark_media::{MediaError, SampleWriter};
use hark_watermark::{Embedder, Key, Payload, WatermarkError};

/// Marks the speech of an installation.
#[derive(Debug, Clone)]
pub struct Marker {
    key: Key,
    issuer: u16,
}

impl Marker {
    /// A marker with the number of the installation; without one it is derived from the key.
    pub fn new(key: Key, issuer: Option<u16>) -> Self {
        let issuer = issuer.unwrap_or_else(|| (key.request_hash(b"issuer of this installation") >> 16) as u16);
        Marker { key, issuer }
    }

    /// What the mark of a request says; `unix_seconds` is now.
    pub fn payload(&self, request: &[u8], unix_seconds: u64) -> Payload {
        Payload::new(self.issuer, Payload::day_of(unix_seconds), self.key.request_hash(request))
    }

    /// The key that finds the marks again.
    pub fn key(&self) -> &Key {
        &self.key
    }
}

/// Passes mono samples on with the mark in them.
pub(crate) struct MarkedWriter<'a> {
    embedder: Option<Embedder>,
    out: &'a mut dyn SampleWriter,
    marked: Vec<f32>,
}

impl<'a> MarkedWriter<'a> {
    pub(crate) fn new(
        rate: u32,
        payload: &Payload,
        marker: &Marker,
        out: &'a mut dyn SampleWriter,
    ) -> Result<Self, WatermarkError> {
        Ok(MarkedWriter { embedder: Some(Embedder::new(rate, 1, payload, &marker.key)?), out, marked: Vec::new() })
    }
}

/// An error of the watermark where only those of media fit: samples that are not finite, which the speech model has refused before.
fn into_media(error: WatermarkError) -> MediaError {
    MediaError::Output(error.to_string())
}

impl SampleWriter for MarkedWriter<'_> {
    fn write(&mut self, samples: &[f32]) -> Result<(), MediaError> {
        let embedder = self.embedder.as_mut().ok_or_else(|| MediaError::Output("samples after the end".into()))?;
        self.marked.clear();
        embedder.push(samples, &mut self.marked).map_err(into_media)?;
        self.out.write(&self.marked)
    }

    fn finish(&mut self) -> Result<u64, MediaError> {
        if let Some(embedder) = self.embedder.take() {
            self.marked.clear();
            embedder.finish(&mut self.marked);
            self.out.write(&self.marked)?;
        }
        self.out.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Kept(Vec<f32>, bool);

    impl SampleWriter for Kept {
        fn write(&mut self, samples: &[f32]) -> Result<(), MediaError> {
            self.0.extend_from_slice(samples);
            Ok(())
        }
        fn finish(&mut self) -> Result<u64, MediaError> {
            self.1 = true;
            Ok(self.0.len() as u64)
        }
    }

    #[test]
    fn what_is_written_in_blocks_comes_out_whole_with_a_mark_that_names_the_request() {
        let marker = Marker::new(Key::new([7; 32]), None);
        let payload = marker.payload(b"request 1", 1_795_000_000);
        assert_ne!(payload.request, marker.payload(b"request 2", 1_795_000_000).request);
        assert_eq!(payload.issuer, Marker::new(Key::new([7; 32]), None).payload(b"", 0).issuer);
        assert_eq!(Marker::new(Key::new([7; 32]), Some(5)).payload(b"", 0).issuer, 5);
        // Noise that comes and goes four times a second, as speech does.
        let mut state = 1u32;
        let sound: Vec<f32> = (0..24_000 * 10)
            .map(|at| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let noise = (state >> 8) as f32 / (1 << 23) as f32 - 1.0;
                noise * 0.2 * (at as f32 * 0.001).sin().abs()
            })
            .collect();
        let mut kept = Kept::default();
        let mut writer = MarkedWriter::new(24_000, &payload, &marker, &mut kept).unwrap();
        for block in sound.chunks(10_007) {
            writer.write(block).unwrap();
        }
        assert_eq!(writer.finish().unwrap(), sound.len() as u64);
        assert!(writer.write(&[0.0]).is_err());
        assert!(kept.1);
        let found = hark_watermark::detect(&kept.0, 24_000, marker.key()).unwrap();
        assert_eq!(found.payload, Some(payload));
        assert!(!hark_watermark::detect(&sound, 24_000, marker.key()).unwrap().present);
    }
}
