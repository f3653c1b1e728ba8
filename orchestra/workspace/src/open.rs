//! The commit message of an open merge, which lets any process finish the merge.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::GitWorkspaceError;
use crate::git_path::os_path;
use crate::hunk::is_marked;
use crate::repository::Repository;
use crate::sha::Sha;

/// Prefix of a message line that names a conflicting file. The quoted path follows it.
const FILE: &str = "Orchestra-Conflict: ";

/// An open merge, read from its commit.
#[derive(Debug)]
pub(crate) struct OpenMerge {
    /// The clean part, followed by the tips that conflict.
    pub(crate) parents: Vec<Sha>,
    /// The complete commit message.
    pub(crate) text: String,
    /// The files that conflict.
    files: Vec<PathBuf>,
}

/// Returns the commit message of an open merge.
pub(crate) fn text(sides: &[String], files: &[Vec<u8>]) -> String {
    let mut text = format!("orchestra: open merge of {}\n\n", sides.join(", "));
    for path in files {
        text.push_str(&format!("{FILE}{}\n", quote(path)));
    }
    text
}

impl OpenMerge {
    /// Reads the commit of an open merge.
    pub(crate) fn read(repository: &Repository, open: &Sha) -> Result<OpenMerge, GitWorkspaceError> {
        if !repository.has_commit(open)? {
            return Err(repository.missing(open));
        }
        let parents = repository.parents(open)?;
        let text = repository.message_of(open)?;
        let files = text
            .lines()
            .filter_map(|line| Some(os_path(&unquote(line.strip_prefix(FILE)?))))
            .collect();
        if parents.len() < 2 || !text.starts_with("orchestra: open merge") {
            return Err(GitWorkspaceError::NoOpenMerge {
                repository: repository.name().to_owned(),
                sha: open.short().to_owned(),
            });
        }
        Ok(OpenMerge {
            parents,
            text: format!("{}\n", text.trim_end()),
            files,
        })
    }

    /// Returns the conflicting files of a worktree that still contain markers.
    pub(crate) fn marked(&self, folder: &Path) -> Vec<String> {
        let sides = self.parents.len() - 1;
        let holds = |path: &&PathBuf| {
            let path = folder.join(path);
            let regular = fs::symlink_metadata(&path).is_ok_and(|kind| kind.is_file());
            regular && fs::read(&path).is_ok_and(|bytes| is_marked(&bytes, sides))
        };
        self.files
            .iter()
            .filter(holds)
            .map(|path| path.display().to_string())
            .collect()
    }
}

/// Encodes a path as one line of printable ASCII that [`unquote`] can decode again.
fn quote(path: &[u8]) -> String {
    let mut text = String::new();
    for byte in path {
        match byte {
            b'!'..=b'~' if *byte != b'%' => text.push(char::from(*byte)),
            _ => text.push_str(&format!("%{byte:02x}")),
        }
    }
    text
}

fn unquote(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        let code = after
            .get(..2)
            .and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        match (first, code) {
            (b'%', Some(code)) => {
                bytes.push(code);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => bytes.push(*first),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::{quote, unquote};

    #[test]
    fn paths_of_any_bytes_come_back() {
        for path in [
            &b"plain.txt"[..],
            b"with space\nand line",
            b"100%",
            b"\xff\xfe/\x01",
            "gr\u{fc}n".as_bytes(),
        ] {
            assert!(quote(path).bytes().all(|byte| byte.is_ascii_graphic()));
            assert_eq!(unquote(&quote(path)), path);
        }
    }
}
