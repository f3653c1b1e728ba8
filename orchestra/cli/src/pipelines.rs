//! Where a pipeline named on the command line comes from: a file, or the program itself.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use orchestra_engine::Disk;
use orchestra_graph::{
    ChildReader, LoadOptions, Loaded, Pipeline, ReadFault, Report, Source, Transform, did_you_mean, load,
    load_bytes,
};

use crate::Entry;
use crate::args::{Format, Lints};
use crate::commands::pages;
use crate::entry::{noted_transforms, transforms};
use crate::error::CliError;
use crate::terminal::Terminal;

/// The pipelines compiled into the program.
pub(crate) struct Pipelines {
    pub(crate) entries: Vec<Entry>,
}

impl Pipelines {
    /// The compiled pipeline of that name.
    pub(crate) fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name() == name)
    }

    /// The compiled pipeline with which a run was begun.
    pub(crate) fn entry_of(&self, name: &str, file: &str) -> Option<&Entry> {
        let is = |entry: &&Entry| entry.pipeline().name == *name && *entry.pipeline().file == *file;
        self.entries.iter().find(is)
    }

    /// Loads and checks a pipeline by the name of its file, or by its own name. Its handlers may be anybody's.
    pub(crate) fn load(&self, name: &str, lints: &Lints) -> Result<Loaded, CliError> {
        self.load_with(name, lints, LoadOptions::default())
    }

    /// Like [`load`](Pipelines::load), to be run here: this program has no handlers for types of files.
    pub(crate) fn load_to_run(&self, name: &str, lints: &Lints) -> Result<Loaded, CliError> {
        self.load_transformed(name, lints, transforms())
    }

    /// Like [`load_to_run`](Pipelines::load_to_run), for a check: types without a handler here are notes.
    pub(crate) fn load_to_check(&self, name: &str, lints: &Lints) -> Result<Loaded, CliError> {
        self.load_transformed(name, lints, noted_transforms())
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
                let error = CliError::usage("unknown_code", format!("there is no diagnostic `{code}`"));
                return Err(match did_you_mean(code, known) {
                    Some(near) => error.help(format!("did you mean `{near}`?")),
                    None => error.help("`orchestra explain` lists all codes"),
                });
            }
        }
        let entry = self.entry(name).map(Entry::pipeline);
        let compiled = Compiled::of(entry);
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
        let shown = name.replace('\\', "/");
        // One byte more than is read says that there is more; where, the parser does.
        match Disk::read_at_most(name, options.limits.bytes as u64 + 1) {
            Ok(bytes) => Ok(load_bytes(&shown, &bytes, &options)),
            Err(error) => Err(self.unreadable(name, &error)),
        }
    }

    fn unreadable(&self, name: &str, error: &io::Error) -> CliError {
        let fault = CliError::usage("unreadable_file", format!("cannot read `{name}`: {error}"));
        let names: Vec<&str> = self.entries.iter().map(Entry::name).collect();
        if let Some(near) = did_you_mean(name, names.iter().copied()) {
            return fault.help(format!("did you mean the compiled pipeline `{near}`?"));
        }
        if !names.is_empty() {
            return fault.help(format!("the compiled pipelines are {}", names.join(", ")));
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
            Some(near) => fault.help(format!("did you mean `{}`?", folder.join(near).display())),
            None => fault,
        }
    }
}

/// Reads the children of a compiled pipeline, which are compiled into the program with it.
struct Compiled(HashMap<String, &'static str>);

impl Compiled {
    fn of(pipeline: Option<&'static Pipeline>) -> Compiled {
        let mut texts = HashMap::new();
        let mut ahead: Vec<&'static Pipeline> = pipeline.into_iter().collect();
        while let Some(pipeline) = ahead.pop() {
            if texts
                .insert(pipeline.file.to_string(), &*pipeline.source)
                .is_none()
            {
                ahead.extend(pipeline.children.iter().map(|child| &*child.pipeline));
            }
        }
        Compiled(texts)
    }
}

impl ChildReader for Compiled {
    fn read(&self, path: &str, _: u64) -> Result<Vec<u8>, ReadFault> {
        let text = self.0.get(path).ok_or(ReadFault::Missing)?;
        Ok(text.as_bytes().to_vec())
    }
}

/// Prints the diagnostics of a pipeline and of its children in a format.
pub(crate) fn print_reports(terminal: &Terminal, loaded: &Loaded, format: Format) {
    for report in loaded.reports() {
        print_report(terminal, report, format);
    }
}

/// Prints diagnostics in a format.
pub(crate) fn print_report(terminal: &Terminal, report: &Report, format: Format) {
    if report.diagnostics.is_empty() {
        return;
    }
    match format {
        Format::Json => {
            for line in orchestra_graph::render::json(report).lines() {
                terminal.json_line(line);
            }
        }
        Format::Concise => terminal.say(orchestra_graph::render::concise(report).trim_end()),
        Format::Text => {
            let style = match terminal.color {
                true => orchestra_graph::render::Style::Coloured,
                false => orchestra_graph::render::Style::Plain,
            };
            terminal.rendered(orchestra_graph::render::text(report, style).trim_end());
            terminal.say("");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use orchestra_engine::{Binding, Builtin};

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
            _ => Err(ReadFault::Missing),
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

    impl Binding<Builtin> for Release {
        fn pipeline(&self) -> &'static Pipeline {
            &RELEASE
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
