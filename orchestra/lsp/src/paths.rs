//! Conversion between URIs and paths. Paths have `/` as separator on all systems, such as `/home/a/b.dot` and
//! `c:/a/b.dot`.

use std::str::FromStr;

use orchestra_graph::plain_path;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::protocol::Uri;

/// The characters that are encoded in the path of a URI.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The prefix of the path of a document that is no file, such as a new one that was never saved.
const UNSAVED: &str = "unsaved:";

/// Returns the path of a URI. The path of a document that is no file is its URI with a prefix.
pub(crate) fn path_from_uri(uri: &Uri) -> String {
    let text = uri.as_str();
    let Some(path) = text
        .strip_prefix("file://")
        .and_then(|rest| rest.find('/').and_then(|at| rest.get(at..)))
    else {
        return format!("{UNSAVED}{text}");
    };
    let path = percent_decode_str(path).decode_utf8_lossy();
    match drive(&path) {
        Some((drive, rest)) => format!("{}:{}", drive.to_ascii_lowercase(), plain_path(rest)),
        None => plain_path(&path),
    }
}

/// Splits `/C:/rest` into `C` and `/rest`.
fn drive(path: &str) -> Option<(char, &str)> {
    let mut characters = path.strip_prefix('/')?.chars();
    let drive = characters.next().filter(char::is_ascii_alphabetic)?;
    let rest = characters.as_str().strip_prefix(':')?;
    rest.starts_with('/').then_some((drive, rest))
}

/// Returns the URI of a path; `None` if the path is not valid in a URI.
pub(crate) fn uri_from_path(path: &str) -> Option<Uri> {
    if let Some(uri) = path.strip_prefix(UNSAVED) {
        return Uri::from_str(uri).ok();
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    Uri::from_str(&format!("file://{slash}{}", utf8_percent_encode(path, ENCODED))).ok()
}

/// Returns whether a path is that of a file, rather than of a document that was never saved.
pub(crate) fn is_file(path: &str) -> bool {
    !path.starts_with(UNSAVED)
}

/// Returns the folder of a path, without `/` at its end; empty for the root folder.
pub(crate) fn folder(path: &str) -> &str {
    match path.rfind('/') {
        Some(at) if is_file(path) => path.get(..at).unwrap_or_default(),
        _ => "",
    }
}

/// Returns the last part of a path.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit(['/', ':']).next().unwrap_or_default()
}

/// Returns the ending of a path, without its dot.
pub(crate) fn ending(path: &str) -> &str {
    file_name(path).rsplit_once('.').map_or("", |(_, ending)| ending)
}

/// Returns whether a path is absolute.
pub(crate) fn is_absolute(path: &str) -> bool {
    path.starts_with('/') || path.as_bytes().get(1) == Some(&b':') || !is_file(path)
}

/// Returns the absolute path of a name that is relative to a root.
pub(crate) fn absolute(root: &str, name: &str) -> String {
    if is_absolute(name) {
        return if is_file(name) {
            plain_path(name)
        } else {
            name.to_owned()
        };
    }
    plain_path(&format!("{root}/{name}"))
}

/// Returns the name of a path relative to a root; a path outside of the root is its own name.
pub(crate) fn name_in<'p>(root: &str, path: &'p str) -> &'p str {
    let inside = path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/'));
    inside.unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_and_paths_are_converted_there_and_back() {
        for (uri, path) in [
            ("file:///home/a%20b/c.dot", "/home/a b/c.dot"),
            ("file:///c%3A/flows/c.dot", "c:/flows/c.dot"),
            ("file:///home/%C3%A4.dot", "/home/ä.dot"),
            ("file:///home/%23%3F%25.dot", "/home/#?%.dot"),
            ("untitled:Untitled-1", "unsaved:untitled:Untitled-1"),
        ] {
            let parsed = Uri::from_str(uri).unwrap();
            assert_eq!(path_from_uri(&parsed), path);
            assert_eq!(uri_from_path(path).unwrap().as_str(), uri);
        }
        let other = Uri::from_str("file:///C:/flows/./x/../c.dot").unwrap();
        assert_eq!(path_from_uri(&other), "c:/flows/c.dot");
    }

    #[test]
    fn names_are_relative_to_their_root() {
        assert_eq!(name_in("/w", "/w/flows/a.dot"), "flows/a.dot");
        assert_eq!(name_in("/w", "/world/a.dot"), "/world/a.dot");
        assert_eq!(absolute("/w", "../x/a.dot"), "/x/a.dot");
        assert_eq!(absolute("/w", "/home/u/p.yaml"), "/home/u/p.yaml");
        assert_eq!((folder("/a/b.dot"), folder("/b.dot")), ("/a", ""));
    }
}
