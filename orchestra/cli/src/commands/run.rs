//! `run`: runs a pipeline and tells how it goes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use orchestra_engine::{
    Engine, Outcome, RunEvent, RunFailure, RunResult, RunStatus, Script, SharedPipeline, StartError,
};
use orchestra_graph::condition::OUTCOME_WORDS;
use orchestra_graph::{Known, Pipeline, did_you_mean, parse_duration};
use serde_json::{Value, json};

use crate::answers::{Answers, Scripted, given, how_to_answer};
use crate::args::{Format, RunArgs};
use crate::console::Console;
use crate::entry::StartOptions;
use crate::error::{CliError, Exit};
use crate::pipelines::{Pipelines, print_reports};
use crate::progress::Shown;
use crate::script;
use crate::terminal::{Paint, Terminal};

pub(crate) fn run(
    args: &RunArgs,
    program: &str,
    pipelines: &Pipelines,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    // `run --simulate FILE` reads naturally, but its file stands where a script may.
    let (file, simulate) = match (&args.file, args.simulate.as_deref()) {
        (Some(file), simulate) => (file.as_str(), simulate),
        (None, Some(file)) if !file.is_empty() => (file, Some("")),
        (None, _) => return Err(CliError::usage("no_file", "the pipeline is missing").help("name its file")),
    };
    let loaded = pipelines.load_to_run(file, &args.lints)?;
    if !terminal.quiet || loaded.report.has_errors() {
        print_reports(
            terminal,
            &loaded,
            if terminal.json { Format::Json } else { Format::Text },
        );
    }
    let Some(pipeline) = loaded.pipeline() else {
        if terminal.json {
            let errors = loaded.report.errors().count();
            terminal.object(&json!({
                "schema": "orchestra.error/1", "code": "invalid_pipeline",
                "message": format!("{file} has {}", super::count(errors, "error")), "help": null,
            }));
        }
        return Ok(Exit::Invalid);
    };
    let pipeline = SharedPipeline::from(pipeline);
    let mut script = script(args, simulate)?;
    let shown = Arc::new(Shown::new(*terminal));
    let scripted = match &mut script {
        Some(script) => Scripted::of_script(script, &pipeline)?,
        None => Scripted::default(),
    };
    for (node, outcomes) in script.iter().flatten() {
        known(&pipeline, node, outcomes)?;
    }
    let answers = Answers {
        scripted,
        given: given(&args.answer, &pipeline)?,
        approve: args.auto_approve,
        console: Console::new(*terminal, shown.clone()),
    };
    let options = StartOptions {
        params: args
            .set
            .iter()
            .map(|pair| assignment(pair))
            .collect::<Result<_, _>>()?,
        seed: args.seed,
        run_dir: args.run_dir.clone(),
        max_time: args.max_time.as_deref().map(max_time).transpose()?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::usage("runtime", format!("cannot start the runtime: {error}")))?;
    // Called by the run itself, so that what came before a question is shown before it.
    let show = {
        let (shown, terminal) = (shown.clone(), *terminal);
        move |event: &RunEvent| show(&terminal, &shown, event)
    };
    let mut builder = Engine::builder()
        .runs_dir(&args.runs)
        .interviewer(answers)
        .on_event(show);
    if let Some(script) = script {
        let entries = script.into_iter();
        builder = builder.simulate(entries.fold(Script::new(), |script, (node, outcomes)| {
            script.outcomes(node, outcomes)
        }));
    }
    let engine = builder
        .build()
        .map_err(|error| CliError::usage(error.code(), error.to_string()))?;
    runtime.block_on(async {
        let started = match pipelines.entry(file) {
            Some(entry) => entry.start(&engine, options).await,
            None => crate::entry::start_loaded(&engine, pipeline.clone(), options).await,
        };
        let handle = started.map_err(start_error)?;
        let canceller = handle.canceller();
        let mut end = std::pin::pin!(handle.wait());
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        let mut interrupts = 0;
        let ended = loop {
            tokio::select! {
                ended = &mut end => break ended,
                _ = ticks.tick() => shown.progress().tick(),
                _ = tokio::signal::ctrl_c() => {
                    interrupts += 1;
                    if interrupts > 1 {
                        return Ok(Exit::Cancelled);
                    }
                    canceller.cancel("interrupted");
                }
            }
        };
        let result = ended.map_err(|error| CliError {
            exit: Exit::RunFailed,
            code: "run",
            message: error.to_string(),
            help: None,
        })?;
        shown.progress().clear();
        Ok(finish(&result, &pipeline, program, terminal))
    })
}

fn show(terminal: &Terminal, shown: &Shown, event: &RunEvent) {
    if terminal.json {
        // Events hold text and numbers alone, which cannot fail to be written.
        terminal.result(&serde_json::to_string(event).unwrap_or_default());
    } else {
        shown.progress().event(event);
    }
}

