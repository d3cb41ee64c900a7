//! Language models that are worth installing, what each needs, and which one suits a machine.

/// A language model in 4 bits (Q4_K_M), with figures that its authors publish.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LanguageModelInfo {
    /// The name people read.
    pub title: &'static str,
    /// What `hark models pull` takes: a name of the catalogue or a reference to the hub.
    pub pull: &'static str,
    /// The licence of the weights.
    pub licence: &'static str,
    /// Billions of parameters.
    pub parameters: f64,
    /// Bytes of the file, within some percent.
    pub file_bytes: u64,
    layers: u64,
    kv_heads: u64,
    head_dim: u64,
}

/// Tokens of prompt and answer that memory is counted for: the service's default.
pub const CONTEXT: u64 = 8192;
/// What an answer should have at least, in tokens a second; people read about as fast.
const LEAST_SPEED: f64 = 5.0;
/// Bytes of weights that a core reads a second while it generates: 13 tokens a second of a file of 1.1 GB on two cores (docs/experiments/language-model.md).
const BYTES_PER_CORE: f64 = 7.3e9;
/// More cores than these wait for memory.
const USEFUL_CORES: usize = 8;
/// Activations, logits, vocabulary and grammar.
const WORKSPACE: u64 = 300_000_000;

const fn info(
    title: &'static str,
    pull: &'static str,
    licence: &'static str,
    (parameters, file_bytes): (f64, u64),
    [layers, kv_heads, head_dim]: [u64; 3],
) -> LanguageModelInfo {
    LanguageModelInfo { title, pull, licence, parameters, file_bytes, layers, kv_heads, head_dim }
}

/// The table, small models first.
pub const LANGUAGE_MODELS: [LanguageModelInfo; 12] = [
    info("Qwen2.5 Coder 0.5B", "qwen2.5-coder-0.5b-instruct", "Apache-2.0", (0.5, 491_400_064), [24, 2, 64]),
    info(
        "Gemma 3 1B",
        "hf:bartowski/google_gemma-3-1b-it-GGUF/google_gemma-3-1b-it-Q4_K_M.gguf",
        "Gemma terms",
        (1.0, 806_000_000),
        [26, 1, 256],
    ),
    info("Qwen2.5 Coder 1.5B", "qwen2.5-coder-1.5b-instruct", "Apache-2.0", (1.5, 1_117_320_768), [28, 2, 128]),
    info(
        "Llama 3.2 3B",
        "hf:bartowski/Llama-3.2-3B-Instruct-GGUF/Llama-3.2-3B-Instruct-Q4_K_M.gguf",
        "Llama 3.2 terms",
        (3.2, 2_020_000_000),
        [28, 8, 128],
    ),
    info("Qwen3 4B", "hf:Qwen/Qwen3-4B-GGUF/Qwen3-4B-Q4_K_M.gguf", "Apache-2.0", (4.0, 2_500_000_000), [36, 8, 128]),
    info(
        "Gemma 3 4B",
        "hf:bartowski/google_gemma-3-4b-it-GGUF/google_gemma-3-4b-it-Q4_K_M.gguf",
        "Gemma terms",
        (4.0, 2_490_000_000),
        [34, 4, 256],
    ),
    info(
        "Qwen2.5 7B",
        "hf:bartowski/Qwen2.5-7B-Instruct-GGUF/Qwen2.5-7B-Instruct-Q4_K_M.gguf",
        "Apache-2.0",
        (7.6, 4_680_000_000),
        [28, 4, 128],
    ),
    info(
        "Llama 3.1 8B",
        "hf:bartowski/Meta-Llama-3.1-8B-Instruct-GGUF/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf",
        "Llama 3.1 terms",
        (8.0, 4_920_000_000),
        [32, 8, 128],
    ),
    info("Qwen3 8B", "hf:Qwen/Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M.gguf", "Apache-2.0", (8.2, 5_030_000_000), [36, 8, 128]),
    info(
        "Gemma 3 12B",
        "hf:bartowski/google_gemma-3-12b-it-GGUF/google_gemma-3-12b-it-Q4_K_M.gguf",
        "Gemma terms",
        (12.0, 7_300_000_000),
        [48, 8, 256],
    ),
    info("Phi 4 14B", "hf:bartowski/phi-4-GGUF/phi-4-Q4_K_M.gguf", "MIT", (14.7, 9_050_000_000), [40, 10, 128]),
    info(
        "Qwen3 14B",
        "hf:Qwen/Qwen3-14B-GGUF/Qwen3-14B-Q4_K_M.gguf",
        "Apache-2.0",
        (14.8, 9_000_000_000),
        [40, 8, 128],
    ),
];

