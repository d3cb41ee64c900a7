//! The model file as DeepFilterNet's own programs take it: a gzipped tar archive of three ONNX graphs and `config.ini`.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use hark_weights::WeightsFile;
use hark_weights::onnx::OnnxModel;

use crate::EnhanceError;

/// The file in the model's folder.
const FILE: &str = "DeepFilterNet3_onnx.tar.gz";
/// The most that one file of the archive, and all together, may unpack to; the real ones have 8.6 MB together.
const MAX_FILE: u64 = 32 << 20;
const MAX_TOTAL: u64 = 128 << 20;

/// What this implementation computes; a model with another configuration has another lookahead or other shapes.
const CONFIGURATION: [(&str, &str, &str); 15] = [
    ("train", "model", "deepfilternet3"),
    ("df", "sr", "48000"),
    ("df", "fft_size", "960"),
    ("df", "hop_size", "480"),
    ("df", "nb_erb", "32"),
    ("df", "nb_df", "96"),
    ("df", "norm_tau", "1"),
    ("df", "min_nb_erb_freqs", "2"),
    ("df", "df_order", "5"),
    ("df", "df_lookahead", "2"),
    ("deepfilternet", "conv_lookahead", "2"),
    ("deepfilternet", "conv_ch", "64"),
    ("deepfilternet", "emb_hidden_dim", "256"),
    ("deepfilternet", "df_hidden_dim", "256"),
    ("deepfilternet", "df_pathway_kernel_size_t", "5"),
];

/// The graphs of the model.
pub(crate) struct Graphs {
    /// The archive, for errors.
    pub(crate) path: PathBuf,
    pub(crate) encoder: OnnxModel,
    pub(crate) erb_decoder: OnnxModel,
    pub(crate) df_decoder: OnnxModel,
}

impl Graphs {
    /// Reads the archive in `folder`.
    pub(crate) fn load(folder: &Path) -> Result<Self, EnhanceError> {
        let path = folder.join(FILE);
        let unreadable = |source| EnhanceError::Unreadable { path: path.clone(), source };
        let file = File::open(&path).map_err(unreadable)?;
        let [mut encoder, mut erb_decoder, mut df_decoder, mut config] = [const { None }; 4];
        let damaged = |error: std::io::Error| EnhanceError::malformed(&path, error.to_string());
        let mut archive = tar::Archive::new(GzDecoder::new(BufReader::new(file)).take(MAX_TOTAL));
        for entry in archive.entries().map_err(damaged)? {
            let entry = entry.map_err(damaged)?;
            let name = entry.path_bytes().into_owned();
            let name = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
            let place = match name {
                b"enc.onnx" => &mut encoder,
                b"erb_dec.onnx" => &mut erb_decoder,
                b"df_dec.onnx" => &mut df_decoder,
                b"config.ini" => &mut config,
                _ => continue,
            };
            let mut bytes = Vec::new();
            entry.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(damaged)?;
            if bytes.len() as u64 > MAX_FILE {
                let name = String::from_utf8_lossy(name);
                return Err(EnhanceError::malformed(&path, format!("{name} unpacks to more than {MAX_FILE} bytes")));
            }
            *place = Some(bytes);
        }
        let missing = |name: &str| EnhanceError::malformed(&path, format!("{name} is missing"));
        let graph = |bytes: Option<Vec<u8>>, name: &str| {
            let file = WeightsFile::from_bytes(path.join(name), bytes.ok_or_else(|| missing(name))?);
            OnnxModel::read(&file).map_err(|error| EnhanceError::malformed(&path, format!("{name}: {}", error.what())))
        };
        check_configuration(&config.ok_or_else(|| missing("config.ini"))?)
            .map_err(|what| EnhanceError::malformed(&path, what))?;
        Ok(Graphs {
            encoder: graph(encoder, "enc.onnx")?,
            erb_decoder: graph(erb_decoder, "erb_dec.onnx")?,
            df_decoder: graph(df_decoder, "df_dec.onnx")?,
            path,
        })
    }
}

/// Compares the settings that matter here.
fn check_configuration(config: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(config);
    for (section, key, wanted) in CONFIGURATION {
        let mut current = "";
        let found = text.lines().map(str::trim).find_map(|line| {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                current = name.trim();
            }
            let (name, value) = line.split_once('=')?;
            (current == section && name.trim() == key).then(|| value.trim())
        });
        if found != Some(wanted) {
            let found = found.unwrap_or("nothing");
            return Err(format!("config.ini has {found:?} for {key} in [{section}] where {wanted:?} is supported"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_with_another_lookahead_is_refused() {
        let mut config = String::new();
        for (section, key, value) in CONFIGURATION {
            config.push_str(&format!("[{section}]\n{key} = {value}\n"));
        }
        assert_eq!(check_configuration(config.as_bytes()), Ok(()));
        let other = config.replace("conv_lookahead = 2", "conv_lookahead = 0");
        let refused = check_configuration(other.as_bytes()).unwrap_err();
        assert!(refused.contains("conv_lookahead") && refused.contains("\"0\""), "{refused}");
        assert!(check_configuration(b"").unwrap_err().contains("\"nothing\""));
    }
}
