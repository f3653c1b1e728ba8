//! Large values, which are replaced by references to blobs in what the durable engine stores and sends.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::blobs::{BlobError, Blobs, name_of};

/// The key of a reference to a blob.
const BLOB: &str = "$blob";
/// The key around an object that would be taken for a reference.
const PLAIN: &str = "$plain";
/// The beginning of both keys in JSON text. Text without it has no references.
const MARK: &str = "\"$";

/// The maximum size of a reference in bytes.
const REFERENCE: usize = 128;

/// The size in bytes above which a value becomes a blob.
pub(crate) const LARGE_VALUE: usize = 64 * 1024;

/// A value as JSON text, with references in the place of large parts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Packed(Box<RawValue>);

/// The failure to read a packed value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnpackError {
    #[error(transparent)]
    Blob(#[from] BlobError),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl UnpackError {
    /// Returns whether trying again may succeed.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(self, UnpackError::Blob(error) if !error.is_lost())
    }
}

impl Packed {
    /// Replaces all parts of more than [`LARGE_VALUE`] by references, and the whole by one if it is still larger than
    /// `limit`.
    pub(crate) async fn pack(
        blobs: &Blobs,
        run: &str,
        value: &impl Serialize,
        limit: usize,
    ) -> Result<Packed, BlobError> {
        let text = raw(value)?;
        if text.get().len() <= limit.min(LARGE_VALUE) && !text.get().contains(MARK) {
            return Ok(Packed(text));
        }
        let mut value: Value = serde_json::from_str(text.get()).map_err(unpackable)?;
        drop(text);
        let mut large = Vec::new();
        let size = extract(&mut value, &mut large);
        if size > limit {
            replace(&mut value, &mut large);
        }
        for value in large {
            blobs.put(run, value).await?;
        }
        raw(&value).map(Packed)
    }

    /// Reads the value, with the blobs in the place of their references.
    pub(crate) async fn unpack<T: DeserializeOwned>(
        &self,
        blobs: &Blobs,
        run: &str,
    ) -> Result<T, UnpackError> {
        if !self.0.get().contains(MARK) {
            return Ok(serde_json::from_str(self.0.get())?);
        }
        let mut value = serde_json::from_str(self.0.get())?;
        loop {
            let mut names = Vec::new();
            find(&value, &mut names);
            if names.is_empty() {
                restore(&mut value);
                return Ok(serde_json::from_value(value)?);
            }
            for name in names {
                let stored = blobs.get(run, &name).await?;
                let found = serde_json::from_slice(&stored).map_err(|_| BlobError::Damaged {
                    folder: run.to_owned(),
                    name: name.clone(),
                })?;
                insert(&mut value, &name, &found);
            }
        }
    }

    /// Returns the name of the blob if the whole is a reference.
    pub(crate) fn root_blob(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Reference {
            #[serde(rename = "$blob")]
            blob: String,
        }
        let is_short = self.0.get().len() <= REFERENCE && self.0.get().contains(MARK);
        let reference = is_short.then(|| serde_json::from_str::<Reference>(self.0.get()));
        Some(reference?.ok()?.blob)
    }

    /// Returns the JSON text.
    pub(crate) fn text(&self) -> &str {
        self.0.get()
    }
}

/// Returns a value as JSON text.
pub(crate) fn raw(value: &impl Serialize) -> Result<Box<RawValue>, BlobError> {
    serde_json::value::to_raw_value(value).map_err(unpackable)
}

/// Creates the error of a value that is no JSON.
fn unpackable(source: serde_json::Error) -> BlobError {
    BlobError::Store(object_store::Error::Generic {
        store: "values",
        source: source.into(),
    })
}

/// Takes large values out, the innermost first. Returns the size of what is left.
fn extract(value: &mut Value, large: &mut Vec<Bytes>) -> usize {
    let mut below = |value: &mut Value| {
        let size = extract(value, large);
        if size <= LARGE_VALUE {
            return size;
        }
        replace(value, large)
    };
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(list) => list.iter_mut().map(|value| below(value) + 1).sum::<usize>() + 2,
        Value::Object(fields) => {
            let size = fields
                .iter_mut()
                .map(|(key, value)| key.len() + 4 + below(value))
                .sum::<usize>();
            if fields.contains_key(BLOB) || fields.contains_key(PLAIN) {
                let plain = std::mem::take(fields);
                fields.insert(PLAIN.to_owned(), Value::Object(plain));
            }
            size + 2
        }
        Value::Number(number) => number.to_string().len(),
        Value::Bool(_) | Value::Null => 5,
    }
}

/// Replaces a value by a reference. Returns the size of the reference.
fn replace(value: &mut Value, large: &mut Vec<Bytes>) -> usize {
    let text = Bytes::from(value.to_string());
    *value = json!({ BLOB: name_of(&text), "bytes": text.len() });
    large.push(text);
    REFERENCE
}

