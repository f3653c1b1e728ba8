//! `check --locked`: compares the pipelines of today with their locked versions, and tries unfinished runs.

use std::path::Path;
use std::sync::Arc;

use orchestra_engine::{PinnedSource, RunFolder};
use orchestra_graph::{ChangeClass, Compatibility, Loaded, LockedPipeline, Pipeline, Transform};
use serde_json::json;

use crate::args::{CheckArgs, Format, RunsDir};
use crate::commands::unfinished::{UnfinishedRun, unfinished_runs};
use crate::error::{CliError, Exit};
use crate::project::lock::ProjectLock;
use crate::project::pipelines::run_transforms;
use crate::report::diagnostics::print_report;
use crate::runs::Runs;
use crate::terminal::{Paint, Terminal};

/// The locked pipelines to check.
pub(super) struct LockedFiles {
    project: ProjectLock,
    names: Vec<String>,
}

impl LockedFiles {
    /// Finds the pipelines that are named, or all locked ones.
    pub(super) fn find(args: &CheckArgs) -> Result<LockedFiles, CliError> {
        let project = ProjectLock::find(args.files.first().map(String::as_str))?;
        if !project.exists {
            return Err(
                CliError::usage("no_lock", format!("there is no `{}`", project.path()))
                    .help("`orchestra lock FILE..` writes it"),
            );
        }
        let names: Vec<String> = if args.files.is_empty() {
            let pipelines = project.lock.pipelines.iter();
            pipelines.map(|pipeline| pipeline.name.clone()).collect()
        } else {
            args.files.iter().map(|file| project.name(file)).collect()
        };
        for name in &names {
            if project.lock.pipeline(name).is_none() {
                let message = format!("`{name}` is not in `{}`", project.path());
                return Err(CliError::usage("not_locked", message)
                    .help(format!("`orchestra lock {}` adds it", project.file(name))));
            }
        }
        Ok(LockedFiles { project, names })
    }

    /// Returns the paths of the pipelines.
    pub(super) fn files(&self) -> Vec<String> {
        self.names.iter().map(|name| self.project.file(name)).collect()
    }

    /// Compares the pipelines with their locked versions.
    pub(super) fn check(
        &self,
        args: &CheckArgs,
        program: &str,
        format: Format,
        terminal: &Terminal,
        found: &mut [usize; 3],
    ) -> Result<Exit, CliError> {
        let mut exit = Exit::Ok;
        let mut runs = match &args.runs {
            Some(dir) => unfinished_runs(&runs_in(dir, program)?)?,
            None => Vec::new(),
        };
        for name in &self.names {
            let Some(locked) = self.project.lock.pipeline(name) else {
                continue;
            };
            let today = self.project.load_today(name)?;
            if today.loaded.pipeline().is_none() {
                // The check of the file itself has reported its errors.
                continue;
            }
            if self.compare(
                locked,
                &today.loaded,
                args.config.as_deref(),
                format,
                terminal,
                found,
            )? == ChangeClass::Breaks
            {
                exit = Exit::Invalid;
            }
            let (own, others): (Vec<_>, Vec<_>) = std::mem::take(&mut runs)
                .into_iter()
                .partition(|run| self.is_of(run, name));
            runs = others;
            for run in own {
                if !self.try_run(&run, locked, terminal)? {
                    exit = Exit::Invalid;
                }
            }
        }
        Ok(exit)
    }

    fn compare(
        &self,
        locked: &LockedPipeline,
        today: &Loaded,
        config: Option<&Path>,
        format: Format,
        terminal: &Terminal,
        problems: &mut [usize; 3],
    ) -> Result<ChangeClass, CliError> {
        let Some(latest) = locked.latest() else {
            return Ok(ChangeClass::Same);
        };
        let (name, version) = (&locked.name, latest.version);
        let old = self.project.verified_version(name, latest)?;
        let found = Compatibility::between(&old, today).unwrap_or_default();
        let reports = ProjectLock::reports(&found, &old, today, version, config, terminal)?;
        for report in &reports {
            print_report(terminal, report, format);
            for diagnostic in &report.diagnostics {
                problems[diagnostic.severity as usize] += 1;
            }
        }
        let class = if reports.is_empty() {
            found.class()
        } else {
            ChangeClass::Breaks
        };
        if format == Format::Json {
            terminal.object(&json!({
                "schema": "orchestra.compatibility/1", "pipeline": name, "version": version,
                "class": class, "changes": found.changes,
            }));
            return Ok(class);
        }
        let paint = match class {
            ChangeClass::Breaks => Paint::Bad,
            _ => Paint::Good,
        };
        let word = terminal.paint(paint, class.word());
        let against = if class == ChangeClass::Same { "as" } else { "with" };
        terminal.result(&format!("{name}: {word} {against} version {version}"));
        for change in &found.changes {
            if change.class == ChangeClass::Compatible {
                let position = change.position;
                terminal.result(&format!(
                    "  {}:{}:{}: {change}",
                    change.file, position.line, position.column
                ));
            }
        }
        Ok(class)
    }

