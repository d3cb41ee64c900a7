use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Writes mono samples as a 16-bit PCM WAV file; values beyond ±1 are clipped.
pub fn write_wav(mut writer: impl Write, samples: &[f32], sample_rate: u32) -> io::Result<()> {
    let bytes = u32::try_from(samples.len() as u64 * 2)
        .ok()
        .filter(|&bytes| bytes <= u32::MAX - 36)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "too long for a wav file: over 4 GiB"))?;
    let mut header = Vec::with_capacity(44);
    header.extend_from_slice(b"RIFF");
    header.extend_from_slice(&(36 + bytes).to_le_bytes());
    header.extend_from_slice(b"WAVEfmt ");
    header.extend_from_slice(&16u32.to_le_bytes());
    header.extend_from_slice(&1u16.to_le_bytes()); // PCM
    header.extend_from_slice(&1u16.to_le_bytes()); // mono
    header.extend_from_slice(&sample_rate.to_le_bytes());
    header.extend_from_slice(&(sample_rate.saturating_mul(2)).to_le_bytes());
    header.extend_from_slice(&2u16.to_le_bytes());
    header.extend_from_slice(&16u16.to_le_bytes());
    header.extend_from_slice(b"data");
    header.extend_from_slice(&bytes.to_le_bytes());
    writer.write_all(&header)?;
    let mut block = Vec::with_capacity(8192);
    for samples in samples.chunks(4096) {
        block.clear();
        // 32768 both ways, as every decoder here scales 16-bit samples; +1.0 clips to 32767.
        block.extend(
            samples
                .iter()
                .flat_map(|&sample| ((sample * 32768.0).round().clamp(-32768.0, 32767.0) as i16).to_le_bytes()),
        );
        writer.write_all(&block)?;
    }
    writer.flush()
}

/// Writes mono samples as a 16-bit PCM WAV file at `path`.
pub fn write_wav_file(path: impl AsRef<Path>, samples: &[f32], sample_rate: u32) -> io::Result<()> {
    write_wav(BufWriter::new(File::create(path)?), samples, sample_rate)
}
