//! `resume` and `replay`: runs that go on from where they, or others, were.

use std::path::Path;

use orchestra_engine::{PinnedPipeline, RunFolder, Script, SharedPipeline};
use orchestra_graph::{LoadOptions, Loaded, ReadFault, Source, load};

use super::run::{agents, limits, sound};
use crate::Entry;
use crate::args::{GoingOn, Lints, ReplayArgs, ResumeArgs};
use crate::entry::{Begin, GoOnOptions, transforms};
use crate::error::{CliError, Exit};
use crate::going::Going;
use crate::pipelines::Pipelines;
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
    go_on(&runs, &folder, &args.going_on, pipelines, terminal, |options| {
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
    go_on(&runs, &folder, &args.going_on, pipelines, terminal, |options| {
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
    args: &GoingOn,
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
    let Some(begun_with) = BegunWith::of(&run, pipelines, terminal)? else {
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
    Going {
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

/// The pipeline of a run that was begun before, as it is now.
pub(super) struct BegunWith<'p> {
    pub(super) pipeline: SharedPipeline,
    pub(super) entry: Option<&'p Entry>,
}

impl<'p> BegunWith<'p> {
    /// Finds it: in the program, in its file, or in the run folder itself. `None` where it is invalid, which is told.
    pub(super) fn of(
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
        let loaded = match Path::new(file).is_file() {
            true => pipelines.load_to_run(file, &Lints::default())?,
            false => {
                let note = terminal.paint(Paint::Warn, "note");
                terminal.progress(&format!(
                    "{note}: `{file}` is not here; the run goes on with the text that it was begun with"
                ));
                pinned(&manifest.pipeline, &manifest.children)
            }
        };
        // Warnings were told when the run began.
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

/// The pipeline as the run folder has it.
fn pinned(pipeline: &PinnedPipeline, children: &[PinnedPipeline]) -> Loaded {
    let read = |path: &str, _: u64| {
        let child = children.iter().find(|child| child.file == path);
        let source = child.map(|child| child.source.as_bytes().to_vec());
        source.ok_or(ReadFault::Missing)
    };
    let options = LoadOptions {
        transforms: transforms(),
        children: Some(&read),
        ..LoadOptions::default()
    };
    load(Source::new(&*pipeline.file, &*pipeline.source), &options)
}

/// What the stages of a simulated run do.
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