    /// Returns whether a run belongs to a pipeline.
    fn is_of(&self, run: &UnfinishedRun, name: &str) -> bool {
        let Ok(folder) = &run.folder else {
            return true;
        };
        let manifest = folder.manifest();
        manifest.file == name || self.project.name(&manifest.file) == name
    }

    /// Tries to carry a run over to the pipeline of today, and prints the result. Returns whether the run can go on.
    fn try_run(
        &self,
        run: &UnfinishedRun,
        locked: &LockedPipeline,
        terminal: &Terminal,
    ) -> Result<bool, CliError> {
        let name = &locked.name;
        let (waits_at, reason, version) = match &run.folder {
            Err(error) => (Vec::new(), Some(error.to_string()), None),
            Ok(folder) => {
                let hash = &folder.manifest().pipeline.hash;
                let version = self.project.kept_version(name, hash)?;
                let transforms = transforms_of(folder);
                let today = self.project.load_today_with(name, &transforms)?;
                match today.loaded.pipeline() {
                    None => (
                        Vec::new(),
                        Some("the pipeline of today is invalid".to_owned()),
                        None,
                    ),
                    Some(today) => {
                        let tried = tried(folder, &today, &transforms);
                        (tried.0, tried.1.filter(|_| version.is_none()), version)
                    }
                }
            }
        };
        if terminal.json {
            terminal.object(&json!({
                "schema": "orchestra.locked_run/1", "run": run.id, "pipeline": name, "waits_at": waits_at,
                "goes_on": reason.is_none(), "beside": version, "reason": reason,
            }));
            return Ok(reason.is_none());
        }
        let nodes: Vec<String> = waits_at.iter().map(|node| format!("`{node}`")).collect();
        let position = match nodes.is_empty() {
            true => "has not begun".to_owned(),
            false => format!("waits at {}", nodes.join(", ")),
        };
        let verdict = match (&reason, version) {
            (Some(reason), _) => format!("{}: {reason}", terminal.paint(Paint::Bad, "breaks")),
            (None, Some(version)) => format!("goes on with version {version}"),
            (None, None) => "goes on".to_owned(),
        };
        terminal.result(&format!("{}: {position}: {verdict}", run.id));
        Ok(reason.is_none())
    }
}

/// Returns the transforms with which a run was started: those of this program, or none in a program with handlers.
fn transforms_of(folder: &RunFolder) -> Vec<Arc<dyn Transform>> {
    let plain = folder.load_pipeline(&[]).pipeline();
    let plain = plain.map(|pipeline| PinnedSource::from_pipeline(&pipeline).hash);
    if plain.as_ref() == Some(&folder.manifest().pipeline.hash) {
        Vec::new()
    } else {
        run_transforms()
    }
}

/// Returns where a run waits, and why it cannot go on with another pipeline.
fn tried(
    folder: &RunFolder,
    today: &Pipeline,
    transforms: &[Arc<dyn Transform>],
) -> (Vec<String>, Option<String>) {
    match folder.carry_over(today, transforms) {
        Ok(tried) => (tried.waits_at, tried.reason),
        Err(error) => (Vec::new(), Some(error.to_string())),
    }
}

fn runs_in(dir: &Path, program: &str) -> Result<Runs, CliError> {
    if !dir.is_dir() {
        let message = format!("there is no folder `{}`", dir.display());
        return Err(CliError::usage("no_runs", message));
    }
    let dir = RunsDir { dir: dir.to_owned() };
    Ok(Runs::new(&dir, program))
}