impl LanguageModelInfo {
    /// Bytes of memory with a context of so many tokens: weights (packed, they take 3 % more than the file), KV cache and workspace.
    pub fn memory_bytes(&self, context: u64) -> u64 {
        self.file_bytes + self.file_bytes / 32 + self.cache_bytes(context) + WORKSPACE
    }

    /// Keys and values of every layer, two bytes each.
    fn cache_bytes(&self, context: u64) -> u64 {
        context * self.layers * self.kv_heads * self.head_dim * 4
    }

    /// Whether the service gives it a whole context within a memory budget: its KV cache has half of what the budget leaves beside weights and workspace, and a
    /// page more than a context.
    pub fn fits(&self, budget: u64) -> bool {
        self.cache_bytes(CONTEXT + 32) <= budget.saturating_sub(self.memory_bytes(0)) / 2
    }

    /// About how many tokens a second it generates on so many cores: reading the weights takes the time.
    pub fn tokens_per_second(&self, cores: usize) -> f64 {
        BYTES_PER_CORE * cores.clamp(1, USEFUL_CORES) as f64 / self.file_bytes as f64
    }

    /// Whether its licence sets no terms of its own on use.
    pub fn is_open(&self) -> bool {
        matches!(self.licence, "Apache-2.0" | "MIT")
    }
}

/// The model that a machine with so much memory and so many cores should use: the largest with an open licence that fits the service's memory budget, half of
/// the memory, and generates at least five tokens a second; the smallest where none does.
pub fn recommended_language_model(memory: u64, cores: usize) -> &'static LanguageModelInfo {
    let suits = |model: &&LanguageModelInfo| {
        model.is_open() && model.fits(memory / 2) && model.tokens_per_second(cores) >= LEAST_SPEED
    };
    LANGUAGE_MODELS.iter().rfind(suits).unwrap_or(&LANGUAGE_MODELS[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalogue, HubReference, Role};

    #[test]
    fn every_model_of_the_table_can_be_named_in_a_pull() {
        for model in &LANGUAGE_MODELS {
            match HubReference::parse(model.pull) {
                Some(reference) => _ = reference.unwrap_or_else(|error| panic!("{error}")),
                None => {
                    let catalogue = Catalogue::builtin();
                    let entry = catalogue.get(model.pull).unwrap_or_else(|| panic!("no {}", model.pull));
                    assert_eq!((entry.role, entry.size_bytes), (Role::Language, model.file_bytes));
                    assert_eq!(entry.licence, model.licence);
                }
            }
        }
        assert!(LANGUAGE_MODELS.windows(2).all(|pair| pair[0].parameters <= pair[1].parameters), "small ones first");
    }

    #[test]
    fn the_page_for_operators_has_the_same_table() {
        let page = include_str!("../../../docs/operators/language-models.md");
        for model in &LANGUAGE_MODELS {
            let gigabytes = |bytes: u64| bytes as f64 / 1e9;
            let (file, memory) = (gigabytes(model.file_bytes), gigabytes(model.memory_bytes(CONTEXT)));
            let line = format!(
                "| {} | {} billion | {file:.1} GB | {memory:.1} GB | {} | `{}` |",
                model.title, model.parameters, model.licence, model.pull
            );
            assert!(page.contains(&line), "the page has no line {line}");
        }
    }

    #[test]
    fn memory_is_that_of_weights_cache_and_workspace() {
        // Qwen2.5 1.5B: 28 layers of 2 heads of 128 elements are 28 KiB a token.
        let default = &LANGUAGE_MODELS[2];
        assert_eq!(default.memory_bytes(0), 1_117_320_768 + 34_916_274 + WORKSPACE);
        assert_eq!(default.memory_bytes(CONTEXT) - default.memory_bytes(0), 8192 * 28_672);
    }

    #[test]
    fn a_model_fits_where_its_cache_has_half_of_what_the_budget_leaves() {
        let default = &LANGUAGE_MODELS[2];
        let least = default.memory_bytes(0) + 2 * (CONTEXT + 32) * 28_672;
        assert!(default.fits(least) && !default.fits(least - 2));
    }

    #[test]
    fn a_machine_gets_the_largest_model_that_fits_its_memory_and_its_cores() {
        let name = |gigabytes: u64, cores: usize| recommended_language_model(gigabytes * 1_000_000_000, cores).title;
        assert_eq!(name(1, 1), "Qwen2.5 Coder 0.5B");
        assert_eq!(name(4, 2), "Qwen2.5 Coder 1.5B");
        assert_eq!(name(24, 2), "Qwen3 4B", "two cores are too slow for more");
        assert_eq!(name(8, 16), "Qwen2.5 Coder 1.5B", "eight gigabytes are too few for more");
        assert_eq!(name(16, 8), "Qwen3 8B");
        assert_eq!(name(128, 64), "Qwen3 14B");
    }
}
