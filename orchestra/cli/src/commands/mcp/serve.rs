//! `mcp serve`: pipelines as tools of the Model Context Protocol. Runs are ordinary run folders.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orchestra_engine::{
    Answer, AnsweredBy, Begin, ControlClient, Engine, Entry, OfflineError, PausedRun, Question,
    ResumeSettings, RunFailure, RunFolder, RunHandle, RunId, RunResult, RunStatus, SharedInterviewer,
    StartError, StartSettings,
};
use orchestra_graph::{Contract, Pipeline, SharedPipeline};
use orchestra_mcp::{Answered, HostFuture, PipelineHost, PipelineTool};
use orchestra_sessions::{RunFilter, SessionStatus};
use serde_json::{Map, Value, json};

use crate::args::McpServeArgs;
use crate::commands::control::paused_run;
use crate::commands::run::{find_agents, valid_pipeline};
use crate::commands::served::ServedPipelines;
use crate::error::{CliError, Exit};
use crate::project::pipelines::Pipelines;
use crate::runs::Runs;
use crate::runs::errors::start_error;
use crate::runs::runtime::runtime;
use crate::runs::signals::Signals;
use crate::runs::stopped::StoppedRun;
use crate::runs::telemetry::{RunTelemetry, run_folders};
use crate::terminal::Terminal;

/// Number of runs that `run_status` lists.
const MAX_LISTED: usize = 20;
/// Maximum length of a text in a report, in characters.
const MAX_TEXT: usize = 20_000;
/// Maximum length of the name of a tool.
const MAX_NAME: usize = 64;

pub(crate) fn serve(
    args: &McpServeArgs,
    program: &str,
    pipelines: &Pipelines,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    // Standard output belongs to the protocol, so only errors are printed, and end the command. The errors of a run are
    // reported to the client.
    let quiet = Terminal {
        quiet: true,
        ..*terminal
    };
    let project = ServedPipelines {
        pipelines: pipelines.clone(),
        runs: Runs::new(&args.runs, program),
        config: args.config.clone(),
        terminal: quiet,
        secrets: Vec::new(),
    };
    let mut served: Vec<Served> = Vec::new();
    for file in &args.files {
        let loaded = pipelines.load_to_run(file, &args.lints)?;
        let pipeline = valid_pipeline(&loaded, file, &quiet);
        let (Some(pipeline), Some(entry)) = (pipeline, project.entry(file, &loaded)) else {
            return Ok(Exit::Invalid);
        };
        let config = args.config.as_deref();
        find_agents(
            config,
            &pipeline,
            Some(&loaded),
            entry.configuration(),
            None,
            &quiet,
        )?;
        let tool = tool(&pipeline);
        if let Some(other) = served.iter().find(|other| other.tool.name == tool.name) {
            let message = format!(
                "`{}` and `{file}` would both be the tool `{}`",
                other.entry.pipeline().file,
                tool.name
            );
            return Err(CliError::usage("same_name", message).help("give their graphs different names"));
        }
        served.push(Served { tool, entry });
    }
    let names: Vec<&str> = served.iter().map(|served| served.tool.name.as_str()).collect();
    terminal.progress(&format!(
        "serving {} on standard input and output",
        names.join(", ")
    ));
    let telemetry = RunTelemetry::from_environment(terminal);
    let host = Host(Arc::new(Shared {
        served,
        project,
        telemetry: telemetry.clone(),
    }));
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        let mut signals = Signals::new();
        let stop = signals.next();
        orchestra_mcp::serve_pipelines(host, std::io::stdin(), std::io::stdout(), stop).await
    });
    runtime.shutdown_background();
    telemetry.finish(terminal);
    match ended {
        Ok(()) => Ok(Exit::Ok),
        Err(error) => Err(CliError::usage("mcp_serve", error.to_string()).exit(Exit::RunFailed)),
    }
}

/// A pipeline as a tool.
struct Served {
    tool: PipelineTool,
    entry: Entry,
}

/// The pipelines that are served and their runs. Its methods read files, so that [`Host`] calls them on other threads.
struct Shared {
    served: Vec<Served>,
    project: ServedPipelines,
    telemetry: RunTelemetry,
}