fn find(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Array(list) => list.iter().for_each(|value| find(value, names)),
        Value::Object(fields) => match (fields.get(BLOB), fields.get(PLAIN)) {
            (Some(Value::String(name)), _) => {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
            (_, Some(Value::Object(plain))) => plain.values().for_each(|value| find(value, names)),
            _ => fields.values().for_each(|value| find(value, names)),
        },
        _ => {}
    }
}

fn insert(value: &mut Value, name: &str, found: &Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(|value| insert(value, name, found)),
        Value::Object(fields) => {
            if fields.get(BLOB).is_some_and(|blob| blob == name) {
                *value = found.clone();
                return;
            }
            let fields = match fields.get_mut(PLAIN) {
                Some(Value::Object(plain)) => plain,
                _ => fields,
            };
            fields.values_mut().for_each(|value| insert(value, name, found));
        }
        _ => {}
    }
}

/// Removes the keys around objects that would have been taken for references.
fn restore(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(restore),
        Value::Object(fields) => {
            if let Some(Value::Object(plain)) = fields.remove(PLAIN) {
                *fields = plain;
            }
            fields.values_mut().for_each(restore);
        }
        _ => {}
    }
}

/// Returns the size of a value as JSON text, in bytes.
pub(crate) fn size_of(value: &Value) -> usize {
    let of_fields = |fields: &Map<String, Value>| {
        fields
            .iter()
            .map(|(key, value)| key.len() + 4 + size_of(value))
            .sum::<usize>()
    };
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(list) => list.iter().map(|value| size_of(value) + 1).sum::<usize>() + 2,
        Value::Object(fields) => of_fields(fields) + 2,
        Value::Number(number) => number.to_string().len(),
        Value::Bool(_) | Value::Null => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn there_and_back(value: Value) -> Packed {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::in_folder(folder.path()).unwrap();
        let packed = Packed::pack(&blobs, "r", &value, 32 * 1024).await.unwrap();
        assert!(packed.text().len() < 33 * 1024);
        let sent: Packed = serde_json::from_str(&serde_json::to_string(&packed).unwrap()).unwrap();
        assert_eq!(sent.unpack::<Value>(&blobs, "r").await.unwrap(), value);
        packed
    }

    #[tokio::test]
    async fn a_value_comes_back_as_it_was() {
        let long = "x".repeat(LARGE_VALUE);
        let half = "y".repeat(LARGE_VALUE / 2 + 100);
        let small = json!({ "a": [1, 2.5, null, true, "text"] });
        assert_eq!(there_and_back(small.clone()).await.text(), small.to_string());
        let large = there_and_back(json!({ "a": long, "b": 1, "again": long })).await;
        assert_eq!(large.root_blob(), None);
        let large: Value = serde_json::from_str(large.text()).unwrap();
        assert_eq!(
            (large["b"].clone(), large["a"]["bytes"].clone()),
            (json!(1), json!(LARGE_VALUE + 2))
        );
        // Two halves are too much for their list, and a list of lists for the whole.
        there_and_back(json!({ "list": [half, half, 3] })).await;
        let root = there_and_back(json!([half])).await;
        assert!(root.root_blob().is_some());
    }

    #[tokio::test]
    async fn a_value_of_a_user_is_not_taken_for_a_reference() {
        for value in [
            json!({ "$blob": "sha256:00" }),
            json!({ "a": { "$blob": "sha256:00", "bytes": 7 } }),
            json!({ "$plain": { "$blob": "sha256:00" } }),
            json!([{ "$plain": 7 }, { "$plain": { "$plain": {} } }]),
            json!({ "$plain": { "a": "x".repeat(LARGE_VALUE + 1) } }),
            json!("$blob"),
        ] {
            there_and_back(value).await;
        }
    }

    #[tokio::test]
    async fn a_lost_blob_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::in_folder(folder.path()).unwrap();
        let value = json!({ "a": "x".repeat(LARGE_VALUE) });
        let packed = Packed::pack(&blobs, "r", &value, usize::MAX).await.unwrap();
        let references: Value = serde_json::from_str(packed.text()).unwrap();
        let name = references["a"]["$blob"].as_str().unwrap();
        let file = folder.path().join("r/values").join(&name["sha256:".len()..]);
        let lost = async || match packed.unpack::<Value>(&blobs, "r").await {
            Err(UnpackError::Blob(lost)) => lost,
            other => panic!("{other:?}"),
        };
        std::fs::write(&file, r#""other""#).unwrap();
        let damaged = lost().await;
        assert!(
            damaged.to_string().contains(name) && damaged.is_lost(),
            "{damaged}"
        );
        std::fs::remove_file(&file).unwrap();
        let missing = lost().await;
        assert!(matches!(missing, BlobError::Missing { .. }), "{missing}");
    }
}
