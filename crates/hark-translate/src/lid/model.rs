//! The file of a quantized fastText classifier.
//!
//! Little-endian: magic and version; twelve `i32` and a double of training arguments; a dictionary of words and labels with their counts, and which of
//! the n-gram buckets were kept; the input matrix, product-quantized (each row is a few bytes that pick centroids); the output matrix in float32.

use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};

use hark_weights::{FileError, WeightsFile};

use super::tree::{self, Node};

const MAGIC: i32 = 793_712_314;
const VERSION: i32 = 12;
/// Centroids of a subquantizer: as many as a byte can pick.
const CENTROIDS: usize = 256;

/// A classifier in memory.
pub(super) struct Model {
    /// Lengths of character n-grams, in characters.
    pub(super) ngrams: RangeInclusive<usize>,
    /// Buckets that n-grams are hashed to.
    pub(super) buckets: u32,
    words: HashMap<Box<[u8]>, u32>,
    labels: Vec<String>,
    /// Row of each bucket that was kept when the model was made smaller; none where all were.
    kept_buckets: Option<HashMap<u32, u32>>,
    input: QuantizedRows,
    /// A row for each inner node of the tree.
    output: Vec<f32>,
    nodes: Vec<Node>,
}

/// A matrix whose rows are product-quantized.
struct QuantizedRows {
    rows: usize,
    width: usize,
    codes: Vec<u8>,
    quantizer: ProductQuantizer,
    /// The norm of each row, as a code and what codes mean.
    norms: Option<(Vec<u8>, ProductQuantizer)>,
}

/// Centroids for each part of a vector.
struct ProductQuantizer {
    parts: usize,
    part_width: usize,
    last_width: usize,
    centroids: Vec<f32>,
}

impl Model {
    pub(super) fn read(file: &WeightsFile) -> Result<Self, FileError> {
        let mut reader = Reader { file, position: 0 };
        if reader.i32()? != MAGIC || reader.i32()? != VERSION {
            return Err(file.unsupported("it is no fastText model of version 12"));
        }
        let mut arguments = [0; 12];
        for argument in &mut arguments {
            *argument = reader.i32()?;
        }
        reader.take(8)?;
        let [width, _, _, _, _, word_ngrams, loss, kind, buckets, shortest, longest, _] = arguments;
        if (loss, kind, word_ngrams) != (1, 3, 1) {
            return Err(
                file.unsupported("only classifiers with hierarchical softmax and no word n-grams are supported")
            );
        }
        let in_range = |value: i32, range: Range<usize>| usize::try_from(value).ok().filter(|v| range.contains(v));
        let (Some(width), Some(_), Some(shortest), Some(longest)) = (
            in_range(width, 1..4097),
            in_range(buckets, 1..usize::MAX),
            in_range(shortest, 0..33),
            in_range(longest, 0..33),
        ) else {
            return Err(file.damaged("its training arguments are impossible"));
        };
        let Dictionary { words, labels, counts, kept_buckets } = Dictionary::read(&mut reader)?;
        let buckets = buckets as u32;
        if !reader.flag()? {
            return Err(file.unsupported("its input matrix is not quantized; use the .ftz file of the model"));
        }
        let input = QuantizedRows::read(&mut reader, width)?;
        let ngram_rows = kept_buckets.as_ref().map_or(buckets as usize, HashMap::len);
        if input.rows < words.len() + ngram_rows {
            return Err(file.damaged("its input matrix has too few rows"));
        }
        if reader.flag()? {
            return Err(file.unsupported("its output matrix is quantized"));
        }
        let (rows, columns) = (reader.count64()?, reader.count64()?);
        if rows != labels.len() || columns != width {
            return Err(file.damaged("its output matrix has another shape"));
        }
        let output = reader.floats(rows * columns)?;
        if !reader.is_at_end() {
            return Err(file.damaged("bytes follow its end"));
        }
        let Some(nodes) = tree::build(&counts) else {
            return Err(file.damaged("its label counts are impossible"));
        };
        Ok(Model { ngrams: shortest.max(1)..=longest, buckets, words, labels, kept_buckets, input, output, nodes })
    }

