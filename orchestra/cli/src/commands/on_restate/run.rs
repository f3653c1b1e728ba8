//! `run`, `resume` and `attach` of runs on a Restate server.

use std::path::Path;
use std::sync::Arc;

use orchestra_engine::{Context, Entry, Interviewer, QueueInterviewer, Redactor, RunId, SharedPipeline};
use orchestra_graph::Contract;
use orchestra_restate::{Client, ClientError, RemoteStart};
use orchestra_stations::VersionName;

use super::super::attach::is_attended;
use super::super::follow::{Follower, IfUnanswered};
use super::super::forward::QuestionForwarder;
use super::super::run::{parse_limits, valid_pipeline};
use super::super::served::pipeline_name;
use super::followed::{ServerQuestions, ServerRun};
use super::options::{NO_TIME_LIMIT, has_limits, refuse};
use super::server_runs::ServerRuns;
use crate::args::{AnswerOptions, AttachArgs, DurabilityLevel, ResumeArgs, RunArgs};
use crate::error::{CliError, Exit};
use crate::project::agents::{ProjectAgents, secrets_of_environment};
use crate::project::parameters::parameters;
use crate::project::pipelines::Pipelines;
use crate::questions::answers::{AnswerCommand, Answers, parse_answers};
use crate::questions::console::Console;
use crate::report::progress::SharedProgress;
use crate::terminal::Terminal;
use crate::terminal::format::now;

pub(super) fn run(
    args: &RunArgs,
    on: &str,
    program: &str,
    pipelines: &Pipelines,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let simulates = args.simulate.is_some() || args.simulate_models.is_some();
    let locally = "workers execute all stages; simulate without `--on`";
    refuse(&[
        (simulates, "--simulate", locally),
        (!args.outcome.is_empty(), "--outcome", locally),
        (
            args.run_dir.is_some(),
            "--run-dir",
            "the server has the run; `--run-id` names it",
        ),
        (
            args.durability != DurabilityLevel::Full,
            "--durability",
            "the server decides about it",
        ),
        (args.limits.max_time.is_some(), "--max-time", NO_TIME_LIMIT),
    ])?;
    let Some(file) = args.file.as_deref() else {
        return Err(CliError::usage("no_file", "the pipeline is missing").help("name its file"));
    };
    let runs = ServerRuns::new(on, &args.server, &args.runs, program)?;
    let id = match &args.run_id {
        Some(id) => runs.id(id)?,
        None => RunId::generate(now()),
    };
    let name = pipeline_name(pipelines, file);
    let Some(source) = Source::find(args, file, pipelines, terminal)? else {
        return Ok(Exit::Invalid);
    };
    let start = RemoteStart {
        params: source.parameters(&args.set, terminal)?,
        seed: args.seed,
        budget: parse_limits(&args.limits)?.budget,
        ..RemoteStart::of(name)
    };
    let given = source.answers(&args.answers)?;
    let started = async {
        let started = runs.client.start(&id, start).await;
        started.map_err(|error| runs.error(&error))?;
        Ok(0)
    };
    let followed = Followed {
        runs: &runs,
        id: &id,
        answers: &args.answers,
        given,
        terminal,
    };
    followed.follow(started)
}

pub(super) fn resume(
    args: &ResumeArgs,
    on: &str,
    program: &str,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let options = &args.options;
    refuse(&[
        (
            args.take_over,
            "--take-over",
            "the server starts the stages of a lost worker elsewhere by itself",
        ),
        (
            args.accept_loss,
            "--accept-loss",
            "no records of such a run are lost",
        ),
        (args.retry, "--retry", "start a new run with `run --on`"),
        (
            options.config.is_some(),
            "--config",
            "workers have the configuration",
        ),
        (
            has_limits(&options.limits),
            "--max-cost, --max-tokens or --max-time",
            "the run keeps the limits that it began with",
        ),
    ])?;
    let runs = ServerRuns::new(on, &args.server, &args.runs, program)?;
    let id = runs.id(&args.run)?;
    let admin = args.admin.as_deref().map(|url| runs.admin(url)).transpose()?;
    // Without the pipeline, answers are checked when their questions are asked.
    let given = unchecked_answers(&options.answers)?;
    let resumed = async {
        let before = events_before(&runs.client, &id).await;
        let before = before.map_err(|error| runs.error(&error))?;
        let resumed = match options.accept_changes {
            true => runs.client.accept_changes(&id, admin.as_ref()).await,
            false => runs.client.resume(&id, admin.as_ref()).await,
        };
        resumed.map_err(|error| runs.error(&error))?;
        Ok(before)
    };
    let followed = Followed {
        runs: &runs,
        id: &id,
        answers: &options.answers,
        given,
        terminal,
    };
    followed.follow(resumed)
}

/// Returns the number of events of a run, also if its workers cannot read its state.
async fn events_before(client: &Client, id: &RunId) -> Result<u64, ClientError> {
    match client.status(id).await {
        Err(ClientError::Refused { code, .. }) if code == "run_parked" => {
            let events = client.events(id, 0).await?;
            Ok(events.last().map_or(0, |event| event.seq))
        }
        status => Ok(status?.events),
    }
}

