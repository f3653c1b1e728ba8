//! `mcp serve`: pipelines as tools of the Model Context Protocol. Runs are ordinary run folders.

use std::path::PathBuf;

use orchestra_engine::{
    Answer, AnsweredBy, Begin, ControlClient, Engine, Entry, OfflineError, Question, ResumeSettings,
    RunFailure, RunFolder, RunHandle, RunResult, RunStatus, SharedInterviewer, StartSettings,
    UnansweredQuestions,
};
use orchestra_graph::{Contract, Pipeline, SharedPipeline};
use orchestra_mcp::{Answered, HostFuture, PipelineHost, PipelineTool};
use orchestra_sessions::RunFilter;
use serde_json::{Map, Value, json};

use crate::args::McpServeArgs;
use crate::commands::control::paused_run;
use crate::commands::run::{find_agents, valid_pipeline};
use crate::error::{CliError, Exit};
use crate::project::agents::ProjectAgents;
use crate::project::pipelines::{Pipelines, run_transforms};
use crate::runs::Runs;
use crate::runs::errors::start_error;
use crate::runs::runtime::runtime;
use crate::runs::session::engine_builder;
use crate::runs::stopped::StoppedRun;
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
    let mut served: Vec<Served> = Vec::new();
    for file in &args.files {
        let loaded = pipelines.load_to_run(file, &args.lints)?;
        // Standard output belongs to the protocol, so only errors are printed, and end the command.
        let quiet = Terminal {
            quiet: true,
            ..*terminal
        };
        let Some(pipeline) = valid_pipeline(&loaded, file, &quiet) else {
            return Ok(Exit::Invalid);
        };
        let compiled = pipelines.entry(file).and_then(Entry::configuration);
        let config = args.config.as_deref();
        let agents = find_agents(config, &pipeline, Some(&loaded), compiled, None, &quiet)?;
        let tool = tool(&pipeline);
        if let Some(other) = served.iter().find(|other| other.tool.name == tool.name) {
            let message = format!(
                "`{}` and `{file}` would both be the tool `{}`",
                other.entry.pipeline().file,
                tool.name
            );
            return Err(CliError::usage("same_name", message).help("give their graphs different names"));
        }
        let entry = match pipelines.entry(file) {
            Some(entry) => entry.clone(),
            None => Entry::loaded(file, pipeline, run_transforms()),
        };
        served.push(Served { tool, entry, agents });
    }
    let names: Vec<&str> = served.iter().map(|served| served.tool.name.as_str()).collect();
    terminal.progress(&format!(
        "serving {} on standard input and output",
        names.join(", ")
    ));
    let host = Host {
        served,
        runs: Runs::new(&args.runs, program),
        terminal: *terminal,
    };
    let runtime = runtime()?;
    let ended = runtime.block_on(orchestra_mcp::serve_pipelines(
        host,
        std::io::stdin(),
        std::io::stdout(),
    ));
    runtime.shutdown_background();
    match ended {
        Ok(()) => Ok(Exit::Ok),
        Err(error) => Err(CliError::usage("mcp_serve", error.to_string()).exit(Exit::RunFailed)),
    }
}

/// A pipeline, and what runs it.
struct Served {
    tool: PipelineTool,
    entry: Entry,
    agents: Option<ProjectAgents>,
}

struct Host {
    served: Vec<Served>,
    runs: Runs,
    terminal: Terminal,
}

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

impl Host {
    fn engine(&self, served: &Served, interviewer: SharedInterviewer) -> Result<Engine, String> {
        let pipeline = served.entry.pipeline();
        let builder = engine_builder(pipeline, served.agents.as_ref(), None, &self.runs, &self.terminal);
        let builder = builder.map_err(message)?.interviewer(interviewer);
        builder.build().map_err(|error| error.to_string())
    }

