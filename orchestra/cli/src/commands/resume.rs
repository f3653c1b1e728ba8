//! `resume` and `replay`: resume a run, or start a run from a checkpoint of another one.

use std::path::Path;

use orchestra_engine::{PinnedSource, RunFolder, Script, SharedPipeline};
use orchestra_graph::{LoadOptions, Loaded, ReadError, Source, load};

use super::run::{find_agents, parse_limits, valid_pipeline};
use crate::Entry;
use crate::args::{Lints, ReplayArgs, ResumeArgs, ResumeOptions};
use crate::error::{CliError, Exit};
use crate::project::entry::{Begin, ResumeSettings, run_transforms};
use crate::project::pipelines::Pipelines;
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
    let Some(found) = RunPipeline::new(&run, pipelines, terminal)? else {
        return Ok(Exit::Invalid);
    };
    let script = script(&run)?;
    let config = args.config.as_deref();
    let agents = find_agents(
        config,
        &found.pipeline,
        None,
        found.entry,
        script.as_ref(),
        terminal,
    )?;
    RunSession {
        pipeline: found.pipeline,
        entry: found.entry,
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

/// The present version of the pipeline with which a run was started.
pub(super) struct RunPipeline<'p> {
    pub(super) pipeline: SharedPipeline,
    pub(super) entry: Option<&'p Entry>,
}

impl<'p> RunPipeline<'p> {
    /// Finds the pipeline: in the program, in its file, or in the run folder. Prints the diagnostics of an invalid
    /// pipeline and returns `None`.
    pub(super) fn new(
        run: &RunFolder,
        pipelines: &'p Pipelines,
        terminal: &Terminal,
    ) -> Result<Option<RunPipeline<'p>>, CliError> {
        let manifest = run.manifest();
        if let Some(entry) = pipelines.entry_of(&manifest.name, &manifest.file) {
            return Ok(Some(RunPipeline {
                pipeline: entry.pipeline().clone(),
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
            load_stored(&manifest.pipeline, &manifest.children)
        };
        // Warnings were printed when the run started.
        let quiet = Terminal {
            quiet: true,
            ..*terminal
        };
        let pipeline = valid_pipeline(&loaded, file, &quiet);
        Ok(pipeline.map(|pipeline| RunPipeline {
            pipeline,
            entry: None,
        }))
    }
}

/// Loads the pipeline from the sources that are stored in the run folder.
fn load_stored(pipeline: &PinnedSource, children: &[PinnedSource]) -> Loaded {
    let read = |path: &str, _: u64| {
        let child = children.iter().find(|child| child.file == path);
        let source = child.map(|child| child.source.as_bytes().to_vec());
        source.ok_or(ReadError::Missing)
    };
    let options = LoadOptions {
        transforms: run_transforms(),
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
