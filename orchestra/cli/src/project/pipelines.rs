//! The source of a pipeline that the command line names: a file, or the program itself.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use orchestra_engine::{Disk, Entry};
use orchestra_graph::{
    ChildReader, LoadOptions, Loaded, Pipeline, ReadError, ShapeFallback, Source, Transform, did_you_mean,
    load, load_bytes,
};
use orchestra_stations::VersionName;

use crate::args::Lints;
use crate::error::CliError;
use crate::project::pages::pages;
use crate::project::workflows;

/// The pipelines that are compiled into the program.
#[derive(Clone)]
pub(crate) struct Pipelines {
    pub(crate) entries: Vec<Entry>,
}

impl Pipelines {
    /// Returns the compiled pipeline with this name.
    pub(crate) fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name() == name)
    }

    /// Returns the compiled pipeline with which a run was started.
    pub(crate) fn entry_of(&self, name: &str, file: &str) -> Option<&Entry> {
        let is = |entry: &&Entry| entry.pipeline().name == *name && *entry.pipeline().file == *file;
        self.entries.iter().find(is)
    }

    /// Loads and checks a pipeline by its file name, or by the name of a compiled pipeline. Accepts node types of any
    /// handler.
    pub(crate) fn load(&self, name: &str, lints: &Lints) -> Result<Loaded, CliError> {
        self.load_with(name, lints, LoadOptions::default())
    }

    /// Like [`load`](Pipelines::load), for a pipeline that this program runs: a file must not use types of custom
    /// handlers.
    pub(crate) fn load_to_run(&self, name: &str, lints: &Lints) -> Result<Loaded, CliError> {
        self.load_transformed(name, lints, run_transforms())
    }

    /// Like [`load_to_run`](Pipelines::load_to_run), for a check: types without a handler in this program are notes.
    pub(crate) fn load_to_check(&self, name: &str, lints: &Lints) -> Result<Loaded, CliError> {
        self.load_transformed(name, lints, check_transforms())
    }

    fn load_transformed(
        &self,
        name: &str,
        lints: &Lints,
        transforms: Vec<Arc<dyn Transform>>,
    ) -> Result<Loaded, CliError> {
        let options = LoadOptions {
            // A compiled pipeline was checked against its handlers when the program was built.
            transforms: self.entry(name).map_or(transforms, |_| Vec::new()),
            ..LoadOptions::default()
        };
        self.load_with(name, lints, options)
    }

    fn load_with(&self, name: &str, lints: &Lints, options: LoadOptions<'_>) -> Result<Loaded, CliError> {
        let pages = pages();
        let known = pages.iter().map(|page| page.code);
        for code in lints.deny.iter().chain(&lints.allow) {
            if code != "warnings" && !known.clone().any(|rule| rule == code) {
                let error = CliError::usage("unknown_code", format!("unknown diagnostic `{code}`"));
                return Err(match did_you_mean(code, known) {
                    Some(near) => error.help(format!("did you mean `{near}`?")),
                    None => error.help("`orchestra explain` lists all codes"),
                });
            }
        }
        let entry: Option<&Pipeline> = self.entry(name).map(|entry| &**entry.pipeline());
        let compiled = Compiled::new(entry);
        let children: &dyn ChildReader = if entry.is_some() { &compiled } else { &Disk };
        let options = LoadOptions {
            deny: lints.deny.clone(),
            allow: lints.allow.clone(),
            children: Some(children),
            ..options
        };
        if let Some(pipeline) = entry {
            return Ok(load(
                Source::new(pipeline.file.as_ref(), pipeline.source.as_ref()),
                &options,
            ));
        }
        if let Some(version) = VersionName::parse_file(name) {
            return workflows::load(&version?, &options);
        }
        let shown = name.replace('\\', "/");
        // Reading one byte more than the limit lets the parser report the oversized file with a position.
        match Disk::read_at_most(name, options.limits.bytes as u64 + 1) {
            Ok(bytes) => Ok(load_bytes(&shown, &bytes, &options)),
            Err(error) => Err(self.unreadable(name, &error)),
        }
    }

    fn unreadable(&self, name: &str, error: &io::Error) -> CliError {
        let error = CliError::usage("unreadable_file", format!("cannot read `{name}`: {error}"));
        let names: Vec<&str> = self.entries.iter().map(Entry::name).collect();
        if let Some(near) = did_you_mean(name, names.iter().copied()) {
            return error.help(format!("did you mean the compiled pipeline `{near}`?"));
        }
        if !names.is_empty() {
            return error.help(format!("the compiled pipelines are {}", names.join(", ")));
        }
        let path = Path::new(name);
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let siblings: Vec<String> = fs::read_dir(folder)
            .map(|entries| {
                entries
                    .flatten()
                    .map(|entry| entry.file_name().to_string_lossy().into_owned())
                    .collect()
            })
            .unwrap_or_default();
        let file = path
            .file_name()
            .map(|file| file.to_string_lossy().into_owned())
            .unwrap_or_default();
        match did_you_mean(&file, siblings.iter().map(String::as_str)) {
            Some(near) => error.help(format!("did you mean `{}`?", folder.join(near).display())),
            None => error,
        }
    }
}

