//! `resume` and `replay`: resume a run, or start a run from a checkpoint of another one.

use std::path::Path;

use orchestra_engine::{Begin, Entry, ResumeSettings, RunFolder, Script};
use orchestra_stations::VersionName;

use super::run::{find_agents, parse_limits, valid_pipeline};
use crate::args::{Lints, ReplayArgs, ResumeArgs, ResumeOptions};
use crate::error::{CliError, Exit};
use crate::project::lock::ProjectLock;
use crate::project::pipelines::{Pipelines, run_transforms};
use crate::runs::Runs;
use crate::runs::session::RunSession;
use crate::terminal::{Paint, Terminal};

pub(crate) fn resume(
    args: &ResumeArgs,
    program: &str,
    pipelines: &Pipelines,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let runs = Runs::new(&args.runs, program);
    let folder = runs.find(&args.run)?;
    let accept_loss = args.accept_loss;
    continue_run(&runs, &folder, &args.options, pipelines, terminal, |settings| {
        let settings = ResumeSettings {
            accept_loss,
            ..settings
        };
        Begin::Resume {
            folder: folder.clone(),
            settings,
            take_over: args.take_over,
            retry: args.retry,
        }
    })
}

pub(crate) fn replay(
    args: &ReplayArgs,
    program: &str,
    pipelines: &Pipelines,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let runs = Runs::new(&args.runs, program);
    let folder = runs.find(&args.run)?;
    continue_run(&runs, &folder, &args.options, pipelines, terminal, |settings| {
        Begin::Replay {
            folder: folder.clone(),
            checkpoint: args.checkpoint.clone(),
            run_id: None,
            run_dir: args.run_dir.clone(),
            settings,
        }
    })
}

fn continue_run(
    runs: &Runs,
    folder: &Path,
    args: &ResumeOptions,
    pipelines: &Pipelines,
    terminal: &Terminal,
    begin: impl FnOnce(ResumeSettings) -> Begin,
) -> Result<Exit, CliError> {
    let run = RunFolder::open(folder)?;
    let settings = ResumeSettings {
        accept_changes: args.accept_changes,
        accept_loss: false,
        limits: parse_limits(&args.limits)?,
    };
    let Some(entry) = entry_of_run(&run, pipelines, args.accept_changes, terminal)? else {
        return Ok(Exit::Invalid);
    };
    let script = script(&run)?;
    let config = args.config.as_deref();
    let agents = find_agents(
        config,
        entry.pipeline(),
        None,
        entry.configuration(),
        script.as_ref(),
        terminal,
    )?;
    RunSession {
        entry,
        begin: begin(settings),
        script,
        agents,
        answers: &args.answers,
        durability: run.manifest().durability,
        runs,
        terminal,
    }
    .execute()
}

/// Returns the present version of the pipeline with which a run was started: from the program, its file, or the run
/// folder. A version of a workflow never changes, so the run keeps its own unless changes are accepted; then it gets the
/// active one. Prints the diagnostics of an invalid pipeline and returns `None`.
pub(super) fn entry_of_run(
    run: &RunFolder,
    pipelines: &Pipelines,
    accept_changes: bool,
    terminal: &Terminal,
) -> Result<Option<Entry>, CliError> {
    let manifest = run.manifest();
    if let Some(entry) = pipelines.entry_of(&manifest.name, &manifest.file) {
        return Ok(Some(entry.clone()));
    }
    let file = &manifest.file;
    let loaded = if let Some(version) = VersionName::parse_file(file) {
        if accept_changes {
            pipelines.load_to_run(&version?.active().file(), &Lints::default())?
        } else {
            run.load_pipeline(&run_transforms())
        }
    } else if let Some(version) = kept_version(run, accept_changes) {
        let note = terminal.paint(Paint::Warn, "note");
        terminal.progress(&format!(
            "{note}: the run goes on with version {version} of `{file}`, which `orchestra.lock` keeps"
        ));
        run.load_pipeline(&run_transforms())
    } else if Path::new(file).is_file() {
        pipelines.load_to_run(file, &Lints::default())?
    } else {
        let note = terminal.paint(Paint::Warn, "note");
        terminal.progress(&format!(
            "{note}: `{file}` is not here; the run goes on with the text that it was begun with"
        ));
        run.load_pipeline(&run_transforms())
    };
    // Warnings were printed when the run started.
    let quiet = Terminal {
        quiet: true,
        ..*terminal
    };
    let pipeline = valid_pipeline(&loaded, file, &quiet);
    Ok(pipeline.map(|pipeline| Entry::loaded(file, pipeline, run_transforms())))
}

/// Returns the version with which a run goes on beside the released one, if the lock file keeps it. Without a readable
/// lock file, none is kept.
fn kept_version(run: &RunFolder, accept_changes: bool) -> Option<u32> {
    let manifest = run.manifest();
    if accept_changes || !Path::new(&manifest.file).is_file() {
        return None;
    }
    let project = ProjectLock::find(Some(&manifest.file)).ok()?;
    let name = project.name(&manifest.file);
    project.kept_version(&name, &manifest.pipeline.hash).ok()?
}

/// Returns the script of a simulated run, or `None` if the run is not simulated.
fn script(run: &RunFolder) -> Result<Option<Script>, CliError> {
    let manifest = run.manifest();
    let script = manifest.script.clone();
    if !manifest.simulated {
        return Ok(None);
    }
    let script = script.map(serde_json::from_value).transpose().map_err(|error| {
        let message = format!(
            "the script of the simulated run `{}` cannot be read: {error}",
            manifest.run
        );
        CliError::usage("unreadable_script", message)
    })?;
    Ok(Some(script.unwrap_or_default()))
}
