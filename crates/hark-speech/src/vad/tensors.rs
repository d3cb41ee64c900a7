//! The tensors of a model file by name: safetensors, or the initializers of an ONNX graph.

use std::collections::HashMap;

use super::kernels::UNITS;

/// Tensors of 32-bit floats under the names the safetensors file uses.
pub(super) struct Tensors {
    by_name: HashMap<String, Vec<f32>>,
}

impl Tensors {
    /// Reads either format; the error says what is wrong with the bytes.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        // Safetensors opens with a length of eight bytes and then JSON; an ONNX file can't have `{` there.
        let by_name = if bytes.get(8) == Some(&b'{') { safetensors(bytes)? } else { onnx(bytes)? };
        Ok(Tensors { by_name })
    }

    /// The tensor of that name, which must have that many entries.
    pub(super) fn floats(&self, name: &str, count: usize) -> Result<Vec<f32>, String> {
        let tensor = self.by_name.get(name).ok_or_else(|| format!("it has no tensor {name}"))?;
        if tensor.len() != count {
            return Err(format!("tensor {name} has {} entries, not {count}", tensor.len()));
        }
        Ok(tensor.clone())
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Eight bytes of header length, a JSON header, then the data it points into.
fn safetensors(bytes: &[u8]) -> Result<HashMap<String, Vec<f32>>, String> {
    let (length, rest) = bytes.split_first_chunk::<8>().ok_or("it is too short")?;
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    let (header, data) = rest.split_at_checked(length).ok_or("its header is cut off")?;
    let header: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(header).map_err(|_| "its header is not JSON")?;
    let mut tensors = HashMap::new();
    for (name, entry) in header {
        if entry["dtype"] != "F32" {
            continue;
        }
        let offset = |i: usize| usize::try_from(entry["data_offsets"][i].as_u64()?).ok();
        let bytes = match (offset(0), offset(1)) {
            (Some(from), Some(to)) => data.get(from..to),
            _ => None,
        };
        let bytes = bytes.ok_or_else(|| format!("the data of tensor {name} is cut off"))?;
        tensors.insert(name, floats(bytes));
    }
    Ok(tensors)
}

/// The initializers of `silero_vad_16k_sequence.onnx`, renamed. Field numbers are those of ONNX's protobuf
/// schema: model.graph = 7; graph.node = 1, graph.initializer = 5; node.input = 1, node.op_type = 4;
/// tensor.data_type = 2 (1: float), tensor.name = 8, tensor.raw_data = 9.
fn onnx(bytes: &[u8]) -> Result<HashMap<String, Vec<f32>>, String> {
    let not_onnx = "it is neither safetensors nor ONNX";
    let graph = fields(bytes).ok_or(not_onnx)?.into_iter().find(|f| f.number == 7).ok_or(not_onnx)?;
    let (mut found, mut recurrent) = (HashMap::new(), None);
    for field in fields(graph.bytes).ok_or(not_onnx)? {
        let inner = if matches!(field.number, 1 | 5) { fields(field.bytes).ok_or(not_onnx)? } else { Vec::new() };
        let text = |number: u64| inner.iter().find(|f| f.number == number).map(|f| String::from_utf8_lossy(f.bytes));
        if field.number == 5 && inner.iter().any(|f| f.number == 2 && f.value == 1) {
            if let (Some(name), Some(raw)) = (text(8), inner.iter().find(|f| f.number == 9)) {
                found.insert(name.into_owned(), floats(raw.bytes));
            }
        } else if field.number == 1 && text(4).as_deref() == Some("LSTM") {
            let inputs = inner.iter().filter(|f| f.number == 1);
            recurrent = Some(inputs.map(|f| String::from_utf8_lossy(f.bytes).into_owned()).collect::<Vec<_>>());
        }
    }

    let mut tensors = HashMap::new();
    let mut take = |from: &str| found.remove(from).ok_or_else(|| format!("it has no tensor {from}"));
    for n in 1..=4 {
        for part in ["weight", "bias"] {
            tensors.insert(format!("conv{n}.{part}"), take(&format!("encoder.{}.{part}", n - 1))?);
        }
    }
    for (name, from) in [
        ("stft_conv.weight", "stft.forward_basis_buffer"),
        ("final_conv.weight", "output.weight"),
        ("final_conv.bias", "output.bias"),
    ] {
        tensors.insert(name.to_owned(), take(from)?);
    }
    // The LSTM's inputs: sound, input weights, recurrent weights, both biases one after the other.
    let Some([_, input, hidden, bias, ..]) = recurrent.as_deref() else {
        return Err("it has no recurrent layer".to_owned());
    };
    let bias = take(bias)?;
    let (input_bias, hidden_bias) = bias.split_at_checked(4 * UNITS).ok_or("its recurrent bias is too short")?;
    tensors.insert("lstm_cell.bias_ih".to_owned(), reorder_gates(input_bias));
    tensors.insert("lstm_cell.bias_hh".to_owned(), reorder_gates(hidden_bias));
    tensors.insert("lstm_cell.weight_ih".to_owned(), reorder_gates(&take(input)?));
    tensors.insert("lstm_cell.weight_hh".to_owned(), reorder_gates(&take(hidden)?));
    Ok(tensors)
}

/// ONNX stacks the gates input, output, forget, new; we take them input, forget, new, output.
fn reorder_gates(stacked: &[f32]) -> Vec<f32> {
    let quarter = stacked.len() / 4;
    [0, 2, 3, 1].iter().flat_map(|&gate| stacked[gate * quarter..(gate + 1) * quarter].iter().copied()).collect()
}

/// One field of a protobuf message: its number, and its value or its bytes.
struct Field<'a> {
    number: u64,
    value: u64,
    bytes: &'a [u8],
}

/// All fields of a protobuf message; `None` when it is not one.
fn fields(mut message: &[u8]) -> Option<Vec<Field<'_>>> {
    let mut all = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        let (mut value, mut bytes): (u64, &[u8]) = (0, &[]);
        match tag & 7 {
            0 => value = varint(&mut message)?,
            1 => (bytes, message) = message.split_at_checked(8)?,
            2 => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                (bytes, message) = message.split_at_checked(length)?;
            }
            5 => (bytes, message) = message.split_at_checked(4)?,
            _ => return None,
        }
        all.push(Field { number: tag >> 3, value, bytes });
    }
    Some(all)
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