    /// The row of a word of the dictionary.
    pub(super) fn word_row(&self, word: &[u8]) -> Option<u32> {
        self.words.get(word).copied()
    }

    /// The row of a bucket of n-grams.
    pub(super) fn bucket_row(&self, bucket: u32) -> Option<u32> {
        let words = self.words.len() as u32;
        match &self.kept_buckets {
            Some(kept) => kept.get(&bucket).map(|row| words + row),
            None => Some(words + bucket),
        }
    }

    pub(super) fn label_count(&self) -> usize {
        self.labels.len()
    }

    pub(super) fn label(&self, index: usize) -> &str {
        &self.labels[index]
    }

    /// The mean of some rows of the input matrix; none where there are none.
    pub(super) fn mean(&self, rows: &[u32]) -> Option<Vec<f32>> {
        if rows.is_empty() {
            return None;
        }
        let mut hidden = vec![0.0; self.input.width];
        rows.iter().for_each(|row| self.input.add_row(*row as usize, &mut hidden));
        let inverse = 1.0 / rows.len() as f32;
        hidden.iter_mut().for_each(|value| *value *= inverse);
        Some(hidden)
    }

    /// The logarithm of each label's probability.
    pub(super) fn label_scores(&self, hidden: &[f32]) -> Vec<(usize, f32)> {
        // fastText adds this before it takes a logarithm.
        let log = |probability: f32| (probability + 1e-5).ln();
        let labels = self.labels.len();
        let mut scores = vec![0.0; labels + self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate().rev() {
            let weights = &self.output[index * hidden.len()..][..hidden.len()];
            let sum: f32 = weights.iter().zip(hidden).map(|(weight, value)| weight * value).sum();
            let right = 1.0 / (1.0 + (-sum).exp());
            let score = scores[labels + index];
            scores[node.left] = score + log(1.0 - right);
            scores[node.right] = score + log(right);
        }
        scores.into_iter().take(labels).enumerate().collect()
    }
}

struct Dictionary {
    words: HashMap<Box<[u8]>, u32>,
    labels: Vec<String>,
    counts: Vec<u64>,
    kept_buckets: Option<HashMap<u32, u32>>,
}

impl Dictionary {
    fn read(reader: &mut Reader) -> Result<Self, FileError> {
        let file = reader.file;
        let (size, word_count, label_count) = (reader.i32()?, reader.i32()?, reader.i32()?);
        reader.take(8)?;
        let kept = reader.i64()?;
        if word_count < 0 || label_count < 1 || word_count.checked_add(label_count) != Some(size) {
            return Err(file.damaged("its dictionary has impossible sizes"));
        }
        let (mut words, mut labels, mut counts) = (HashMap::new(), Vec::new(), Vec::new());
        for index in 0..size as u32 {
            let text = reader.text()?;
            let count = reader.i64()?;
            let is_label = reader.flag()?;
            match (is_label, index < word_count as u32) {
                (false, true) => {
                    if words.insert(Box::from(text), index).is_some() {
                        return Err(file.damaged("a word is there twice"));
                    }
                }
                (true, false) => {
                    let label = std::str::from_utf8(text).map_err(|_| file.damaged("a label is not UTF-8"))?;
                    labels.push(label.strip_prefix("__label__").unwrap_or(label).to_owned());
                    counts.push(u64::try_from(count).map_err(|_| file.damaged("a label has a negative count"))?);
                }
                _ => return Err(file.damaged("words and labels are mixed")),
            }
        }
        let kept_buckets = match kept {
            ..0 => None,
            kept => {
                let mut rows = HashMap::new();
                for _ in 0..kept {
                    let (bucket, row) = (reader.i32()?, reader.i32()?);
                    if bucket < 0
                        || i64::from(row) >= kept
                        || row < 0
                        || rows.insert(bucket as u32, row as u32).is_some()
                    {
                        return Err(file.damaged("its list of kept n-grams is impossible"));
                    }
                }
                Some(rows)
            }
        };
        Ok(Dictionary { words, labels, counts, kept_buckets })
    }
}

impl QuantizedRows {
    fn read(reader: &mut Reader, width: usize) -> Result<Self, FileError> {
        let file = reader.file;
        let has_norms = reader.flag()?;
        let (rows, columns, code_bytes) = (reader.count64()?, reader.count64()?, reader.count()?);
        let codes = reader.take(code_bytes)?.to_vec();
        let quantizer = ProductQuantizer::read(reader, width)?;
        if columns != width || rows.checked_mul(quantizer.parts) != Some(codes.len()) || rows > u32::MAX as usize {
            return Err(file.damaged("its input matrix has another shape"));
        }
        let norms = match has_norms {
            true => Some((reader.take(rows)?.to_vec(), ProductQuantizer::read(reader, 1)?)),
            false => None,
        };
        Ok(QuantizedRows { rows, width, codes, quantizer, norms })
    }

