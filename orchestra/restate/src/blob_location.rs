//! The store of blobs at a location that a person names.

use std::path::Path;

use crate::blobs::{BlobError, Blobs};

impl Blobs {
    /// Opens the store at a location: a folder, or with the feature `restate-s3` a bucket, as in `s3://bucket/prefix`. The
    /// credentials, the region and other settings of a bucket are those of the usual variables, such as
    /// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION` and `AWS_ENDPOINT`.
    ///
    /// ```
    /// use orchestra_restate::Blobs;
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let folder = folder.path().join("blobs");
    /// # let folder = folder.to_str().expect("plain text");
    /// assert!(Blobs::open(folder).is_ok());
    /// let error = Blobs::open("ftp://bucket").unwrap_err();
    /// assert_eq!(error.to_string(), "`ftp://bucket` cannot be the store of blobs: only folders and `s3://` are supported");
    /// ```
    ///
    /// # Errors
    /// The folder cannot be created or read, the location has another form, or the settings of the bucket are not valid.
    pub fn open(location: &str) -> Result<Blobs, BlobError> {
        let Some((scheme, rest)) = location.split_once("://") else {
            return Blobs::in_folder(Path::new(location));
        };
        let unsupported = |reason: String| BlobError::Location {
            location: location.to_owned(),
            reason,
        };
        if scheme != "s3" {
            return Err(unsupported("only folders and `s3://` are supported".to_owned()));
        }
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(unsupported("it names no bucket".to_owned()));
        }
        in_bucket(bucket, prefix).map_err(unsupported)
    }
}

#[cfg(feature = "restate-s3")]
fn in_bucket(bucket: &str, prefix: &str) -> Result<Blobs, String> {
    use std::sync::Arc;

    use object_store::aws::AmazonS3Builder;
    use object_store::path::Path as BlobPath;
    use object_store::prefix::PrefixStore;

    // The client of the store uses the same cryptography as all others of the process.
    drop(rustls::crypto::ring::default_provider().install_default());
    let prefix = BlobPath::parse(prefix).map_err(|error| error.to_string())?;
    let store = AmazonS3Builder::from_env().with_bucket_name(bucket).build();
    let store = store.map_err(|error| error.to_string())?;
    Ok(Blobs::in_store(Arc::new(PrefixStore::new(store, prefix))))
}

#[cfg(not(feature = "restate-s3"))]
fn in_bucket(_bucket: &str, _prefix: &str) -> Result<Blobs, String> {
    Err("this program was built without the feature `restate-s3`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(location: &str) -> String {
        match Blobs::open(location) {
            Err(BlobError::Location { reason, .. }) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_location_without_a_bucket_is_refused() {
        assert_eq!(reason("s3://"), "it names no bucket");
        assert_eq!(reason("s3:///runs"), "it names no bucket");
        assert_eq!(reason("gs://runs"), "only folders and `s3://` are supported");
    }

    #[cfg(not(feature = "restate-s3"))]
    #[test]
    fn the_feature_is_named() {
        assert_eq!(
            reason("s3://bucket/runs"),
            "this program was built without the feature `restate-s3`"
        );
    }

    #[cfg(feature = "restate-s3")]
    #[test]
    fn a_bucket_is_not_reached_before_it_is_needed() {
        for location in ["s3://bucket", "s3://bucket/", "s3://bucket/runs/of/all"] {
            assert!(Blobs::open(location).is_ok(), "{location}");
        }
        assert!(reason("s3://bucket/a//b").contains("a//b"));
    }
}
