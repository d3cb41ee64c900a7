//! The encoder: windows of log-mel frames to states.

use hark_whisper::weights::Dims;

use super::weights::{NetworkWeights, Precision};
use crate::device::{Device, DeviceBuffer, DeviceResult, Fp8Rows, LinearWeights, NormWeights, Output, Unfold};

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
    /// Rows in e4m3, for layers that take them.
    fp8: Option<Fp8Rows<B>>,
    /// u32 `[window]`: where each one's keys and values go.
    pub slots: B,
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

/// Bytes of a window's rows in e4m3, the widest ones, and of their scales.
fn fp8_bytes(dims: &Dims) -> [usize; 2] {
    [dims.n_audio_ctx * 4 * dims.n_audio_state, dims.n_audio_ctx * 4]
}

impl<B: DeviceBuffer> EncoderWorkspace<B> {
    /// Bytes for a window.
    pub fn bytes(dims: &Dims, precision: Precision) -> u64 {
        let [rows, query_key_value, hidden, mel] = sizes(dims);
        let fp8 = if precision == Precision::Fp8 { fp8_bytes(dims).iter().sum() } else { 0 };
        (4 * rows + 2 * rows + 2 * query_key_value + 2 * rows + 2 * hidden + 4 * mel + fp8) as u64
    }

    /// Workspace for a batch of windows.
    pub fn new<D: Device<Buffer = B>>(
        device: &D,
        dims: &Dims,
        windows: usize,
        precision: Precision,
    ) -> DeviceResult<Self> {
        let [rows, query_key_value, hidden, mel] = sizes(dims);
        let [numbers, scales] = fp8_bytes(dims);
        let fp8 = || -> DeviceResult<_> {
            Ok(Fp8Rows { numbers: device.allocate(windows * numbers)?, scales: device.allocate(windows * scales)? })
        };
        let floats = |numbers: usize| device.allocate(windows * numbers * 4);
        let halves = |numbers: usize| device.allocate(windows * numbers * 2);
        Ok(EncoderWorkspace {
            mel: floats(mel)?,
            stream: floats(rows)?,
            normed: halves(rows)?,
            query_key_value: halves(query_key_value)?,
            attended: halves(rows)?,
            hidden: halves(hidden)?,
            fp8: (precision == Precision::Fp8).then(fp8).transpose()?,
            slots: device.allocate(windows * 4)?,
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
        // The layer norm of the stream through a layer.
        let normed = |norm: &NormWeights<B>, layer: &LinearWeights<B>, to: &B, output: Output| {
            if let (Some(fp8), Some(_)) = (&self.fp8, &layer.scales) {
                device.layer_norm_fp8(rows, width, &self.stream, norm, fp8)?;
                return device.linear_fp8(rows, fp8, layer, to, output);
            }
            device.layer_norm(rows, width, &self.stream, norm, &self.normed, None, None)?;
            device.linear(rows, &self.normed, layer, to, output)
        };
        for layer in &weights.encoder {
            let (attention, mlp) = (&layer.attention, &layer.mlp);
            normed(&attention.norm, &attention.query_key_value, &self.query_key_value, Output::Bf16)?;
            device.encoder_attention(windows, frames, width, &self.query_key_value, &self.attended)?;
            device.linear(rows, &self.attended, &attention.out, &self.stream, Output::AddF32)?;
            normed(&mlp.norm, &mlp.up, &self.hidden, Output::Gelu)?;
            match (&self.fp8, &mlp.down.scales) {
                (Some(fp8), Some(_)) => {
                    device.quantize(rows, mlp.down.inputs, &self.hidden, fp8)?;
                    device.linear_fp8(rows, fp8, &mlp.down, &self.stream, Output::AddF32)?;
                }
                _ => device.linear(rows, &self.hidden, &mlp.down, &self.stream, Output::AddF32)?,
            }
        }
        let norm = &weights.encoder_norm;
        device.layer_norm(rows, width, &self.stream, norm, &self.normed, None, Some(&self.flag))
    }
}
