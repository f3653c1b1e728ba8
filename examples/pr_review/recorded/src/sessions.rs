//! Sessions of people who have logged in.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long a session lives.
const LIFE: Duration = Duration::from_secs(3600);

/// All sessions, by their tokens.
#[derive(Default)]
pub struct Sessions {
    open: HashMap<String, (String, Instant)>,
}

impl Sessions {
    /// Who has this token, if anybody.
    pub fn user(&self, token: &str) -> Option<&str> {
        let (user, begun) = self.open.get(token)?;
        (begun.elapsed() < LIFE).then_some(user.as_str())
    }

    /// Whether a person has a session.
    pub fn is_open(&self, user: &str) -> bool {
        self.open.values().any(|(open, _)| open == user)
    }

    /// Ends all sessions of a person.
    pub fn close(&mut self, user: &str) {
        self.open.retain(|_, (open, _)| !open.starts_with(user));
    }

    /// Opens a session.
    pub fn open(&mut self, user: &str, token: String) {
        self.open.insert(token, (user.to_owned(), Instant::now()));
    }
}
