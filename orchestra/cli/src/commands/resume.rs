//! `resume` and `replay`: resume a run, or start a run from a checkpoint of another one.

use std::path::Path;

use orchestra_engine::{PinnedSource, RunFolder, Script, SharedPipeline};
use orchestra_graph::{LoadOptions, Loaded, ReadError, Source, load};

use super::run::{agents, limits, sound};
use crate::Entry;
use crate::args::{Lints, ReplayArgs, ResumeArgs, ResumeOptions};
use crate::entry::{Begin, GoOnOptions, transforms};
use crate::error::{CliError, Exit};
use crate::pipelines::Pipelines;
use crate::run_session::RunSession;
use crate::runs::Runs;
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
    go_on(&runs, &folder, &args.options, pipelines, terminal, |options| {
        let options = GoOnOptions {
            accept_loss,
            ..options
        };
        Begin::Resume {
            folder: folder.clone(),
            options,
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
    go_on(&runs, &folder, &args.options, pipelines, terminal, |options| {
        Begin::Replay {
            folder: folder.clone(),
            checkpoint: args.checkpoint.clone(),
            run_dir: args.run_dir.clone(),
            options,
        }
    })
}

fn go_on(
    runs: &Runs,
    folder: &Path,
    args: &ResumeOptions,
    pipelines: &Pipelines,
    terminal: &Terminal,
    begin: impl FnOnce(GoOnOptions) -> Begin,
) -> Result<Exit, CliError> {
    let run = RunFolder::open(folder)?;
    let options = GoOnOptions {
        accept_changes: args.accept_changes,
        accept_loss: false,
        limits: limits(&args.limits)?,
    };
    let Some(begun_with) = BegunWith::new(&run, pipelines, terminal)? else {
        return Ok(Exit::Invalid);
    };
    let script = script(&run)?;
    let config = args.config.as_deref();
    let agents = agents(
        config,
        &begun_with.pipeline,
        None,
        begun_with.entry,
        script.as_ref(),
        terminal,
    )?;
    RunSession {
        pipeline: begun_with.pipeline,
        entry: begun_with.entry,
        begin: begin(options),
        script,
        agents,
        answers: &args.answers,
        durability: run.manifest().durability,
        runs,
        terminal,
    }
    .go()
}

/// The present version of the pipeline with which a run was started.
pub(super) struct BegunWith<'p> {
    pub(super) pipeline: SharedPipeline,
    pub(super) entry: Option<&'p Entry>,
}

impl<'p> BegunWith<'p> {
    /// Finds the pipeline: in the program, in its file, or in the run folder. Prints the diagnostics of an invalid
    /// pipeline and returns `None`.
    pub(super) fn new(
        run: &RunFolder,
        pipelines: &'p Pipelines,
        terminal: &Terminal,
    ) -> Result<Option<BegunWith<'p>>, CliError> {
        let manifest = run.manifest();
        if let Some(entry) = pipelines.entry_of(&manifest.name, &manifest.file) {
            return Ok(Some(BegunWith {
                pipeline: SharedPipeline::from(entry.pipeline()),
                entry: Some(entry),
            }));
        }
        let file = &manifest.file;
        let loaded = if Path::new(file).is_file() {
            pipelines.load_to_run(file, &Lints::default())?
        } else {
            let note = terminal.paint(Paint::Warn, "note");
            terminal.progress(&format!(
                "{note}: `{file}` is not here; the run goes on with the text that it was begun with"
            ));
            pinned(&manifest.pipeline, &manifest.children)
        };
        // Warnings were printed when the run started.
        let loud = Terminal {
            quiet: true,
            ..*terminal
        };
        let pipeline = sound(&loaded, file, &loud);
        Ok(pipeline.map(|pipeline| BegunWith {
            pipeline,
            entry: None,
        }))
    }
}

/// Loads the pipeline from the sources that are stored in the run folder.
fn pinned(pipeline: &PinnedSource, children: &[PinnedSource]) -> Loaded {
    let read = |path: &str, _: u64| {
        let child = children.iter().find(|child| child.file == path);
        let source = child.map(|child| child.source.as_bytes().to_vec());
        source.ok_or(ReadError::Missing)
    };
    let options = LoadOptions {
        transforms: transforms(),
        children: Some(&read),
        ..LoadOptions::default()
    };
    load(Source::new(&*pipeline.file, &*pipeline.source), &options)
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
