//! `lock`: the comparison of a pipeline with its locked versions at build time, and the tables of these versions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use orchestra_graph::{
    Compatibility, LOCK_FILE, Limits, LoadOptions, Loaded, LockFile, LockedVersion, Pipeline, ReadError,
    load_bytes, normal_path, relative_path,
};
use proc_macro2::{Span, TokenStream};

use crate::children::Descendants;
use crate::code::Code;
use crate::invocation::{Declaration, Text};
use crate::reader::Reader;
use crate::text::{Origin, include, location_of};
use crate::{report, requirements, table};

/// The locked versions of a pipeline, and their comparison with the pipeline of today.
#[derive(Default)]
pub(crate) struct Locked {
    pub(crate) diagnostics: TokenStream,
    /// `true` if the module has `VERSIONS`, which is empty if there are errors.
    pub(crate) has_versions: bool,
    /// The versions that differ from the pipeline of today.
    versions: Vec<Version>,
    /// The number of the released version.
    latest: u32,
    /// The files that the result depends on, relative to the package.
    files: BTreeSet<String>,
}

/// A locked version.
struct Version {
    number: u32,
    hash: String,
    loaded: Loaded,
    pipeline: Pipeline,
    /// The pinned text of each file. The paths are relative to the package.
    pinned: BTreeMap<String, String>,
}

/// A lock file on disk.
struct Project<'r> {
    reader: &'r dyn Reader,
    manifest: PathBuf,
    /// The folder of the lock file.
    root: PathBuf,
    lock: LockFile,
}

/// Compares a pipeline with its locked versions.
pub(crate) fn check(
    declaration: &Declaration,
    loaded: &Loaded,
    origin: &Origin,
    reader: &dyn Reader,
) -> Locked {
    let mut locked = Locked::default();
    let Some(option) = &declaration.options.lock else {
        return locked;
    };
    locked.has_versions = true;
    let location = (option.span(), option.span());
    let Text::File(literal) = &declaration.text else {
        let message = "`lock` needs a pipeline in a file of its own";
        locked.diagnostics = report::error(message, location);
        return locked;
    };
    let (path, name, _) = location_of(literal, reader);
    if let Err(message) = locked.compare(&path, &name, loaded, origin, location, reader) {
        locked.diagnostics = report::error(&message, location);
        locked.versions.clear();
    }
    locked
}

impl Locked {
    fn compare(
        &mut self,
        path: &Path,
        name: &str,
        loaded: &Loaded,
        origin: &Origin,
        location: (Span, Span),
        reader: &dyn Reader,
    ) -> Result<(), String> {
        let project = Project::find(path, name, reader)?;
        self.files
            .insert(project.in_package(&project.root.join(LOCK_FILE)));
        let own = relative_path(path, &project.root);
        let Some(pipeline) = project.lock.pipeline(&own) else {
            return Err(format!(
                "`{name}` is not in `{LOCK_FILE}` [not_locked]\n  = help: `orchestra lock {own}` adds it"
            ));
        };
        let Some(today) = loaded.pipeline() else {
            // The errors of the pipeline come first.
            return Ok(());
        };
        let canonical = today.canonical();
        self.latest = pipeline.latest().map_or(0, |latest| latest.version);
        for version in &pipeline.versions {
            let old = project.load(name, path, version)?;
            self.files.extend(old.pinned.values().cloned());
            if old.number == self.latest
                && let Some(found) = Compatibility::between(&old.loaded, loaded)
            {
                for report in found.reports(&old.loaded, loaded, old.number) {
                    let is_own = report.source.name() == loaded.source.name();
                    let spans = |span| if is_own { origin.spans(span) } else { location };
                    self.diagnostics.extend(report::first(&report, location, spans));
                }
            }
            if old.pipeline.canonical() != canonical {
                self.versions.push(old);
            }
        }
        Ok(())
    }

    /// Returns the two versions of each file whose waiting runs go on with the pipeline of today.
    pub(crate) fn pairs<'l>(&'l self, today: &'l Loaded) -> Vec<(&'l Loaded, &'l Loaded)> {
        let latest = self.versions.iter().find(|version| version.number == self.latest);
        latest.map_or_else(Vec::new, |latest| Compatibility::pairs(&latest.loaded, today))
    }

    /// Returns the code of the modules of the versions, and of `VERSIONS`.
    pub(crate) fn write(&self) -> String {
        let mut code = Code::default();
        // Cargo rebuilds the program when one of these files changes.
        for file in &self.files {
            code.push("const _:&str=").push(&include(file)).push(";");
        }
        if !self.has_versions {
            return code.text;
        }
        code.doc("The locked versions that differ from the pipeline. A run that was started with one of them is resumed with it.");
        code.push("pub const VERSIONS:&'static[__orchestra::engine::CompiledVersion]=&[");
        for version in &self.versions {
            code.push("__orchestra::engine::CompiledVersion{number:")
                .show(version.number);
            code.push(",hash:")
                .string(&version.hash)
                .push(",pipeline:&__versions::v")
                .show(version.number)
                .push("::__table::TABLE},");
        }
        code.push("];mod __versions{");
        for version in &self.versions {
            version.write(&mut code);
        }
        code.push("}");
        code.text
    }

    /// Returns the paths of the requirements of the versions, which the handlers of today must meet too.
    pub(crate) fn requirements(&self) -> Vec<String> {
        let versions = self.versions.iter();
        versions
            .map(|version| format!("__versions::v{}::REQUIREMENTS", version.number))
            .collect()
    }

    /// Iterates over the tables of the versions and of their child pipelines.
    pub(crate) fn pipelines(&self) -> impl Iterator<Item = &Pipeline> {
        self.versions.iter().flat_map(|version| version.pipeline.family())
    }
}

