//! The token of the server.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use crate::bytes::{hexadecimal, is_same_secret};

/// The length of a token in hexadecimal digits: 256 bits.
const LENGTH: usize = 64;

/// A secret that lets programs and pages in.
pub(crate) struct Token {
    text: String,
}

impl Token {
    /// Draws a new token.
    pub(crate) fn random() -> io::Result<Token> {
        let mut bytes = [0; LENGTH / 2];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Token {
            text: hexadecimal(&bytes),
        })
    }

    /// Reads the token from a file that only its owner can read. If there is no such file, draws a token and writes it.
    pub(crate) fn in_file(path: &Path) -> io::Result<Token> {
        if let Some(token) = Token::read(path)? {
            return Ok(token);
        }
        let token = Token::random()?;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = options.open(path)?;
        file.write_all(token.text.as_bytes())?;
        file.write_all(b"\n")?;
        Ok(token)
    }

    /// Returns `None` if there is no file with a token that others cannot know.
    fn read(path: &Path) -> io::Result<Option<Token>> {
        let found = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        if !found.is_file() || is_public(&found) {
            return Ok(None);
        }
        let mut text = String::new();
        fs::File::open(path)?.take(1_024).read_to_string(&mut text)?;
        let text = text.trim_end();
        let is_token = text.len() == LENGTH && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        Ok(is_token.then(|| Token {
            text: text.to_owned(),
        }))
    }

    /// Returns whether a text is the token, in a time that does not depend on the difference.
    pub(crate) fn is(&self, text: &[u8]) -> bool {
        is_same_secret(self.text.as_bytes(), text)
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

#[cfg(unix)]
fn is_public(found: &fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o077 != 0
}

#[cfg(not(unix))]
fn is_public(_: &fs::Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_kept_in_its_file_unless_others_can_read_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new/token");
        let first = Token::in_file(&path).expect("written");
        assert_eq!(first.text().len(), LENGTH);
        assert_eq!(Token::in_file(&path).expect("read").text(), first.text());
        assert!(first.is(first.text().as_bytes()));
        assert!(!first.is(b"") && !first.is(&first.text().as_bytes()[1..]));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(&path).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("changed");
            let drawn = Token::in_file(&path).expect("replaced");
            assert_ne!(drawn.text(), first.text());
        }
        fs::write(&path, "short").expect("written");
        assert_eq!(Token::in_file(&path).expect("replaced").text().len(), LENGTH);
    }
}
