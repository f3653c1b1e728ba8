//! Who may send which request: hosts, origins, tokens and sessions.

mod attempts;
mod hosts;
mod sessions;
mod token;

pub(crate) use hosts::Hosts;
pub(crate) use sessions::Sessions;
pub(crate) use token::Token;

use std::io;
use std::time::Instant;

use attempts::Attempts;

/// The state that decides about requests.
pub(crate) struct Access {
    pub(crate) hosts: Hosts,
    pub(crate) token: Token,
    pub(crate) sessions: Sessions,
    pub(crate) read_only: bool,
    failures: Attempts,
    writes: Attempts,
}

/// Maximum number of failed authentications in a second.
const MAX_FAILURES: u32 = 10;

/// Maximum number of writes of one session in a second.
const MAX_WRITES: u32 = 20;

impl Access {
    pub(crate) fn new(hosts: Hosts, token: Token, read_only: bool) -> io::Result<Access> {
        Ok(Access {
            sessions: Sessions::new(&hosts)?,
            hosts,
            token,
            read_only,
            failures: Attempts::new(MAX_FAILURES),
            writes: Attempts::new(MAX_WRITES),
        })
    }

    /// Counts a write of a session or program. Returns `false` if there are too many.
    pub(crate) fn count_write(&self, key: &[u8]) -> bool {
        self.writes.count(key, Instant::now())
    }

    /// Counts a failed authentication. Returns `false` if there are too many.
    pub(crate) fn count_failure(&self) -> bool {
        self.failures.count(&[], Instant::now())
    }
}
