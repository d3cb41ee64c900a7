//! The encoder: windows of log-mel frames to states.

use hark_whisper::weights::Dims;

use super::weights::NetworkWeights;
use crate::device::{Device, DeviceBuffer, DeviceResult, Output, Unfold};

/// Log-mel frames of a window.
pub const MEL_FRAMES: usize = 3000;

/// The workspace of a batch of windows.
pub struct EncoderWorkspace<B> {
    /// f32 `[window][frame][mel]`: what is encoded.
    pub mel: B,
    /// f32: the residual stream.
    stream: B,
    /// bf16: rows after a layer norm; at the end the states.
    pub normed: B,
    /// bf16: queries, keys and values; the first convolution's result before that.
    query_key_value: B,
    /// bf16: what attention made; the second convolution's result before that.
    attended: B,
    /// bf16: the hidden rows of the MLP; unfolded convolutions before that, and keys and values for the decoder after it.
    pub hidden: B,
    /// u32: set where a state is not finite.
    pub flag: B,
}

/// Numbers of each buffer for a window: rows as wide as the network, queries with keys and values, hidden rows, mel.
fn sizes(dims: &Dims) -> [usize; 4] {
    let (frames, width) = (dims.n_audio_ctx, dims.n_audio_state);
    [
        frames * width,
        3 * frames * width,
        (4 * frames * width).max(2 * frames * 3 * dims.n_mels),
        MEL_FRAMES * dims.n_mels,
    ]
}

impl<B: DeviceBuffer> EncoderWorkspace<B> {
    /// Bytes for a window.
    pub fn bytes(dims: &Dims) -> u64 {
        let [rows, query_key_value, hidden, mel] = sizes(dims);
        (4 * rows + 2 * rows + 2 * query_key_value + 2 * rows + 2 * hidden + 4 * mel) as u64
    }

    /// Workspace for a batch of windows.
    pub fn new<D: Device<Buffer = B>>(device: &D, dims: &Dims, windows: usize) -> DeviceResult<Self> {
        let [rows, query_key_value, hidden, mel] = sizes(dims);
        let floats = |numbers: usize| device.allocate(windows * numbers * 4);
        let halves = |numbers: usize| device.allocate(windows * numbers * 2);
        Ok(EncoderWorkspace {
            mel: floats(mel)?,
            stream: floats(rows)?,
            normed: halves(rows)?,
            query_key_value: halves(query_key_value)?,
            attended: halves(rows)?,
            hidden: halves(hidden)?,
            flag: device.allocate(4)?,
        })
    }

    /// Encodes the first `windows` windows of `mel`; the states are in `normed`.
    pub fn encode<D: Device<Buffer = B>>(
        &self,
        device: &D,
        weights: &NetworkWeights<B>,
        dims: &Dims,
        windows: usize,
    ) -> DeviceResult {
        let (frames, width) = (dims.n_audio_ctx, dims.n_audio_state);
        let rows = windows * frames;
        let first = Unfold {
            windows,
            frames_in: MEL_FRAMES,
            frames_out: 2 * frames,
            channels: dims.n_mels,
            stride: 1,
            is_f32: true,
        };
        device.unfold(&first, &self.mel, &self.hidden)?;
        device.linear(2 * rows, &self.hidden, &weights.convolutions[0], &self.query_key_value, Output::Gelu)?;
        let second =
            Unfold { windows, frames_in: 2 * frames, frames_out: frames, channels: width, stride: 2, is_f32: false };
        device.unfold(&second, &self.query_key_value, &self.hidden)?;
        device.linear(rows, &self.hidden, &weights.convolutions[1], &self.attended, Output::Gelu)?;
        device.add_positions(rows, frames, width, &self.attended, &weights.encoder_positions, &self.stream)?;
        for layer in &weights.encoder {
            let (attention, mlp) = (&layer.attention, &layer.mlp);
            device.layer_norm(rows, width, &self.stream, &attention.norm, &self.normed, None, None)?;
            device.linear(rows, &self.normed, &attention.query_key_value, &self.query_key_value, Output::Bf16)?;
            device.encoder_attention(windows, frames, width, &self.query_key_value, &self.attended)?;
            device.linear(rows, &self.attended, &attention.out, &self.stream, Output::AddF32)?;
            device.layer_norm(rows, width, &self.stream, &mlp.norm, &self.normed, None, None)?;
            device.linear(rows, &self.normed, &mlp.up, &self.hidden, Output::Gelu)?;
            device.linear(rows, &self.hidden, &mlp.down, &self.stream, Output::AddF32)?;
        }
        let norm = &weights.encoder_norm;
        device.layer_norm(rows, width, &self.stream, norm, &self.normed, None, Some(&self.flag))
    }
}
