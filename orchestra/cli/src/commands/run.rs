//! `run`: runs a pipeline and tells how it goes.

use std::sync::Arc;
use std::time::Duration;

use orchestra_engine::{
    Engine, RunEvent, RunFailure, RunResult, RunStatus, Script, SharedPipeline, StartError,
};
use orchestra_graph::{Pipeline, parse_duration};
use orchestra_testkit::{Coverage, check_script, read_script_file};
use serde_json::{Value, json};

use crate::answers::{Answers, Scripted, given, how_to_answer};
use crate::args::{Format, RunArgs};
use crate::console::Console;
use crate::entry::StartOptions;
use crate::error::{CliError, Exit};
use crate::pipelines::{Pipelines, print_reports};
use crate::progress::Shown;
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
    let mut script = script(args, simulate, &pipeline)?;
    let shown = Arc::new(Shown::new(*terminal));
    let answers = Answers {
        scripted: match &mut script {
            Some(script) => Scripted::of_script(script, &pipeline)?,
            None => Scripted::default(),
        },
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
    let simulated = script.is_some();
    if let Some(script) = script {
        builder = builder.simulate(script);
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
        let coverage = simulated.then(|| {
            let mut coverage = Coverage::of(pipeline.clone());
            coverage.add(&result.transitions);
            coverage
        });
        Ok(finish(&result, &pipeline, coverage.as_ref(), program, terminal))
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

/// The result: an object last, or a line for people; before it or behind it, the edges that a simulation took.
fn finish(
    result: &RunResult,
    pipeline: &Pipeline,
    coverage: Option<&Coverage>,
    _program: &str,
    terminal: &Terminal,
) -> Exit {
    if terminal.json {
        if let Some(coverage) = coverage {
            terminal.result(&serde_json::to_string(coverage).unwrap_or_default());
        }
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
        if let Some(coverage) = coverage {
            terminal.progress(&coverage.summary());
        }
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
fn script(args: &RunArgs, simulate: Option<&str>, pipeline: &Pipeline) -> Result<Option<Script>, CliError> {
    let mut script = match simulate {
        None if args.outcome.is_empty() => return Ok(None),
        None => {
            return Err(
                CliError::usage("outcome_without_simulate", "`--outcome` speaks of a simulation")
                    .help("add `--simulate`"),
            );
        }
        Some("") => Script::new(),
        Some(file) => read_script_file(file)?,
    };
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
        script.remove(node);
        script = script.outcomes(node, words.split(',').map(str::trim));
    }
    check_script(pipeline, &script)?;
    Ok(Some(script))
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
