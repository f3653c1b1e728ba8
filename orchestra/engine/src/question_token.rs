//! The names by which other processes answer open questions.

use std::fmt::Write as _;
use std::io;

use orchestra_core::Question;

/// A secret name of one open question, drawn when other processes first ask for it.
///
/// It exists in the memory of the process that owns the run and in its replies to processes that may answer. It is never
/// written to a file, an event or a log.
pub(crate) type QuestionToken = String;

/// The system gave no random bytes, so no token could be drawn.
#[derive(Debug, thiserror::Error)]
#[error("the system gives no random bytes, so no question can be answered from outside: {0}")]
pub(crate) struct TokenError(#[from] io::Error);

/// The token of an open question, once it is drawn. It ends with the question.
#[derive(Default)]
pub(crate) struct TokenSlot(Option<QuestionToken>);

impl TokenSlot {
    /// Returns the token; draws it at the first call.
    pub(crate) fn token(&mut self) -> Result<QuestionToken, TokenError> {
        if let Some(token) = &self.0 {
            return Ok(token.clone());
        }
        let bytes = random_bytes()?;
        let mut token = QuestionToken::with_capacity(2 * bytes.len());
        for byte in bytes {
            let _ = write!(token, "{byte:02x}");
        }
        Ok(self.0.insert(token).clone())
    }
}

/// Which question an answer is for.
#[derive(Clone, Copy)]
pub(crate) enum QuestionRef<'a> {
    /// The id of a question, or the node that asks it.
    Name(&'a str),
    /// The token of a question.
    Token(&'a str),
}

impl<'a> QuestionRef<'a> {
    /// Returns whether this names an open question.
    pub(crate) fn matches(self, question: &Question, slot: &TokenSlot) -> bool {
        match self {
            QuestionRef::Name(name) => question.id == name || question.node == name,
            QuestionRef::Token(token) => slot.0.as_deref() == Some(token),
        }
    }

    /// Returns what an error may say; a token is not told.
    pub(crate) fn name(self) -> &'a str {
        match self {
            QuestionRef::Name(name) => name,
            QuestionRef::Token(_) => "",
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn random_bytes() -> io::Result<[u8; 16]> {
    use rustix::rand::{GetRandomFlags, getrandom};

    let mut bytes = [0; 16];
    // Up to 256 bytes are given in one go.
    match getrandom(&mut bytes, GetRandomFlags::empty())? {
        16 => Ok(bytes),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
fn random_bytes() -> io::Result<[u8; 16]> {
    use std::io::Read as _;

    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Where other processes cannot reach a run, nobody asks for a token.
#[cfg(not(unix))]
fn random_bytes() -> io::Result<[u8; 16]> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

    use super::TokenSlot;

    #[test]
    fn tokens_are_drawn_once_and_are_long_and_different() {
        let mut slot = TokenSlot::default();
        assert_eq!(slot.token().unwrap(), slot.token().unwrap());
        let drawn: BTreeSet<String> = (0..1_000)
            .map(|_| TokenSlot::default().token().unwrap())
            .collect();
        assert_eq!(drawn.len(), 1_000);
        assert!(drawn.iter().all(|token| token.len() == 32));
    }
}