pub(super) fn attach(
    args: &AttachArgs,
    on: &str,
    program: &str,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let runs = ServerRuns::new(on, &args.server, &args.runs, program)?;
    let id = runs.id(&args.run)?;
    let runtime = crate::runs::runtime::runtime()?;
    terminal.detach();
    let shown = Arc::new(SharedProgress::new(*terminal));
    let forwarder = forwarder(
        &runs,
        &id,
        Console::new(*terminal, shown.clone()),
        is_attended(terminal),
        &shown,
    );
    let run = ServerRun::new(runs, id, 0, shown.clone());
    let follower = Follower::new(run, IfUnanswered::Follow, &shown, terminal);
    let ended = runtime.block_on(follower.follow(args.tail, forwarder));
    runtime.shutdown_background();
    ended
}

fn forwarder<I: Interviewer>(
    runs: &ServerRuns,
    id: &RunId,
    interviewer: I,
    attended: bool,
    shown: &Arc<SharedProgress>,
) -> QuestionForwarder<ServerQuestions, I> {
    let questions = ServerQuestions {
        runs: runs.clone(),
        id: id.clone(),
    };
    QuestionForwarder::new(questions, interviewer, attended, shown.clone())
}

/// The pipeline of a new run, if this machine has it.
struct Source {
    pipeline: Option<SharedPipeline>,
    agents: Option<ProjectAgents>,
}

impl Source {
    /// Loads the pipeline of the program, or its file. Prints the diagnostics of an invalid pipeline and returns `None`.
    /// If there is none here, workers may have it all the same.
    fn find(
        args: &RunArgs,
        file: &str,
        pipelines: &Pipelines,
        terminal: &Terminal,
    ) -> Result<Option<Source>, CliError> {
        let is_here = pipelines.entry(file).is_some()
            || VersionName::parse_file(file).is_some()
            || Path::new(file).exists();
        if !is_here {
            return Ok(Some(Source {
                pipeline: None,
                agents: None,
            }));
        }
        let loaded = pipelines.load_to_run(file, &args.lints)?;
        let Some(pipeline) = valid_pipeline(&loaded, file, terminal) else {
            return Ok(None);
        };
        let compiled = pipelines.entry(file).and_then(Entry::configuration);
        let agents = ProjectAgents::find(args.config.as_deref(), &pipeline.file, compiled, terminal)?;
        Ok(Some(Source {
            pipeline: Some(pipeline),
            agents: Some(agents),
        }))
    }

    /// Returns the values of `--set` without the secrets of this machine.
    fn parameters(&self, pairs: &[String], terminal: &Terminal) -> Result<Context, CliError> {
        let (contract, mut secrets) = match &self.pipeline {
            Some(pipeline) => (
                Contract::from_pipeline(pipeline),
                secrets_of_environment(pipeline, terminal),
            ),
            None => (Contract::default(), Vec::new()),
        };
        secrets.extend(self.agents.iter().flat_map(ProjectAgents::secrets));
        let redactor = Redactor::new(secrets);
        let mut context = Context::new();
        for (key, mut value) in parameters(pairs, &contract)? {
            redactor.value(&mut value);
            context.set(key, value);
        }
        Ok(context)
    }

    fn answers(&self, options: &AnswerOptions) -> Result<QueueInterviewer, CliError> {
        let Some(pipeline) = &self.pipeline else {
            return unchecked_answers(options);
        };
        let asking = self.agents.as_ref().map(|agents| agents.asking_stages(pipeline));
        parse_answers(&options.answer, pipeline, &asking.unwrap_or_default())
    }
}

/// Parses answers to the questions of a pipeline that is not here.
fn unchecked_answers(options: &AnswerOptions) -> Result<QueueInterviewer, CliError> {
    let mut queue = QueueInterviewer::new();
    for pair in &options.answer {
        let (node, choice) = crate::questions::answers::split_answer(pair)?;
        queue = queue.answers_for(node, [orchestra_engine::Answer::choice(choice)]);
    }
    Ok(queue)
}

/// A run that is started or resumed, and then followed.
struct Followed<'f> {
    runs: &'f ServerRuns,
    id: &'f RunId,
    answers: &'f AnswerOptions,
    given: QueueInterviewer,
    terminal: &'f Terminal,
}

impl Followed<'_> {
    /// Begins the run, and follows it from the event after the returned number.
    fn follow(self, begin: impl Future<Output = Result<u64, CliError>>) -> Result<Exit, CliError> {
        let (runs, id, terminal) = (self.runs, self.id, self.terminal);
        let runtime = crate::runs::runtime::runtime()?;
        terminal.detach();
        let shown = Arc::new(SharedProgress::new(*terminal));
        let answer_command = {
            let (runs, id) = (runs.clone(), id.clone());
            AnswerCommand::with(move |gate, choice| runs.command("answer", &id, &[gate, choice]))
        };
        let interviewer = Answers {
            given: self.given,
            approve: self.answers.auto_approve,
            console: Console::new(*terminal, shown.clone())
                .with_answer_command(Arc::new(answer_command), self.answers.wait),
        };
        let forwarder = forwarder(runs, id, interviewer, true, &shown);
        let ended = runtime.block_on(async {
            let after = begin.await?;
            let place = format!("run {id} on {}", runs.client.url());
            shown.progress().show_branches_below_title(vec![place]);
            let run = ServerRun::new(runs.clone(), id.clone(), after, shown.clone());
            let follower = Follower::new(run, IfUnanswered::Stop, &shown, terminal);
            follower.follow(false, forwarder).await
        });
        // Do not wait for a pending request.
        runtime.shutdown_background();
        ended
    }
}