/// The host of the pipelines. The runtime that executes the runs never waits for a file or another process.
struct Host(Arc<Shared>);

/// Returns a pipeline as a tool.
fn tool(pipeline: &SharedPipeline) -> PipelineTool {
    let contract = Contract::from_pipeline(pipeline);
    let inputs = contract.inputs();
    let property = |field: &orchestra_graph::Field| (field.key.clone(), field.value_type.json_schema());
    let properties: Map<String, Value> = inputs.iter().map(property).collect();
    let required = inputs.iter().filter(|field| !field.optional);
    let required: Vec<&str> = required.map(|field| field.key.as_str()).collect();
    let title = pipeline.title();
    let sign = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '_'
        }
    };
    let name = format!("pipeline_{}", title.chars().map(sign).collect::<String>());
    let goal = match pipeline.goal() {
        "" => String::new(),
        goal => format!(": {goal}"),
    };
    PipelineTool {
        name: name.chars().take(MAX_NAME).collect(),
        description: format!(
            "Runs the pipeline `{title}`{goal}. Waits until the run ends or waits for a person."
        ),
        input_schema: json!({
            "type": "object", "properties": properties, "required": required,
            "additionalProperties": inputs.is_empty(),
        }),
    }
}

/// Returns an error of the command line as a message for a client.
fn message(error: CliError) -> String {
    match error.advice() {
        Some(help) => format!("{}: {} ({help})", error.code, error.message),
        None => format!("{}: {}", error.code, error.message),
    }
}

impl Shared {
    /// Creates the engine of a run that is about to start, or to be resumed.
    fn engine(&self, entry: &Entry, begin: &Begin, interviewer: SharedInterviewer) -> Result<Engine, String> {
        let engine = self.project.engine(entry, None).map_err(message)?;
        let engine = engine.with_default_interviewer(interviewer);
        Ok(self.telemetry.observe(engine, run_folders(begin)))
    }

    /// Returns the folder of a run by its id. A client names runs of this folder, and no other folders.
    fn folder(&self, run: &str) -> Result<PathBuf, String> {
        let shown = run.escape_debug();
        let id = RunId::new(run)
            .map_err(|_| format!("`{shown}` is not the id of a run; `run_status` lists the latest runs"))?;
        let folder = self.project.runs.dir().join(&*id);
        if !RunFolder::is_one(&folder) {
            return Err(format!(
                "there is no run `{shown}`; `run_status` lists the latest runs"
            ));
        }
        std::path::absolute(&folder).map_err(|error| error.to_string())
    }

    /// Opens a run by its id.
    fn open(&self, run: &str) -> Result<RunFolder, String> {
        RunFolder::open(self.folder(run)?).map_err(|error| error.to_string())
    }

    /// Returns the pipeline of a run, if it is served here.
    fn served_of(&self, folder: &RunFolder) -> Result<&Served, String> {
        let manifest = folder.manifest();
        let is = |served: &&Served| {
            let pipeline: &Pipeline = served.entry.pipeline();
            *pipeline.file == *manifest.file && pipeline.name == *manifest.name
        };
        self.served.iter().find(is).ok_or_else(|| {
            format!(
                "the run `{}` is one of the pipeline `{}`, which is not served here",
                manifest.run, manifest.file
            )
        })
    }

    /// Returns the pipeline of a tool that takes these inputs.
    fn served_with(&self, tool: &str, inputs: &Map<String, Value>) -> Result<&Served, String> {
        let served = self.served.iter().find(|served| served.tool.name == tool);
        let served = served.ok_or_else(|| format!("there is no pipeline `{tool}`"))?;
        let contract = Contract::from_pipeline(served.entry.pipeline());
        let unknown = inputs.keys().find(|key| {
            !contract.inputs().is_empty() && !contract.inputs().iter().any(|field| field.key == **key)
        });
        if let Some(key) = unknown {
            let names = contract.inputs().iter().map(|field| format!("`{}`", field.key));
            let names: Vec<String> = names.collect();
            return Err(format!(
                "unknown input `{key}`; the inputs are {}",
                names.join(", ")
            ));
        }
        Ok(served)
    }

