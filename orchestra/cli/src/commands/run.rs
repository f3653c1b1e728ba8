//! `run`: runs a pipeline and shows its progress.

use std::path::Path;
use std::time::Duration;

use orchestra_engine::{
    Begin, Budget, CompiledConfiguration, Durability, Entry, Limits, Script, SharedPipeline, StartSettings,
};
use orchestra_graph::{Contract, Loaded, Pipeline, parse_duration};
use orchestra_testkit::{check_script, read_script_file};
use serde_json::json;

use crate::args::{DurabilityLevel, Format, LimitOptions, RunArgs};
use crate::error::{CliError, Exit};
use crate::project::agents::ProjectAgents;
use crate::project::parameters::parameters;
use crate::project::pipelines::{Pipelines, run_transforms};
use crate::report::diagnostics::print_reports;
use crate::runs::Runs;
use crate::runs::session::RunSession;
use crate::terminal::Terminal;
use crate::terminal::format::count;

pub(crate) fn run(
    args: &RunArgs,
    program: &str,
    pipelines: &Pipelines,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let simulation = match (args.simulate.as_deref(), args.simulate_models.as_deref()) {
        (Some(script), _) => Some((script, false)),
        (None, Some(script)) => Some((script, true)),
        (None, None) => None,
    };
    // Accept `run --simulate FILE`, where the pipeline takes the position of the script.
    let (file, simulation) = match (&args.file, simulation) {
        (Some(file), simulation) => (file.as_str(), simulation),
        (None, Some((file, models_only))) if !file.is_empty() => (file, Some(("", models_only))),
        (None, _) => return Err(CliError::usage("no_file", "the pipeline is missing").help("name its file")),
    };
    let loaded = pipelines.load_to_run(file, &args.lints)?;
    let Some(pipeline) = valid_pipeline(&loaded, file, terminal) else {
        return Ok(Exit::Invalid);
    };
    let script = script(args, simulation, &pipeline)?;
    let agents = find_agents(
        args.config.as_deref(),
        &pipeline,
        Some(&loaded),
        pipelines.entry(file).and_then(Entry::configuration),
        script.as_ref(),
        terminal,
    )?;
    let settings = StartSettings {
        params: parameters(&args.set, &Contract::from_pipeline(&pipeline))?,
        seed: args.seed,
        run_id: args.run_id.clone(),
        run_dir: args.run_dir.clone(),
        limits: parse_limits(&args.limits)?,
    };
    let entry = match pipelines.entry(file) {
        Some(entry) => entry.clone(),
        None => Entry::loaded(file, pipeline, run_transforms()),
    };
    RunSession {
        entry,
        begin: Begin::Start(settings),
        script,
        agents,
        answers: &args.answers,
        durability: match args.durability {
            DurabilityLevel::Full => Durability::Full,
            DurabilityLevel::Process => Durability::Process,
            DurabilityLevel::None => Durability::None,
        },
        runs: &Runs::new(&args.runs, program),
        terminal,
    }
    .execute()
}

/// Finds the project's agents and repositories. Checks that the agents can run the model stages, unless these are
/// simulated. A simulation that executes nothing needs no agents, so the result is `None`.
pub(super) fn find_agents(
    config: Option<&Path>,
    pipeline: &SharedPipeline,
    loaded: Option<&Loaded>,
    compiled: Option<CompiledConfiguration>,
    script: Option<&Script>,
    terminal: &Terminal,
) -> Result<Option<ProjectAgents>, CliError> {
    if script.is_some_and(|script| !script.simulates_models_only()) {
        return Ok(None);
    }
    let agents = ProjectAgents::find(config, &pipeline.file, compiled, terminal)?;
    if script.is_some() {
        return Ok(Some(agents));
    }
    if let Some(loaded) = loaded {
        agents.check_loaded(loaded, terminal)?;
    }
    agents.check(pipeline, terminal)?;
    Ok(Some(agents))
}

/// Prints the diagnostics of a pipeline. Returns the pipeline if it is valid.
pub(super) fn valid_pipeline(loaded: &Loaded, file: &str, terminal: &Terminal) -> Option<SharedPipeline> {
    let errors = loaded.report.has_errors();
    if !terminal.quiet || errors {
        let format = if terminal.json { Format::Json } else { Format::Text };
        print_reports(terminal, loaded, format);
    }
    let pipeline = loaded.pipeline();
    if pipeline.is_none() && terminal.json {
        let errors = loaded.report.errors().count();
        terminal.object(&json!({
            "schema": "orchestra.error/1", "code": "invalid_pipeline",
            "message": format!("{file} has {}", count(errors, "error")), "help": null,
        }));
    }
    pipeline.map(SharedPipeline::from)
}

/// Parses the limits of a run.
pub(super) fn parse_limits(options: &LimitOptions) -> Result<Limits, CliError> {
    Ok(Limits {
        time: options.max_time.as_deref().map(duration_option).transpose()?,
        budget: Budget {
            max_tokens: options.max_tokens,
            max_cost_micros: options.max_cost.as_deref().map(parse_dollars).transpose()?,
        },
    })
}

/// Parses an amount of US dollars into millionths.
fn parse_dollars(text: &str) -> Result<u64, CliError> {
    Budget::parse_dollars(text).ok_or_else(|| {
        CliError::usage(
            "cost",
            format!("`{}` is not a sum of US dollars", text.escape_debug()),
        )
        .help("write digits, with at most six behind a point: `2.50`")
    })
}

/// Reads the script of a simulation. `simulation` contains its file, and whether only models are simulated. Returns
/// `None` if nothing is simulated.
fn script(
    args: &RunArgs,
    simulation: Option<(&str, bool)>,
    pipeline: &Pipeline,
) -> Result<Option<Script>, CliError> {
    let mut script = match simulation {
        None if args.outcome.is_empty() => return Ok(None),
        None => {
            return Err(
                CliError::usage("outcome_without_simulate", "`--outcome` speaks of a simulation")
                    .help("add `--simulate` or `--simulate-models`"),
            );
        }
        Some((file, models_only)) => {
            let script = if file.is_empty() {
                Script::new()
            } else {
                read_script_file(file)?
            };
            let script = script.hasten();
            if models_only { script.models_only() } else { script }
        }
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

/// Parses a duration of the command line.
pub(super) fn duration_option(text: &str) -> Result<Duration, CliError> {
    parse_duration(text).ok_or_else(|| {
        CliError::usage("duration", format!("`{}` is not a duration", text.escape_debug()))
            .help("write a whole number and a unit: `250ms`, `30s`, `15m`, `2h`, `1d`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_money_are_exact() {
        let sums = [
            ("2.50", 2_500_000),
            ("0.000001", 1),
            (".5", 500_000),
            ("3", 3_000_000),
            ("1.", 1_000_000),
        ];
        for (text, sum) in sums {
            assert_eq!(parse_dollars(text).ok(), Some(sum), "{text}");
        }
        for wrong in ["", ".", "-1", "1e3", "0.0000001", "$2", "99999999999999999999"] {
            assert!(parse_dollars(wrong).is_err(), "{wrong}");
        }
    }
}