/// The result: an object last, or a line for people.
fn finish(result: &RunResult, pipeline: &Pipeline, _program: &str, terminal: &Terminal) -> Exit {
    if terminal.json {
        terminal.result(&serde_json::to_string(result).unwrap_or_default());
    } else {
        let path = result.path.join(" -> ");
        let (paint, word) = match result.status {
            RunStatus::Success => (Paint::Good, "success"),
            RunStatus::Fail => (Paint::Bad, "failed"),
            RunStatus::Paused => (Paint::Warn, "paused"),
            _ => (Paint::Warn, "cancelled"),
        };
        terminal.progress("");
        if let Some(failure) = &result.failure {
            terminal.say(&format!("{}: {failure}", terminal.paint(Paint::Bad, "error")));
            if let RunFailure::WaitsForHuman { node, .. } = failure {
                terminal.say(&format!("  help: {}", how_to_answer(pipeline, node)));
            }
        }
        terminal.result(&format!("{}: {path}", terminal.paint_result(paint, word)));
        if let Some(folder) = &result.run_dir {
            terminal.progress(&terminal.paint(Paint::Dim, &format!("run folder: {}", folder.display())));
        }
    }
    match result.status {
        RunStatus::Success => Exit::Ok,
        RunStatus::Fail => Exit::RunFailed,
        RunStatus::Paused => Exit::WaitsForHuman,
        _ => Exit::Cancelled,
    }
}

fn start_error(error: StartError) -> CliError {
    let exit = match &error {
        StartError::Refused(refusals) if refusals.list.iter().all(|refusal| refusal.code == "no_backend") => {
            Exit::Credentials
        }
        StartError::Refused(_) => Exit::Invalid,
        _ => Exit::Usage,
    };
    CliError {
        exit,
        code: error.code(),
        message: error.to_string(),
        help: None,
    }
}

/// The simulation that the options ask for; none where they do not.
fn script(
    args: &RunArgs,
    simulate: Option<&str>,
) -> Result<Option<BTreeMap<String, Vec<Outcome>>>, CliError> {
    let mut outcomes: BTreeMap<String, Vec<Outcome>> = BTreeMap::new();
    match simulate {
        None if args.outcome.is_empty() => return Ok(None),
        None => {
            return Err(
                CliError::usage("outcome_without_simulate", "`--outcome` speaks of a simulation")
                    .help("add `--simulate`"),
            );
        }
        Some("") => {}
        Some(file) => outcomes = script::read(file)?,
    }
    for text in &args.outcome {
        let (node, words) = text
            .split_once('=')
            .filter(|(_, words)| !words.is_empty())
            .ok_or_else(|| {
                CliError::usage(
                    "outcome_form",
                    format!("`{text}` is not of the form NODE=WORD[,WORD]"),
                )
            })?;
        let words = words
            .split(',')
            .map(|word| script::outcome_of_word(word.trim()))
            .collect();
        outcomes.insert(node.to_owned(), words);
    }
    Ok(Some(outcomes))
}

/// Refuses nodes that the pipeline does not have, and words that a node does not declare although it declares some.
fn known(pipeline: &Pipeline, node: &str, outcomes: &[Outcome]) -> Result<(), CliError> {
    let Some(index) = pipeline.find(node) else {
        let nodes: Vec<&str> = pipeline.nodes.iter().map(|node| &*node.id).collect();
        let error = CliError::usage("unknown_node", format!("the pipeline has no node `{node}`"));
        return Err(match did_you_mean(node, nodes.iter().copied()) {
            Some(near) => error.help(format!("did you mean `{near}`?")),
            None => error.help(format!("its nodes are {}", nodes.join(", "))),
        });
    };
    let declared = pipeline
        .stage(index)
        .text(Known::Outcomes.name())
        .unwrap_or_default();
    let declared: Vec<&str> = declared
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .collect();
    for outcome in outcomes {
        let word = outcome.status.word();
        if declared.is_empty() || declared.contains(&word) || OUTCOME_WORDS.contains(&word) {
            continue;
        }
        let error = CliError::usage(
            "unknown_outcome",
            format!("`{node}` does not give the outcome `{word}`"),
        );
        return Err(
            match did_you_mean(
                word,
                OUTCOME_WORDS.iter().copied().chain(declared.iter().copied()),
            ) {
                Some(near) => error.help(format!("did you mean `{near}`?")),
                None => error.help(format!("it gives {}, or a built-in word", declared.join(", "))),
            },
        );
    }
    Ok(())
}

fn assignment(pair: &str) -> Result<(String, Value), CliError> {
    let (key, value) = pair
        .split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .ok_or_else(|| CliError::usage("set_form", format!("`{pair}` is not of the form KEY=VALUE")))?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    Ok((key.to_owned(), value))
}

fn max_time(text: &str) -> Result<Duration, CliError> {
    parse_duration(text).ok_or_else(|| {
        CliError::usage("duration", format!("`{text}` is not a duration"))
            .help("write a whole number and a unit: `250ms`, `30s`, `15m`, `2h`, `1d`")
    })
}
