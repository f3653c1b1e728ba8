//! Tools on a real crate: build, test, package, and a handler of the program that records the package.
//!
//! `cargo run -p release_check -- run release_check`

use std::path::PathBuf;

use orchestra::prelude::*;

/// The attributes of every `release.record` node. If one is missing, the build fails.
#[derive(Attributes)]
struct RecordAttributes {
    /// The folder with the package.
    packages: String,
    /// The maximum size of a package in KiB.
    max_kib: u64,
}

/// The outcomes of `release.record`. Edges of the pipeline may test these and no others.
#[derive(Outcome)]
enum Recorded {
    Success,
    TooLarge,
}

#[derive(Debug, thiserror::Error)]
enum RecordError {
    #[error("cannot read the folder `{0}`")]
    Folder(PathBuf, #[source] std::io::Error),
    #[error("there is no package in `{0}`")]
    Nothing(PathBuf),
}

/// Finds the newest package and compares its size with the limit.
#[orchestra::handler("release.record")]
async fn record(attributes: RecordAttributes, stage: StageContext) -> Result<Recorded, RecordError> {
    let folder = PathBuf::from(&attributes.packages);
    let unreadable = |error| RecordError::Folder(folder.clone(), error);
    let mut newest = None;
    for entry in std::fs::read_dir(&folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if entry.path().extension().is_some_and(|ending| ending == "crate") {
            let file = entry.metadata().map_err(unreadable)?;
            newest = newest.max(Some((
                file.modified().map_err(unreadable)?,
                file.len(),
                entry.file_name(),
            )));
        }
    }
    let Some((_, bytes, name)) = newest else {
        return Err(RecordError::Nothing(folder));
    };
    stage.log(format!(
        "{} has {bytes} bytes; the limit is {} KiB",
        name.to_string_lossy(),
        attributes.max_kib
    ));
    Ok(if bytes > attributes.max_kib * 1024 {
        Recorded::TooLarge
    } else {
        Recorded::Success
    })
}

orchestra::pipeline! {
    /// Checks whether the crate beside this file is ready for a release.
    pub mod release_check = "release_check.dot", handlers = record;
}

orchestra::main!(release_check);

#[cfg(test)]
mod tests;
