//! Where a pipeline named on the command line comes from: a file, or the program itself.

use std::path::Path;
use std::sync::Arc;

use orchestra_graph::{
    LoadOptions, Loaded, Report, ShapeFallback, Source, Transform, did_you_mean, load, load_bytes,
};

use crate::Entry;
use crate::args::{Format, Lints};
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

    /// Loads and checks a pipeline by the name of its file, or by its own name. Its handlers may be anybody's.
    pub(crate) fn load(&self, name: &str, lints: &Lints) -> Result<Loaded, CliError> {
        self.load_with(name, lints, LoadOptions::default())
    }

    /// Like [`load`](Pipelines::load), to be run here: this program has no handlers for types of files.
    pub(crate) fn load_to_run(&self, name: &str, lints: &Lints) -> Result<Loaded, CliError> {
        let fallback: Arc<dyn Transform> = Arc::new(ShapeFallback::default());
        let transforms = if self.entry(name).is_some() {
            Vec::new()
        } else {
            vec![fallback]
        };
        self.load_with(
            name,
            lints,
            LoadOptions {
                transforms,
                ..LoadOptions::default()
            },
        )
    }

    fn load_with(&self, name: &str, lints: &Lints, options: LoadOptions) -> Result<Loaded, CliError> {
        let known = orchestra_graph::rules().iter().map(|rule| rule.code);
        for code in lints.deny.iter().chain(&lints.allow) {
            if code != "warnings" && !known.clone().any(|rule| rule == code) {
                let error = CliError::usage("unknown_code", format!("there is no diagnostic `{code}`"));
                return Err(match did_you_mean(code, known) {
                    Some(near) => error.help(format!("did you mean `{near}`?")),
                    None => error.help("`orchestra explain` lists all codes"),
                });
            }
        }
        let options = LoadOptions {
            deny: lints.deny.clone(),
            allow: lints.allow.clone(),
            ..options
        };
        if let Some(entry) = self.entry(name) {
            let pipeline = entry.pipeline();
            return Ok(load(
                Source::new(pipeline.file.as_ref(), pipeline.source.as_ref()),
                &options,
            ));
        }
        let shown = name.replace('\\', "/");
        match std::fs::read(name) {
            Ok(bytes) => Ok(load_bytes(&shown, &bytes, &options)),
            Err(error) => Err(self.unreadable(name, &error)),
        }
    }

    fn unreadable(&self, name: &str, error: &std::io::Error) -> CliError {
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
        let siblings: Vec<String> = std::fs::read_dir(folder)
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

/// Prints diagnostics in a format.
pub(crate) fn print_report(terminal: &Terminal, report: &Report, format: Format) {
    if report.diagnostics.is_empty() {
        return;
    }
    match format {
        Format::Json => {
            for line in orchestra_graph::render::json(report).lines() {
                terminal.result(line);
            }
        }
        Format::Concise => terminal.say(orchestra_graph::render::concise(report).trim_end()),
        Format::Text => {
            let style = match terminal.color {
                true => orchestra_graph::render::Style::Coloured,
                false => orchestra_graph::render::Style::Plain,
            };
            terminal.say(orchestra_graph::render::text(report, style).trim_end());
            terminal.say("");
        }
    }
}
