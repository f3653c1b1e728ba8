//! Adjacency lists.

/// The items of each node, such as its edges or its successors, as compressed rows.
#[derive(Default)]
pub(crate) struct Adjacency<T> {
    starts: Vec<u32>,
    items: Vec<T>,
}

impl<T: Copy> Adjacency<T> {
    /// Groups items by their node. The items of a node keep the order of the pairs.
    pub(crate) fn new<P: Iterator<Item = (u32, T)>>(nodes: usize, pairs: impl Fn() -> P) -> Adjacency<T> {
        let mut starts = vec![0u32; nodes + 1];
        for (node, _) in pairs() {
            starts[node as usize + 1] += 1;
        }
        for at in 0..nodes {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let mut items: Vec<T> = pairs().map(|(_, item)| item).collect();
        for (node, item) in pairs() {
            let slot = &mut next[node as usize];
            items[*slot as usize] = item;
            *slot += 1;
        }
        Adjacency { starts, items }
    }

    /// Returns the number of nodes.
    pub(crate) fn nodes(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Returns the items of a node; none for an unknown node.
    pub(crate) fn get(&self, node: usize) -> &[T] {
        let bounds = self.starts.get(node..node + 2);
        bounds
            .and_then(|bounds| self.items.get(bounds[0] as usize..bounds[1] as usize))
            .unwrap_or_default()
    }
}