    /// Returns the question of a gate, and how to answer it.
    fn question(&self, run: &str, question: &Question) -> Value {
        let runs = &self.project.runs;
        let choices: Vec<Value> = question
            .options
            .iter()
            .map(|option| json!({"key": option.key, "label": option.label}))
            .collect();
        let gate = &question.node;
        let (choice, of) = match question.options.first() {
            Some(option) => (option.key.as_str(), "one of the keys of `choices`"),
            None => ("TEXT", "the text of the answer"),
        };
        let command = |verb: &str, options: &[&str]| {
            let folder = std::path::absolute(runs.dir().join(run)).unwrap_or_default();
            runs.command(verb, &folder, options)
        };
        json!({
            "gate": gate, "text": question.text, "choices": choices,
            "how_to_answer": format!(
                "ask a person, then call the tool `answer` with the run `{run}`, the gate `{gate}` and {of}; or run `{}` and `{}`",
                command("answer", &[gate, choice]),
                command("resume", &[]),
            ),
        })
    }

    fn list(&self) -> Result<Value, String> {
        let runs = &self.project.runs;
        if !runs.dir().is_dir() {
            return Ok(json!({"runs": []}));
        }
        let index = runs.index().map_err(message)?;
        let filter = RunFilter::all().limit(MAX_LISTED);
        let listed = index.list(&filter).map_err(|error| error.to_string())?;
        let runs = listed.into_iter().map(|session| {
            let session = index.with_present_status(session);
            json!({"run": session.run, "pipeline": session.name, "status": session.status.word()})
        });
        Ok(json!({"runs": runs.collect::<Vec<_>>()}))
    }

    fn state(&self, run: &str) -> Result<Value, String> {
        let id = self.open(run)?.manifest().run.clone();
        let index = self.project.runs.index().map_err(message)?;
        let session = index.run(&id).map_err(|error| error.to_string())?;
        let session = index.with_present_status(session);
        let has_ended = matches!(
            session.status,
            SessionStatus::Success | SessionStatus::Fail | SessionStatus::Cancelled
        );
        let questions: Vec<Value> = session
            .unanswered
            .iter()
            .filter(|_| !has_ended)
            .map(|open| self.question(&id, &open.question))
            .collect();
        Ok(json!({
            "run": id, "pipeline": session.name, "status": session.status.word(), "questions": questions,
        }))
    }

    /// Answers the question of a gate. Returns the run if no process executes it.
    fn answer(&self, run: &str, gate: &str, answer: &Answer) -> Result<Option<PausedRun>, String> {
        let opened = self.open(run)?;
        self.served_of(&opened)?;
        if opened.owner().map_err(|error| error.to_string())?.is_some() {
            let client = ControlClient::open(opened.path()).map_err(|error| error.to_string())?;
            let sent = client.answer(gate, answer.clone());
            return sent.map(|()| None).map_err(|error| error.to_string());
        }
        let paused = paused_run(&opened);
        paused
            .map(Some)
            .map_err(|error| self.start_error(&error, Some(opened.path())))
    }

    fn start_error(&self, error: &StartError, folder: Option<&Path>) -> String {
        message(start_error(error, &self.project.runs, folder))
    }
}

impl Host {
    /// Does what may wait for a file, or for another process, on a thread of its own.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let shared = self.0.clone();
        let done = tokio::task::spawn_blocking(move || work(&shared)).await;
        done.map_err(|error| error.to_string())?
    }

    async fn begin(&self, entry: &Entry, engine: &Engine, begin: Begin) -> Result<RunHandle, String> {
        let folder = begin.folder().map(PathBuf::from);
        let begun = entry.begin(engine, begin).await;
        begun.map_err(|error| self.0.start_error(&error, folder.as_deref()))
    }
}

impl PipelineHost for Host {
    fn pipelines(&self) -> Vec<PipelineTool> {
        self.0.served.iter().map(|served| served.tool.clone()).collect()
    }

