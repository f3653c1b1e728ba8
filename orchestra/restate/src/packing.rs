//! Large values, which are replaced by references to blobs in what the durable engine stores and sends.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::blobs::{BlobError, Blobs, name_of};

/// The key of a reference to a blob.
const BLOB: &str = "$blob";
/// The key around an object that would be taken for a reference.
const PLAIN: &str = "$plain";

/// The size in bytes above which a value becomes a blob.
pub(crate) const LARGE_VALUE: usize = 64 * 1024;

/// Replaces all values of more than [`LARGE_VALUE`] by references, and the whole by one if it is still larger than
/// `limit`.
pub(crate) async fn pack(
    blobs: &Blobs,
    run: &str,
    mut value: Value,
    limit: usize,
) -> Result<Value, BlobError> {
    let mut large = Vec::new();
    let size = extract(&mut value, &mut large);
    if size > limit {
        replace(&mut value, &mut large);
    }
    for value in large {
        blobs.put(run, value).await?;
    }
    Ok(value)
}

/// Puts the values back in the place of their references.
pub(crate) async fn unpack(blobs: &Blobs, run: &str, mut value: Value) -> Result<Value, BlobError> {
    loop {
        let mut names = Vec::new();
        find(&value, &mut names);
        if names.is_empty() {
            restore(&mut value);
            return Ok(value);
        }
        for name in names {
            let stored = blobs.get(run, &name).await?;
            let found = serde_json::from_slice(&stored).map_err(|_| BlobError::Damaged {
                run: run.to_owned(),
                name: name.clone(),
            })?;
            insert(&mut value, &name, &found);
        }
    }
}

/// Returns the name of the blob if the whole is a reference.
pub(crate) fn root_blob(value: &Value) -> Option<&str> {
    value.get(BLOB)?.as_str()
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
    100
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

    async fn there_and_back(value: Value) -> Value {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::in_folder(folder.path()).unwrap();
        let packed = pack(&blobs, "r", value.clone(), 32 * 1024).await.unwrap();
        assert!(packed.to_string().len() < 33 * 1024);
        assert_eq!(unpack(&blobs, "r", packed.clone()).await.unwrap(), value);
        packed
    }

    #[tokio::test]
    async fn a_value_comes_back_as_it_was() {
        let long = "x".repeat(LARGE_VALUE);
        let half = "y".repeat(LARGE_VALUE / 2 + 100);
        let small = json!({ "a": [1, 2.5, null, true, "text"] });
        assert_eq!(there_and_back(small.clone()).await, small);
        let large = there_and_back(json!({ "a": long, "b": 1, "again": long })).await;
        assert!(root_blob(&large["a"]).is_some());
        assert_eq!(large["b"], 1);
        // Two halves are too much for their list, and a list of lists for the whole.
        there_and_back(json!({ "list": [half, half, 3] })).await;
        let root = there_and_back(json!([half])).await;
        assert!(root_blob(&root).is_some());
    }

    #[tokio::test]
    async fn a_value_of_a_user_is_not_taken_for_a_reference() {
        for value in [
            json!({ "$blob": "sha256:00" }),
            json!({ "a": { "$blob": "sha256:00", "bytes": 7 } }),
            json!({ "$plain": { "$blob": "sha256:00" } }),
            json!([{ "$plain": 7 }, { "$plain": { "$plain": {} } }]),
            json!({ "$plain": { "a": "x".repeat(LARGE_VALUE + 1) } }),
        ] {
            there_and_back(value).await;
        }
    }

    #[tokio::test]
    async fn a_lost_blob_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::in_folder(folder.path()).unwrap();
        let value = json!({ "a": "x".repeat(LARGE_VALUE) });
        let packed = pack(&blobs, "r", value, usize::MAX).await.unwrap();
        let name = root_blob(&packed["a"]).unwrap();
        let file = folder.path().join("r/values").join(&name["sha256:".len()..]);
        std::fs::write(&file, r#""other""#).unwrap();
        let damaged = unpack(&blobs, "r", packed.clone()).await.unwrap_err();
        assert!(
            damaged.to_string().contains(name) && damaged.is_lost(),
            "{damaged}"
        );
        std::fs::remove_file(&file).unwrap();
        let missing = unpack(&blobs, "r", packed.clone()).await.unwrap_err();
        assert!(matches!(missing, BlobError::Missing { .. }), "{missing}");
    }
}
