//! Where keys and values lie in a page of the KV cache.

/// Positions of a page.
pub const PAGE: usize = 32;

/// The layout of a page: for each layer and KV head the keys, transposed (`[element][position]`), so that the scores of 32
/// positions are two vectors, then the values (`[position][element]`); all IEEE halves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvLayout {
    /// Layers of the model.
    pub layers: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Elements of a head, a multiple of 32.
    pub head_dim: usize,
}

impl KvLayout {
    /// Elements of a page.
    ///
    /// # Panics
    /// When they do not fit the address space.
    pub fn page_elements(&self) -> usize {
        let heads = self.layers.checked_mul(self.kv_heads);
        // Checked, since kernels rely on heads lying within a page.
        heads
            .and_then(|heads| heads.checked_mul(self.head_dim)?.checked_mul(2 * PAGE))
            .expect("a page fits the address space")
    }

    /// Where the keys of a head begin in a page.
    pub fn keys(&self, layer: usize, head: usize) -> usize {
        (layer * self.kv_heads + head) * 2 * self.head_dim * PAGE
    }

    /// Where the values of a head begin in a page.
    pub fn values(&self, layer: usize, head: usize) -> usize {
        self.keys(layer, head) + self.head_dim * PAGE
    }

    /// Writes the keys and values of one position, all heads of a layer, given as halves one head behind the other.
    ///
    /// # Panics
    /// When the position lies beyond the page or a slice is too short.
    pub fn store(&self, page: &mut [u16], layer: usize, position: usize, keys: &[u16], values: &[u16]) {
        assert!(position < PAGE && page.len() >= self.page_elements(), "a place in a whole page");
        for head in 0..self.kv_heads {
            let elements = head * self.head_dim..(head + 1) * self.head_dim;
            let to = &mut page[self.keys(layer, head)..][..self.head_dim * PAGE];
            for (line, key) in to.chunks_exact_mut(PAGE).zip(&keys[elements.clone()]) {
                line[position] = *key;
            }
            let at = self.values(layer, head) + position * self.head_dim;
            page[at..at + self.head_dim].copy_from_slice(&values[elements]);
        }
    }
}
