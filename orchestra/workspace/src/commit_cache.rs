//! A cache of facts about commits.

use std::collections::{HashMap, HashSet};

use crate::sha::Sha;

/// Maximum number of cached facts.
const MAX_FACTS: usize = 10_000;

/// Cached facts about the commits of a repository, which never change.
#[derive(Default)]
pub(crate) struct CommitCache {
    /// The commits that exist.
    pub(crate) existing: HashSet<Sha>,
    pub(crate) trees: HashMap<Sha, Sha>,
    pub(crate) ancestors: HashMap<(Sha, Sha), bool>,
}

impl CommitCache {
    pub(crate) fn is_full(&self) -> bool {
        self.existing.len() + self.trees.len() + self.ancestors.len() > MAX_FACTS
    }
}
