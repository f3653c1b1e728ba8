//! The conversations that later stages of a run go on with (Attractor 5.4, thread resolution).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::Message;

/// The conversations of one run, by branch and thread. They live as long as the process has the run.
#[derive(Default)]
pub(crate) struct Threads {
    inner: Mutex<HashMap<(String, String), Vec<Message>>>,
}

impl Threads {
    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), Vec<Message>>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The conversation of a thread so far. A branch goes on with what was said before it began; what it says stays
    /// in it.
    pub(crate) fn get(&self, branch: Option<&str>, thread: &str) -> Vec<Message> {
        let inner = self.lock();
        let mut branch = branch.unwrap_or_default();
        loop {
            if let Some(messages) = inner.get(&(branch.to_owned(), thread.to_owned())) {
                return messages.clone();
            }
            if branch.is_empty() {
                return Vec::new();
            }
            branch = branch.rsplit_once('/').map_or("", |(around, _)| around);
        }
    }

    /// Keeps a conversation.
    pub(crate) fn set(&self, branch: Option<&str>, thread: &str, messages: Vec<Message>) {
        let key = (branch.unwrap_or_default().to_owned(), thread.to_owned());
        self.lock().insert(key, messages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_go_on_with_what_was_said_before_them_and_keep_their_own_words() {
        let threads = Threads::default();
        let said = |text: &str| vec![Message::user(text)];
        threads.set(None, "t", said("main"));
        assert_eq!(threads.get(Some("fan#1:a/fan2#1:b"), "t"), said("main"));
        threads.set(Some("fan#1:a"), "t", said("a"));
        assert_eq!(threads.get(Some("fan#1:a/fan2#1:b"), "t"), said("a"));
        assert_eq!(threads.get(Some("fan#1:c"), "t"), said("main"));
        assert_eq!(threads.get(None, "t"), said("main"));
        assert!(threads.get(None, "other").is_empty());
    }
}