    fn start<'a>(
        &'a self,
        tool: &'a str,
        inputs: Map<String, Value>,
        interviewer: SharedInterviewer,
    ) -> HostFuture<'a, RunHandle> {
        Box::pin(async move {
            let tool = tool.to_owned();
            let prepare = move |shared: &Shared| {
                let entry = shared.served_with(&tool, &inputs)?.entry.clone();
                let begin = Begin::Start(StartSettings {
                    params: inputs.into_iter().collect(),
                    ..StartSettings::default()
                });
                let engine = shared.engine(&entry, &begin, interviewer)?;
                Ok((entry, engine, begin))
            };
            let (entry, engine, begin) = self.blocking(prepare).await?;
            self.begin(&entry, &engine, begin).await
        })
    }

    fn resume<'a>(&'a self, run: &'a str, interviewer: SharedInterviewer) -> HostFuture<'a, RunHandle> {
        Box::pin(async move {
            let run = run.to_owned();
            let prepare = move |shared: &Shared| {
                let opened = shared.open(&run)?;
                let entry = shared.served_of(&opened)?.entry.clone();
                let begin = Begin::Resume {
                    folder: opened.path().to_owned(),
                    settings: ResumeSettings::default(),
                    take_over: false,
                    retry: false,
                };
                let engine = shared.engine(&entry, &begin, interviewer)?;
                Ok((entry, engine, begin))
            };
            let (entry, engine, begin) = self.blocking(prepare).await?;
            self.begin(&entry, &engine, begin).await
        })
    }

    fn answer<'a>(&'a self, run: &'a str, gate: &'a str, choice: &'a str) -> HostFuture<'a, Answered> {
        Box::pin(async move {
            // The client says that a person has decided; nobody here has seen the person.
            let answer = Answer::choice(choice).by(AnsweredBy::Prepared);
            let sent = (run.to_owned(), gate.to_owned(), answer.clone());
            let send = move |shared: &Shared| shared.answer(&sent.0, &sent.1, &sent.2);
            let Some(paused) = self.blocking(send).await? else {
                return Ok(Answered::Elsewhere);
            };
            match paused.answer(gate, answer).await {
                Ok(result) if result.status == RunStatus::Paused => Ok(Answered::Paused),
                Ok(result) => Ok(Answered::Ended(Box::new(result))),
                Err(OfflineError::Start(error)) => {
                    let folder = self.0.folder(run).ok();
                    Err(self.0.start_error(&error, folder.as_deref()))
                }
                Err(error) => Err(error.to_string()),
            }
        })
    }

    fn status<'a>(&'a self, run: Option<&'a str>) -> HostFuture<'a, Value> {
        let run = run.map(str::to_owned);
        Box::pin(self.blocking(move |shared| match run {
            Some(run) => shared.state(&run),
            None => shared.list(),
        }))
    }

    fn report<'a>(&'a self, result: &'a RunResult) -> HostFuture<'a, Value> {
        Box::pin(async move {
            let run = result.run_id.to_string();
            let runs = &self.0.project.runs;
            let mut report = Map::new();
            report.insert("run".to_owned(), run.as_str().into());
            report.insert("status".to_owned(), result.status.word().into());
            if let Some(failure) = &result.failure {
                report.insert("reason".to_owned(), failure.to_string().into());
            }
            if let Some(RunFailure::WaitsForHuman { node, .. }) = &result.failure {
                let (node, folder) = (node.to_string(), result.run_dir.clone());
                let question = move |shared: &Shared| {
                    let stopped = StoppedRun::in_folder(&shared.project.runs, folder.as_deref());
                    let question = stopped.pending_question(&node);
                    Ok(question.map(|question| shared.question(&run, &question)))
                };
                let question = self.blocking(question).await?;
                report.insert("question".to_owned(), question.unwrap_or_default());
            } else if result.status == RunStatus::Paused {
                let stopped = StoppedRun::in_folder(runs, result.run_dir.as_deref());
                report.insert("resume".to_owned(), stopped.resume().into());
            }
            let response: String = result
                .context
                .text("last_response")
                .chars()
                .take(MAX_TEXT)
                .collect();
            report.insert("last_response".to_owned(), response.into());
            let path: Vec<&str> = result.path.iter().collect();
            report.insert("path".to_owned(), path.into());
            let folder = result.run_dir.as_deref();
            let folder = folder.map(|folder| runs.display_path(folder));
            report.insert("run_folder".to_owned(), folder.into());
            Ok(Value::Object(report))
        })
    }
}
