//! JSON files that end with a checksum of themselves.

use std::io;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StoreError;
use super::line::hexadecimal;

/// The beginning of the last line, before the checksum.
const KEY: &str = "\"checksum\":";

/// Maximum number of buffered bytes, because a state may be long.
const CHUNK: usize = 64 << 10;

/// Writes the text of an object in parts. The last line contains the checksum of everything before it. Returns the
/// length.
pub(super) fn seal(
    path: &Path,
    value: &impl Serialize,
    sink: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>,
) -> Result<u64, StoreError> {
    let mut out = Sealing {
        text: Vec::new(),
        sum: crc32fast::Hasher::new(),
        length: 0,
        sink,
        failure: None,
    };
    let written = serde_json::to_writer_pretty(&mut out, value);
    if let Some(failure) = out.failure.take() {
        return Err(failure);
    }
    written.map_err(|source| StoreError::Json {
        path: path.to_owned(),
        source,
    })?;
    // The closing brace of an object is on a line of its own.
    out.text.truncate(out.text.len().saturating_sub(END.len()));
    out.text.extend_from_slice(b",\n");
    out.sum.update(&out.text);
    let last = last_line(out.sum.finalize());
    out.text.extend_from_slice(last.as_bytes());
    (out.sink)(&out.text)?;
    Ok(out.length + out.text.len() as u64)
}

/// The end of a pretty-printed object.
const END: &[u8] = b"\n}";

struct Sealing<'s> {
    text: Vec<u8>,
    sum: crc32fast::Hasher,
    /// The number of bytes that were passed to the sink.
    length: u64,
    sink: &'s mut dyn FnMut(&[u8]) -> Result<(), StoreError>,
    failure: Option<StoreError>,
}

impl io::Write for Sealing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        if self.text.len() >= CHUNK {
            // Keep the end, because it may have to be removed.
            let end = self.text.len() - END.len();
            self.sum.update(&self.text[..end]);
            if let Err(failure) = (self.sink)(&self.text[..end]) {
                self.failure = Some(failure);
                return Err(io::ErrorKind::Other.into());
            }
            self.text.drain(..end);
            self.length += end as u64;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn last_line(sum: u32) -> String {
    format!("{KEY}\"crc32:{}\"}}\n", hexadecimal(sum).escape_ascii())
}

/// Parses a sealed object. With `strict`, rejects one without a checksum.
///
/// # Errors
/// Fails if it differs from what was written or has an unknown schema.
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
    // A checksum that is not on the last line does not match.
    let mut lines = text.split(|byte| *byte == b'\n');
    if strict || lines.any(|line| line.starts_with(KEY.as_bytes())) {
        let expected = last_line(crc32fast::hash(before));
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
