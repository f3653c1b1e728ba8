//! The lock file of a project and the texts that it pins, on disk.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orchestra_config::CONFIGURATION_FILE;
use orchestra_engine::{Disk, PinnedSource};
use orchestra_graph::{
    ChildReader, Compatibility, LOCK_FILE, LoadOptions, Loaded, LockFile, LockedVersion, Pipeline, ReadError,
    Report, Transform, load_bytes, plain_path, relative_path,
};

use crate::error::{CliError, Exit};
use crate::project::agents::ProjectAgents;
use crate::project::files::{unwritable, write_file};
use crate::project::pipelines::run_transforms;
use crate::project::root::find_above;
use crate::terminal::Terminal;

/// The folder of the pinned texts, beside the lock file.
const FOLDER: &str = "orchestra.lock.d";

/// The lock file of a project.
pub(crate) struct ProjectLock {
    /// The folder of the lock file, as the current directory sees it; empty for the current directory.
    root: String,
    /// `true` if the file exists.
    pub(crate) exists: bool,
    pub(crate) lock: LockFile,
}

/// A pipeline as it is today.
pub(crate) struct TodayPipeline {
    pub(crate) loaded: Loaded,
    /// The texts of all files that were read, by their paths relative to the lock file.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

impl ProjectLock {
    /// Finds the lock file of a pipeline: in its folder, or in a parent folder. A new one belongs
    /// beside `orchestra.yaml`, else in the current directory.
    ///
    /// # Errors
    /// The lock file cannot be read.
    pub(crate) fn find(file: Option<&str>) -> Result<ProjectLock, CliError> {
        let found = find_above(file.unwrap_or_default(), LOCK_FILE);
        let beside = || find_above(file.unwrap_or_default(), CONFIGURATION_FILE);
        let exists = found.is_some();
        let root = match found.or_else(beside) {
            Some(path) => path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned(),
            None => String::new(),
        };
        let mut project = ProjectLock {
            root,
            exists,
            lock: LockFile::default(),
        };
        if exists {
            let path = project.path();
            let text = fs::read_to_string(&path).map_err(|error| unreadable(&path, &error.to_string()))?;
            project.lock =
                LockFile::parse(&text).map_err(|error| damaged(format!("invalid {path}:{error}")))?;
        }
        Ok(project)
    }

    /// Returns the path of the lock file.
    pub(crate) fn path(&self) -> String {
        self.file(LOCK_FILE)
    }

    /// Returns the path of a file by its path relative to the lock file.
    pub(crate) fn file(&self, name: &str) -> String {
        if self.root.is_empty() {
            name.to_owned()
        } else {
            plain_path(&format!("{}/{name}", self.root))
        }
    }

    /// Returns the path of a file relative to the lock file.
    pub(crate) fn name(&self, file: &str) -> String {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        relative_path(&absolute(Path::new(file)), &absolute(Path::new(&self.file("."))))
    }

    /// Loads a pipeline as it is today. It may have errors.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn load_today(&self, name: &str) -> Result<TodayPipeline, CliError> {
        self.load_today_with(name, &[])
    }

    /// Like [`load_today`](ProjectLock::load_today), with transforms.
    pub(crate) fn load_today_with(
        &self,
        name: &str,
        transforms: &[Arc<dyn Transform>],
    ) -> Result<TodayPipeline, CliError> {
        let file = self.file(name);
        let read = RefCell::new(BTreeMap::new());
        let recorder = |path: &str, limit: u64| {
            let bytes = Disk.read(path, limit)?;
            read.borrow_mut().insert(self.name(path), bytes.clone());
            Ok(bytes)
        };
        let options = LoadOptions {
            children: Some(&recorder),
            transforms: transforms.to_vec(),
            ..LoadOptions::default()
        };
        let bytes = Disk::read_at_most(&file, options.limits.bytes as u64 + 1).map_err(|error| {
            unreadable(&file, &error.to_string())
                .help("if the pipeline no longer exists, `orchestra lock --retire VERSION FILE` unlocks it")
        })?;
        let loaded = load_bytes(&file, &bytes, &options);
        let mut files = read.take();
        files.insert(name.to_owned(), bytes);
        Ok(TodayPipeline { loaded, files })
    }

    /// Loads a locked version from its pinned texts.
    ///
    /// # Errors
    /// The texts are missing, changed, or not valid any more.
    pub(crate) fn load_version(
        &self,
        name: &str,
        version: &LockedVersion,
        transforms: &[Arc<dyn Transform>],
    ) -> Result<Loaded, CliError> {
        let read = |path: &str, limit: u64| {
            let pinned = version.files.get(&self.name(path));
            Disk.read(&self.file(pinned.ok_or(ReadError::Missing)?), limit)
        };
        let options = LoadOptions {
            children: Some(&read),
            transforms: transforms.to_vec(),
            ..LoadOptions::default()
        };
        let file = self.file(name);
        let number = version.version;
        let bytes = read(&file, options.limits.bytes as u64).map_err(|_| {
            damaged(format!(
                "the text of version {number} of `{name}` is missing in `{FOLDER}`"
            ))
        })?;
        Ok(load_bytes(&file, &bytes, &options))
    }