    fn add_row(&self, row: usize, to: &mut [f32]) {
        let norm = self.norms.as_ref().map_or(1.0, |(codes, quantizer)| quantizer.centroid(0, codes[row])[0]);
        let quantizer = &self.quantizer;
        let codes = &self.codes[row * quantizer.parts..][..quantizer.parts];
        for (part, (to, code)) in to.chunks_mut(quantizer.part_width).zip(codes).enumerate() {
            for (to, value) in to.iter_mut().zip(quantizer.centroid(part, *code)) {
                *to += norm * value;
            }
        }
    }
}

impl ProductQuantizer {
    fn read(reader: &mut Reader, width: usize) -> Result<Self, FileError> {
        let file = reader.file;
        let (dim, parts, part_width, last_width) = (reader.count()?, reader.count()?, reader.count()?, reader.count()?);
        let is_possible = dim == width
            && parts > 0
            && part_width > 0
            && (1..=part_width).contains(&last_width)
            && (parts - 1).checked_mul(part_width).and_then(|whole| whole.checked_add(last_width)) == Some(width);
        if !is_possible {
            return Err(file.damaged("its quantizer has an impossible shape"));
        }
        let centroids = reader.floats(width * CENTROIDS)?;
        Ok(ProductQuantizer { parts, part_width, last_width, centroids })
    }

    /// The part of a vector that a code stands for.
    fn centroid(&self, part: usize, code: u8) -> &[f32] {
        let width = if part + 1 == self.parts { self.last_width } else { self.part_width };
        let start = part * CENTROIDS * self.part_width + usize::from(code) * width;
        &self.centroids[start..start + width]
    }
}

/// Reads values one after the other and fails at the file's end.
struct Reader<'a> {
    file: &'a WeightsFile,
    position: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], FileError> {
        let rest = &self.file.bytes()[self.position..];
        let taken = rest
            .get(..count)
            .ok_or_else(|| self.file.damaged(format!("it ends at byte {}", self.file.bytes().len())))?;
        self.position += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FileError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn i32(&mut self) -> Result<i32, FileError> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    fn i64(&mut self) -> Result<i64, FileError> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    fn flag(&mut self) -> Result<bool, FileError> {
        match self.take(1)? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(self.file.damaged(format!("byte {} is neither 0 nor 1", self.position - 1))),
        }
    }

    fn count(&mut self) -> Result<usize, FileError> {
        usize::try_from(self.i32()?).map_err(|_| self.file.damaged("a size is negative"))
    }

    fn count64(&mut self) -> Result<usize, FileError> {
        usize::try_from(self.i64()?).map_err(|_| self.file.damaged("a size is negative"))
    }

    fn floats(&mut self, count: usize) -> Result<Vec<f32>, FileError> {
        let bytes = count.checked_mul(4).ok_or_else(|| self.file.damaged("a matrix is too large"))?;
        let floats: Vec<f32> = self.take(bytes)?.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        match floats.iter().all(|value| value.is_finite()) {
            true => Ok(floats),
            false => Err(self.file.damaged("it has values that are not finite")),
        }
    }

    /// Bytes up to a NUL.
    fn text(&mut self) -> Result<&'a [u8], FileError> {
        let rest = &self.file.bytes()[self.position..];
        let length = rest.iter().position(|byte| *byte == 0).ok_or_else(|| self.file.damaged("a word has no end"))?;
        self.position += length + 1;
        Ok(&rest[..length])
    }

    fn is_at_end(&self) -> bool {
        self.position == self.file.bytes().len()
    }
}