/// Returns the transforms for loading a file to run it. This program has no handlers for custom types.
pub(crate) fn run_transforms() -> Vec<Arc<dyn Transform>> {
    vec![Arc::new(ShapeFallback::default())]
}

/// Returns the transforms for loading a file to check it. Another program may have handlers for its types.
fn check_transforms() -> Vec<Arc<dyn Transform>> {
    vec![Arc::new(ShapeFallback::default().noted())]
}

/// Reads the child pipelines of a compiled pipeline, which are compiled into the program too.
struct Compiled<'p>(HashMap<String, &'p str>);

impl<'p> Compiled<'p> {
    fn new(pipeline: Option<&'p Pipeline>) -> Compiled<'p> {
        let mut texts = HashMap::new();
        let mut unread: Vec<&Pipeline> = pipeline.into_iter().collect();
        while let Some(pipeline) = unread.pop() {
            if texts
                .insert(pipeline.file.to_string(), &*pipeline.source)
                .is_none()
            {
                unread.extend(pipeline.children.iter().map(|child| &*child.pipeline));
            }
        }
        Compiled(texts)
    }
}

impl ChildReader for Compiled<'_> {
    fn read(&self, path: &str, _: u64) -> Result<Vec<u8>, ReadError> {
        let text = self.0.get(path).ok_or(ReadError::Missing)?;
        Ok(text.as_bytes().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use orchestra_engine::{Binding, SharedPipeline};

    use super::*;

    static RELEASE: LazyLock<Pipeline> = LazyLock::new(|| {
        let node = |file: &str| {
            format!(
                "digraph {{ start -> a -> exit; a [shape=folder, label=A, subpipeline.file=\"{file}\"] }}"
            )
        };
        let files = |path: &str, _: u64| match path {
            "flows/parts/lint.dot" => Ok(node("../check.dot").into_bytes()),
            "flows/check.dot" => Ok(b"digraph check { start -> exit }".to_vec()),
            _ => Err(ReadError::Missing),
        };
        let options = LoadOptions {
            children: Some(&files),
            ..LoadOptions::default()
        };
        let release = Source::new("flows/release.dot", node("parts/lint.dot"));
        load(release, &options).pipeline().expect("sound")
    });

    #[derive(Clone)]
    struct Release;

    impl Binding<()> for Release {
        fn into_pipeline(self) -> SharedPipeline {
            SharedPipeline::Static(&RELEASE)
        }
    }

    #[test]
    fn the_children_of_a_compiled_pipeline_are_read_from_the_program() {
        let pipelines = Pipelines {
            entries: vec![Entry::with_default("release", Release)],
        };
        let loaded = pipelines.load("release", &Lints::default()).expect("it is there");
        let files: Vec<&str> = loaded.reports().map(|report| report.source.name()).collect();
        assert_eq!(
            files,
            ["flows/release.dot", "flows/parts/lint.dot", "flows/check.dot"]
        );
        let pipeline = loaded.pipeline().expect("sound");
        assert_eq!(pipeline.children[0].pipeline.children[0].pipeline.name, "check");
    }
}
