//! Which format a folder of files has, so that a model copied by hand is recognised without a manifest.

use std::path::Path;

use crate::manifest::MANIFEST_NAME;

/// The format of the model in `dir`, or `None` when files it needs are missing.
pub fn format_of(dir: &Path) -> Option<&'static str> {
    let names = names_in(dir);
    let has = |name: &str| names.iter().any(|known| known == name);
    let tokens = has("tokenizer.json")
        || has("spiece.model")
        || has("vocabulary.txt")
        || has("vocabulary.json")
        || (has("vocab.json") && has("merges.txt"));
    if has("model.bin") && has("config.json") && tokens {
        return Some("ct2");
    }
    let weights = has("pytorch_model.bin") || has("model.safetensors") || all_shards(dir);
    if has("config.json") && has("source.spm") && has("vocab.json") && weights {
        return Some("marian-mt");
    }
    if has("config.json") && tokens && (has("model.safetensors") || all_shards(dir)) {
        return Some("safetensors");
    }
    if has("config.json") && has("spiece.model") && names.iter().any(|name| name.ends_with(".gguf")) {
        return Some("gguf");
    }
    let onnx = |part: &str| names.iter().any(|name| name.starts_with(part) && name.ends_with(".onnx"));
    if onnx("encoder_model") && onnx("decoder_model") && has("config.json") && tokens {
        return Some("onnx-int8");
    }
    let chatterbox = ["speech_encoder.onnx", "embed_tokens.onnx", "conditional_decoder.onnx", "tokenizer.json"];
    if chatterbox.into_iter().all(has) && onnx("language_model") {
        return Some("onnx");
    }
    if has("libonnxruntime.so") || names.iter().any(|name| name.starts_with("libnvrtc.so")) {
        return Some("library");
    }
    if names.iter().any(|name| name.starts_with("ggml-") && name.ends_with(".bin")) {
        return Some("ggml");
    }
    if names.iter().any(|name| name.starts_with("lid.") && name.ends_with(".ftz")) {
        return Some("fasttext");
    }
    let marian = |start: &str, end: &str| names.iter().any(|name| name.starts_with(start) && name.ends_with(end));
    let vocabulary = marian("vocab", ".spm") || (marian("srcvocab", ".spm") && marian("trgvocab", ".spm"));
    if marian("model", ".bin") && vocabulary {
        return Some("marian");
    }
    if has("model.gguf") {
        return Some("gguf");
    }
    let silero = |ending: &str| names.iter().any(|name| name.starts_with("silero_vad") && name.ends_with(ending));
    if silero(".onnx") {
        return Some("onnx");
    }
    silero(".safetensors").then_some("safetensors")
}

/// Whether the index of a sharded checkpoint is there with every shard it names.
fn all_shards(dir: &Path) -> bool {
    let index = || -> Option<serde_json::Value> {
        serde_json::from_slice(&std::fs::read(dir.join("model.safetensors.index.json")).ok()?).ok()
    };
    let Some(index) = index() else { return false };
    let Some(map) = index.get("weight_map").and_then(|map| map.as_object()) else {
        return false;
    };
    !map.is_empty() && map.values().all(|shard| shard.as_str().is_some_and(|name| dir.join(name).is_file()))
}

/// The names of the finished, non-empty files in `dir`; a download under way ends in `.partial` and does not count.
fn names_in(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| std::fs::metadata(entry.path()).is_ok_and(|data| data.is_file() && data.len() > 0))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name != MANIFEST_NAME && !name.ends_with(".partial"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(names: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        names.iter().for_each(|name| std::fs::write(dir.path().join(name), b"x").unwrap());
        dir
    }

    #[test]
    fn each_format_is_told_by_the_files_it_needs() {
        for (format, names) in [
            ("ct2", &["model.bin", "config.json", "vocabulary.txt"][..]),
            ("safetensors", &["model.safetensors", "config.json", "vocab.json", "merges.txt"]),
            (
                "onnx-int8",
                &[
                    "encoder_model_quantized.onnx",
                    "decoder_model_merged_quantized.onnx",
                    "config.json",
                    "tokenizer.json",
                ],
            ),
            ("safetensors", &["model.safetensors", "config.json", "spiece.model"]),
            ("gguf", &["model-q4k.gguf", "config.json", "spiece.model"]),
            ("ggml", &["ggml-base.en.bin"]),
            ("safetensors", &["silero_vad_16k.safetensors"]),
            ("gguf", &["model.gguf"]),
            (
                "onnx",
                &[
                    "conditional_decoder.onnx",
                    "speech_encoder.onnx",
                    "embed_tokens.onnx",
                    "language_model_q4.onnx",
                    "tokenizer.json",
                ],
            ),
            ("library", &["libonnxruntime.so"]),
            ("library", &["libnvrtc.so.13", "libnvrtc-builtins.so.13.0"]),
            ("fasttext", &["lid.176.ftz"]),
            ("marian", &["model.enpt.intgemm.alphas.bin", "vocab.enpt.spm"]),
            ("marian-mt", &["pytorch_model.bin", "config.json", "source.spm", "target.spm", "vocab.json"]),
            ("marian-mt", &["model.safetensors", "config.json", "source.spm", "vocab.json"]),
            ("marian", &["srcvocab.enja.spm", "trgvocab.enja.spm", "model.enja.bin"]),
        ] {
            let dir = folder(names);
            assert_eq!(format_of(dir.path()), Some(format), "{names:?}");
            std::fs::remove_file(dir.path().join(names[0])).unwrap();
            assert_eq!(format_of(dir.path()), None, "{names:?} without the first");
        }
    }

    #[test]
    fn a_sharded_checkpoint_counts_only_with_all_its_shards() {
        let dir = folder(&["config.json", "tokenizer.json", "a.safetensors"]);
        let index = r#"{"weight_map":{"x":"a.safetensors","y":"b.safetensors"}}"#;
        std::fs::write(dir.path().join("model.safetensors.index.json"), index).unwrap();
        assert_eq!(format_of(dir.path()), None);
        std::fs::write(dir.path().join("b.safetensors"), b"x").unwrap();
        assert_eq!(format_of(dir.path()), Some("safetensors"));
    }
}
