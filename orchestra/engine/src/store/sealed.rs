//! JSON files that end with a checksum of themselves.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StoreError;
use super::line::hexadecimal;

/// What the last line says before the checksum.
const KEY: &str = "\"checksum\":";

/// The text of an object, with a last line that holds the checksum of all that is before it.
pub(super) fn seal(path: &Path, value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    let mut text = serde_json::to_vec_pretty(value).map_err(|source| StoreError::Json {
        path: path.to_owned(),
        source,
    })?;
    // An object ends with a line of its own.
    text.truncate(text.len().saturating_sub(b"\n}".len()));
    text.extend_from_slice(b",\n");
    let last = last_line(&text);
    text.extend_from_slice(last.as_bytes());
    Ok(text)
}

fn last_line(before: &[u8]) -> String {
    let sum = hexadecimal(crc32fast::hash(before));
    format!("{KEY}\"crc32:{}\"}}\n", sum.escape_ascii())
}

/// Reads an object that was sealed; `strict` refuses one that says no checksum.
///
/// # Errors
/// It is not as it was written, or of a form that this version does not know.
pub(super) fn unseal<T: DeserializeOwned>(
    path: &Path,
    text: &[u8],
    schema: &'static str,
    strict: bool,
) -> Result<T, StoreError> {
    let damaged = |at: usize, expected: String, found: String| StoreError::Damaged {
        path: path.to_owned(),
        line: text.iter().take(at).filter(|byte| **byte == b'\n').count() as u64 + 1,
        offset: at as u64,
        expected,
        found,
    };
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    let start = body
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    let (before, last) = text.split_at(start);
    if strict || last.starts_with(KEY.as_bytes()) {
        let expected = last_line(before);
        if last != expected.as_bytes() {
            let shown = last.get(..60).unwrap_or(last).escape_ascii();
            return Err(damaged(
                start,
                format!("`{}`", expected.trim_end()),
                format!("`{shown}`"),
            ));
        }
    }
    #[derive(serde::Deserialize)]
    struct Head {
        schema: Option<String>,
    }
    let wrong = |error: serde_json::Error| {
        let line = error.line().saturating_sub(1);
        let lines = text.split_inclusive(|byte| *byte == b'\n').take(line);
        damaged(
            lines.map(<[u8]>::len).sum(),
            format!("the form `{schema}`"),
            error.to_string(),
        )
    };
    match serde_json::from_slice(text).map_err(wrong)? {
        Head { schema: Some(found) } if found != schema => Err(StoreError::Version {
            path: path.to_owned(),
            found,
            supported: schema,
        }),
        _ => serde_json::from_slice(text).map_err(wrong),
    }
}