    /// Returns the folder of a run by its id.
    fn folder(&self, run: &str) -> Result<PathBuf, String> {
        // A client names runs of this folder, and no other folders.
        if run.contains(['/', '\\']) || run.starts_with('.') {
            return Err(format!("`{run}` is not the id of a run"));
        }
        self.runs.find(run).map_err(message)
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

    async fn begin(
        &self,
        served: &Served,
        begin: Begin,
        interviewer: SharedInterviewer,
    ) -> Result<RunHandle, String> {
        let engine = self.engine(served, interviewer)?;
        let folder = begin.folder().map(PathBuf::from);
        let begun = served.entry.begin(&engine, begin).await;
        begun.map_err(|error| message(start_error(&error, &self.runs, folder.as_deref())))
    }

    /// Returns the question of a gate, and how to answer it.
    fn question(&self, run: &str, question: &Question) -> Value {
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
            let folder = std::path::absolute(self.runs.dir().join(run)).unwrap_or_default();
            self.runs.command(verb, &folder, options)
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
        if !self.runs.dir().is_dir() {
            return Ok(json!({"runs": []}));
        }
        let index = self.runs.index().map_err(message)?;
        let filter = RunFilter::all().limit(MAX_LISTED);
        let listed = index.list(&filter).map_err(|error| error.to_string())?;
        let runs = listed.into_iter().map(|session| {
            let session = index.with_present_status(session);
            json!({"run": session.run, "pipeline": session.name, "status": session.status.word()})
        });
        Ok(json!({"runs": runs.collect::<Vec<_>>()}))
    }

    fn state(&self, run: &str) -> Result<Value, String> {
        let folder = self.folder(run)?;
        let folder = RunFolder::open(&folder).map_err(|error| error.to_string())?;
        let manifest = folder.manifest();
        let id = manifest.run.to_string();
        let owner = folder.owner().map_err(|error| error.to_string())?;
        let checkpoint = folder.checkpoint().map_err(|error| error.to_string())?;
        let status = match (&owner, checkpoint) {
            (Some(_), _) => "running".to_owned(),
            (None, Some(checkpoint)) => checkpoint.status.clone(),
            (None, None) => "interrupted".to_owned(),
        };
        let mut waiting = UnansweredQuestions::default();
        let read = folder.each_event(|line| waiting.apply_line(line));
        read.map_err(|error| error.to_string())?;
        let questions: Vec<Value> = waiting
            .iter()
            .filter(|_| !matches!(status.as_str(), "success" | "fail" | "cancelled"))
            .map(|open| self.question(&id, &open.question))
            .collect();
        Ok(json!({"run": id, "pipeline": manifest.name, "status": status, "questions": questions}))
    }
}

impl PipelineHost for Host {
    fn pipelines(&self) -> Vec<PipelineTool> {
        self.served.iter().map(|served| served.tool.clone()).collect()
    }

    fn start<'a>(
        &'a self,
        tool: &'a str,
        inputs: Map<String, Value>,
        interviewer: SharedInterviewer,
    ) -> HostFuture<'a, RunHandle> {
        Box::pin(async move {
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
            let settings = StartSettings {
                params: inputs.into_iter().collect(),
                ..StartSettings::default()
            };
            self.begin(served, Begin::Start(settings), interviewer).await
        })
    }

    fn resume<'a>(&'a self, run: &'a str, interviewer: SharedInterviewer) -> HostFuture<'a, RunHandle> {
        Box::pin(async move {
            let folder = self.folder(run)?;
            let opened = RunFolder::open(&folder).map_err(|error| error.to_string())?;
            let served = self.served_of(&opened)?;
            let begin = Begin::Resume {
                folder,
                settings: ResumeSettings::default(),
                take_over: false,
                retry: false,
            };
            self.begin(served, begin, interviewer).await
        })
    }

    fn answer<'a>(&'a self, run: &'a str, gate: &'a str, choice: &'a str) -> HostFuture<'a, Answered> {
        Box::pin(async move {
            let folder = self.folder(run)?;
            let opened = RunFolder::open(&folder).map_err(|error| error.to_string())?;
            self.served_of(&opened)?;
            // The client says that a person has decided; nobody here has seen the person.
            let answer = Answer::choice(choice).by(AnsweredBy::Prepared);
            if opened.owner().map_err(|error| error.to_string())?.is_some() {
                let sent = ControlClient::open(&folder).and_then(|client| client.answer(gate, answer));
                return sent
                    .map(|()| Answered::Elsewhere)
                    .map_err(|error| error.to_string());
            }
            let paused = paused_run(&opened)
                .map_err(|error| message(start_error(&error, &self.runs, Some(&folder))))?;
            match paused.answer(gate, answer).await {
                Ok(result) if result.status == RunStatus::Paused => Ok(Answered::Paused),
                Ok(result) => Ok(Answered::Ended(Box::new(result))),
                Err(OfflineError::Start(error)) => {
                    Err(message(start_error(&error, &self.runs, Some(&folder))))
                }
                Err(error) => Err(error.to_string()),
            }
        })
    }

    fn status<'a>(&'a self, run: Option<&'a str>) -> HostFuture<'a, Value> {
        Box::pin(async move { run.map_or_else(|| self.list(), |run| self.state(run)) })
    }

    fn report(&self, result: &RunResult) -> Value {
        let run = result.run_id.to_string();
        let stopped = StoppedRun::in_folder(&self.runs, result.run_dir.as_deref());
        let mut report = Map::new();
        report.insert("run".to_owned(), run.as_str().into());
        report.insert("status".to_owned(), result.status.word().into());
        if let Some(failure) = &result.failure {
            report.insert("reason".to_owned(), failure.to_string().into());
        }
        if let Some(RunFailure::WaitsForHuman { node, .. }) = &result.failure {
            let question = stopped.pending_question(node);
            let question = question.map(|question| self.question(&run, &question));
            report.insert("question".to_owned(), question.unwrap_or_default());
        } else if result.status == RunStatus::Paused {
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
        let folder = folder.map(|folder| self.runs.display_path(folder));
        report.insert("run_folder".to_owned(), folder.into());
        Value::Object(report)
    }
}