impl<'r> Project<'r> {
    /// Finds the lock file in the folder of a pipeline or above.
    fn find(path: &Path, name: &str, reader: &'r dyn Reader) -> Result<Project<'r>, String> {
        let limit = Limits::default().bytes as u64;
        for root in path.ancestors().skip(1) {
            let bytes = match reader.read(&root.join(LOCK_FILE), limit) {
                Ok(bytes) => bytes,
                Err(ReadError::Missing) => continue,
                Err(error) => return Err(format!("`{LOCK_FILE}` cannot be read: {error:?}")),
            };
            let manifest = reader.manifest();
            let shown = relative_path(&root.join(LOCK_FILE), &manifest);
            let lock = LockFile::parse(&String::from_utf8_lossy(&bytes)).map_err(|error| {
                format!(
                    "{} [lock_damaged]\n --> {shown}:{}:{}\n  = help: restore the file from version control",
                    error.message, error.line, error.column
                )
            })?;
            return Ok(Project {
                reader,
                manifest,
                root: root.to_owned(),
                lock,
            });
        }
        Err(format!(
            "there is no `{LOCK_FILE}` in the folder of `{name}` or above [no_lock]\n  = help: `orchestra lock {name}` writes it"
        ))
    }

    /// Returns a path relative to the package.
    fn in_package(&self, path: &Path) -> String {
        relative_path(path, &self.manifest)
    }

    /// Loads a locked version under the name of the pipeline of today.
    fn load(&self, name: &str, path: &Path, version: &LockedVersion) -> Result<Version, String> {
        let file = |path: &Path| version.files.get(&relative_path(path, &self.root));
        let read = |path: &Path, limit: u64| match file(path) {
            Some(pinned) => self.reader.read(&normal_path(&self.root.join(pinned)), limit),
            None => Err(ReadError::Missing),
        };
        let children = |path: &str, limit: u64| read(&normal_path(&self.manifest.join(path)), limit);
        let options = LoadOptions {
            children: Some(&children),
            ..LoadOptions::default()
        };
        let number = version.version;
        let damaged = |why: &str| {
            format!(
                "version {number} of `{name}` {why} [lock_damaged]\n  = help: restore `orchestra.lock.d` from version control, or retire \
                 the version"
            )
        };
        let bytes = read(path, options.limits.bytes as u64).map_err(|_| damaged("has no text"))?;
        let loaded = load_bytes(name, &bytes, &options);
        let Some(pipeline) = loaded.pipeline() else {
            return Err(damaged("is not valid any more"));
        };
        let pinned = version.files.iter().map(|(file, pinned)| {
            let [file, pinned] =
                [file, pinned].map(|path| self.in_package(&normal_path(&self.root.join(path))));
            (file, pinned)
        });
        Ok(Version {
            number,
            hash: version.hash.clone(),
            pinned: pinned.collect(),
            loaded,
            pipeline,
        })
    }
}

impl Version {
    /// Writes the module of the version.
    fn write(&self, code: &mut Code) {
        let pinned = |file: &str| self.pinned.get(file).cloned().unwrap_or_else(|| file.to_owned());
        let descendants = Descendants::new(&self.loaded);
        code.push("pub mod v")
            .show(self.number)
            .push("{use super::super::__orchestra;");
        let source = include(&pinned(self.loaded.source.name()));
        code.push("pub const SOURCE:&str=").push(&source).push(";");
        code.push("pub const REQUIREMENTS:__orchestra::engine::PipelineRequirements<'static>=");
        // A violation is shown in the text of the version.
        let mut shown = self.pipeline.clone();
        shown.file = pinned(self.loaded.source.name()).into();
        let analysis = self.loaded.analysis();
        code.push(&requirements::write(
            &shown,
            &analysis,
            0,
            &descendants.requirements(),
        ))
        .push(";pub ");
        let tables = descendants.tables(&self.loaded, "super::__children::");
        table::write(code, &self.pipeline, &tables);
        code.push(&descendants.write_as(&pinned));
        code.push("}");
    }
}
