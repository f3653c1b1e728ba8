//! The names of git objects.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::GitWorkspaceError;

/// The name of a git object: 40 or 64 hexadecimal digits.
///
/// ```
/// use orchestra_workspace::Sha;
/// let sha: Sha = "89e6c98d92887913cadf06b2adb97f26cde4849b".parse().unwrap();
/// assert_eq!(sha.short(), "89e6c98d9288");
/// assert!("HEAD".parse::<Sha>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha(String);

impl Sha {
    /// Returns all digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the first 12 digits.
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }
}

impl TryFrom<String> for Sha {
    type Error = GitWorkspaceError;

    fn try_from(text: String) -> Result<Sha, GitWorkspaceError> {
        text.parse()
    }
}

impl From<Sha> for String {
    fn from(sha: Sha) -> String {
        sha.0
    }
}

impl std::str::FromStr for Sha {
    type Err = GitWorkspaceError;

    fn from_str(text: &str) -> Result<Sha, GitWorkspaceError> {
        let digits = text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if digits && (text.len() == 40 || text.len() == 64) {
            return Ok(Sha(text.to_owned()));
        }
        Err(GitWorkspaceError::InvalidSha {
            text: text.chars().take(100).collect(),
        })
    }
}

impl fmt::Display for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sha({})", self.0)
    }
}