    /// Like [`load_version`](ProjectLock::load_version), and verifies that the texts are those that were locked.
    pub(crate) fn verified_version(&self, name: &str, version: &LockedVersion) -> Result<Loaded, CliError> {
        let loaded = self.load_version(name, version, &[])?;
        let number = version.version;
        let Some(pipeline) = loaded.pipeline() else {
            let error = loaded.reports().flat_map(|report| report.errors().next()).next();
            let error = error.map_or_else(String::new, |error| format!(": {}", error.message));
            return Err(damaged(format!(
                "version {number} of `{name}` is not valid any more{error}"
            )));
        };
        if PinnedSource::from_pipeline(&pipeline).hash != version.hash {
            return Err(damaged(format!(
                "the text of version {number} of `{name}` in `{FOLDER}` was changed"
            )));
        }
        Ok(loaded)
    }

    /// Returns the errors for the waiting runs of a locked version, also in the templates of the project.
    pub(crate) fn reports(
        found: &Compatibility,
        locked: &Loaded,
        today: &Loaded,
        version: u32,
        config: Option<&Path>,
        terminal: &Terminal,
    ) -> Result<Vec<Report>, CliError> {
        let mut reports = found.reports(locked, today, version);
        let agents = ProjectAgents::find(config, today.source.name(), None, terminal)?;
        for (locked, today) in Compatibility::pairs(locked, today) {
            reports.extend(agents.resumed_reads(locked, today));
        }
        Ok(reports)
    }

    /// Returns the hashes that runs of a locked version have: in a program with handlers for its types, and in this one.
    pub(crate) fn hashes(&self, name: &str, version: &LockedVersion) -> Result<Vec<String>, CliError> {
        let here = self.load_version(name, version, &run_transforms())?;
        let here = here
            .pipeline()
            .map(|pipeline| PinnedSource::from_pipeline(&pipeline).hash);
        Ok(std::iter::once(version.hash.clone()).chain(here).collect())
    }

    /// Returns the number of the version that is kept beside the released one for the runs with a hash.
    pub(crate) fn kept_version(&self, name: &str, hash: &str) -> Result<Option<u32>, CliError> {
        let versions = self.lock.pipeline(name).map(|locked| locked.versions.as_slice());
        for version in versions.unwrap_or_default().iter().rev().skip(1) {
            if self.hashes(name, version)?.iter().any(|known| known == hash) {
                return Ok(Some(version.version));
            }
        }
        Ok(None)
    }

    /// Returns a new version of a pipeline as it is today, and the texts to pin.
    pub(crate) fn new_version(
        name: &str,
        number: u32,
        pipeline: &Pipeline,
        files: &BTreeMap<String, Vec<u8>>,
    ) -> (LockedVersion, BTreeMap<String, Vec<u8>>) {
        let base = format!("{FOLDER}/{}-{number}", pinned_name(name.trim_end_matches(".dot")));
        let mut version = LockedVersion {
            version: number,
            hash: PinnedSource::from_pipeline(pipeline).hash,
            ..LockedVersion::default()
        }
        .with_contract(pipeline);
        let mut texts = BTreeMap::new();
        for (file, bytes) in files {
            let pinned = if file == name {
                format!("{base}.dot")
            } else {
                format!("{base}/{}", pinned_name(file))
            };
            texts.insert(pinned.clone(), bytes.clone());
            version.files.insert(file.clone(), pinned);
        }
        (version, texts)
    }

    /// Writes the pinned texts, then the lock file, and then removes the texts that no version needs any more.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn save(&self, texts: &BTreeMap<String, Vec<u8>>, before: &LockFile) -> Result<(), CliError> {
        for (pinned, bytes) in texts {
            self.write(pinned, bytes)?;
        }
        if self.lock.pipelines.is_empty() {
            let path = self.path();
            fs::remove_file(&path).map_err(|error| unwritable(Path::new(&path), &error))?;
        } else {
            self.write(LOCK_FILE, self.lock.to_string().as_bytes())?;
        }
        let needed = pinned_texts(&self.lock);
        for pinned in pinned_texts(before).difference(&needed) {
            let path = PathBuf::from(self.file(pinned));
            // A text that is gone already is not needed either.
            if fs::remove_file(&path).is_ok() {
                for folder in path.ancestors().skip(1) {
                    let is_inside = folder.components().any(|part| part.as_os_str() == FOLDER);
                    if !is_inside || fs::remove_dir(folder).is_err() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), CliError> {
        let path = self.file(name);
        if let Some(folder) = Path::new(&path).parent() {
            fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
        }
        write_file(Path::new(&path), bytes)
    }
}

/// Returns the paths of all pinned texts of a lock file.
fn pinned_texts(lock: &LockFile) -> BTreeSet<String> {
    let versions = lock.pipelines.iter().flat_map(|pipeline| &pipeline.versions);
    versions
        .flat_map(|version| version.files.values().cloned())
        .collect()
}

/// Returns the path of a file inside the folder of pinned texts. A file outside of the project cannot leave it.
fn pinned_name(name: &str) -> String {
    let parts = name.split('/').filter(|part| !part.is_empty());
    let parts: Vec<&str> = parts.map(|part| if part == ".." { "__" } else { part }).collect();
    parts.join("/")
}

fn damaged(message: String) -> CliError {
    CliError::usage("lock_damaged", message)
        .exit(Exit::Invalid)
        .help("restore the file from version control, or retire the version")
}

fn unreadable(path: &str, error: &str) -> CliError {
    CliError::usage("unreadable_file", format!("cannot read `{path}`: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_text_stays_inside_of_its_folder() {
        assert_eq!(pinned_name("../shared/a.dot"), "__/shared/a.dot");
    }
}
