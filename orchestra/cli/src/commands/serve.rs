//! `serve`: shows runs in a browser, starts them, and answers their questions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use orchestra_config::CONFIGURATION_FILE;
use orchestra_engine::{Disk, Engine, Entry, PausedRun, RunFolder, Script};
use orchestra_graph::{LoadOptions, Loaded, Source, Transform, load};
use orchestra_server::{
    Definition, DefinitionKind, ListeningServer, LoadedDefinition, Project, ProjectError, Server, ServerError,
};
use orchestra_sessions::{Session, SessionStatus};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::control::paused_run;
use super::pipeline_files::pipeline_files;
use super::resume::entry_of_run;
use super::served::ServedPipelines;
use crate::args::{Lints, ServeArgs};
use crate::error::{CliError, Exit};
use crate::project::pipelines::{Pipelines, run_transforms};
use crate::project::webhooks::Webhooks;
use crate::project::workflows::DATABASE;
use crate::report::finish::resume_line;
use crate::runs::Runs;
use crate::runs::signals::Signals;
use crate::runs::stopped::StoppedRun;
use crate::runs::telemetry::RunTelemetry;
use crate::terminal::{Paint, Terminal};

pub(crate) fn serve(
    args: ServeArgs,
    program: &str,
    pipelines: &Pipelines,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let runs = Runs::new(&args.runs, program);
    let telemetry = RunTelemetry::from_environment(terminal);
    let webhooks = Webhooks::find(args.config.as_deref(), terminal)?;
    let started: Vec<String> = webhooks
        .list
        .iter()
        .map(|hook| hook.pipeline().to_owned())
        .collect();
    let pipelines = ServedPipelines {
        pipelines: pipelines.clone(),
        runs: runs.clone(),
        config: args.config.clone(),
        // The errors of a pipeline are reported to whoever requested it.
        terminal: Terminal {
            quiet: true,
            ..*terminal
        },
        secrets: webhooks.secrets,
    };
    let project = ServedProject {
        pipelines,
        telemetry: telemetry.clone(),
    };
    let mut server = Server::with_project(project)
        .submit(args.submit)
        .max_runs(args.max_runs);
    for webhook in webhooks.list {
        server = server.webhook(webhook);
    }
    if args.read_only {
        server = server.read_only();
    }
    if let Some(url) = &args.public_url {
        server = server.public_url(url);
    }
    if let Some(file) = &args.token_file {
        server = server.token_file(file);
    }
    let runtime = crate::runs::runtime::runtime()?;
    let paused = runtime.block_on(async {
        let mut signals = Signals::new();
        let listener = TcpListener::bind(&args.listen).await.map_err(|error| {
            CliError::usage("listen", format!("cannot listen on `{}`: {error}", args.listen))
                .exit(Exit::RunFailed)
                .help("name another address with `--listen 127.0.0.1:0`, which chooses a free port")
        })?;
        let listening = server.listen(listener)?;
        announce(&listening, &started, terminal);
        let mut serving = std::pin::pin!(listening.serve(async {
            signals.next().await;
            terminal.progress("stopping: running stages are asked to stop; once more stops at once");
        }));
        let mut again = Signals::new();
        let mut count = 0;
        Ok::<_, CliError>(loop {
            tokio::select! {
                paused = &mut serving => break paused,
                () = again.next() => {
                    count += 1;
                    // The first signal is the one that the server sees.
                    if count > 1 {
                        break Vec::new();
                    }
                }
            }
        })
    })?;
    runtime.shutdown_background();
    telemetry.finish(terminal);
    let folder = std::path::absolute(runs.dir()).unwrap_or_else(|_| runs.dir().to_owned());
    for run in paused {
        let command = runs.command("resume", &folder.join(run), &[]);
        terminal.message(&resume_line(terminal, &command));
    }
    Ok(Exit::Ok)
}

/// Prints where the server is reached. `pipelines` are those that the webhooks start.
fn announce(listening: &ListeningServer, pipelines: &[String], terminal: &Terminal) {
    let webhooks = listening.webhooks().iter().zip(pipelines);
    if terminal.json {
        let webhooks = webhooks.map(|(url, pipeline)| json!({"url": url, "pipeline": pipeline}));
        let webhooks: Vec<Value> = webhooks.collect();
        terminal.object(&json!({
            "schema": "orchestra.serve/1", "link": listening.link(), "webhooks": webhooks,
        }));
        return;
    }
    let link = terminal.paint_result(Paint::Bold, listening.link());
    terminal.result(&format!("open {link}"));
    for (url, pipeline) in webhooks {
        terminal.result(&format!("deliveries to {url} start `{pipeline}`"));
    }
    terminal.progress("programs send the token as `Authorization: Bearer TOKEN`; stop with Ctrl-C");
}

impl From<ServerError> for CliError {
    fn from(error: ServerError) -> CliError {
        let converted = CliError::usage(error.code(), error.to_string());
        match error {
            ServerError::Exposed { .. } | ServerError::PublicUrl { .. } => converted,
            ServerError::Webhook { name, .. } => converted.exit(Exit::Invalid).help(format!(
                "correct `webhooks: {name}` in `{CONFIGURATION_FILE}`, or the pipeline, whose errors `check` shows"
            )),
            _ => converted.exit(Exit::RunFailed),
        }
    }
}

/// The pipelines of the current folder, as the server sees them.
struct ServedProject {
    pipelines: ServedPipelines,
    telemetry: RunTelemetry,
}

impl From<CliError> for ProjectError {
    fn from(error: CliError) -> ProjectError {
        let refused = ProjectError::new(error.code.clone(), &error.message);
        match error.advice() {
            Some(help) => refused.help(help),
            None => refused,
        }
    }
}

impl Project for ServedProject {
    fn runs_dir(&self) -> PathBuf {
        self.pipelines.runs.dir().to_owned()
    }

    fn definitions(&self) -> Vec<Definition> {
        let compiled = self.pipelines.pipelines.entries.iter().map(|entry| {
            let file = entry.pipeline().file.to_string();
            Definition::new(entry.name(), DefinitionKind::Compiled, file)
        });
        let mut definitions: Vec<Definition> = compiled.collect();
        definitions.extend(
            pipeline_files()
                .iter()
                .map(|file| Definition::new(file, DefinitionKind::File, file)),
        );
        definitions
    }

    fn load(&self, name: &str) -> Result<LoadedDefinition, ProjectError> {
        // A request names what the project offers, not any file of the machine.
        let definition = self
            .definitions()
            .into_iter()
            .find(|definition| definition.name == name);
        let definition = definition.ok_or_else(|| {
            ProjectError::unknown(format!("there is no pipeline `{}`", name.escape_debug()))
        })?;
        let loaded = self.pipelines.pipelines.load_to_run(name, &Lints::default())?;
        let entry = self.pipelines.entry(name, &loaded);
        Ok(LoadedDefinition::new(definition, loaded, entry))
    }

    fn entry_of_run(&self, run: &RunFolder, accept_changes: bool) -> Result<Entry, ProjectError> {
        let entry = entry_of_run(
            run,
            &self.pipelines.pipelines,
            accept_changes,
            &self.pipelines.terminal,
        )?;
        entry.ok_or_else(|| {
            let message = format!("the pipeline `{}` is invalid now", run.manifest().file);
            ProjectError::new("invalid_pipeline", message)
        })
    }

    fn engine(&self, entry: &Entry, script: Option<Script>) -> Result<Engine, ProjectError> {
        let engine = self.pipelines.engine(entry, script)?;
        Ok(self.telemetry.observe(engine, Vec::new()))
    }

    fn paused_run(&self, run: &RunFolder) -> Result<PausedRun, ProjectError> {
        paused_run(run).map_err(|error| ProjectError::new(error.code(), error))
    }

    fn transforms(&self) -> Vec<Arc<dyn Transform>> {
        run_transforms()
    }

    fn stations(&self) -> Option<PathBuf> {
        Some(DATABASE.into())
    }

    fn load_version(&self, source: Source) -> Loaded {
        let options = LoadOptions {
            transforms: run_transforms(),
            children: Some(&Disk),
            ..LoadOptions::default()
        };
        load(source, &options)
    }

    fn commands(&self, session: &Session) -> BTreeMap<&'static str, String> {
        let folder = &*session.folder;
        let command = |verb| self.pipelines.runs.command(verb, folder, &[]);
        let mut commands = BTreeMap::from([
            ("status", command("status")),
            ("checkpoints", command("checkpoints")),
        ]);
        let stopped = StoppedRun::in_folder(&self.pipelines.runs, Some(folder));
        let summary = &session.summary;
        let (code, node) = (summary.code.as_deref(), summary.node.as_deref());
        match session.status {
            SessionStatus::Accepted | SessionStatus::Running => {
                for verb in ["attach", "pause", "cancel"] {
                    commands.insert(verb, command(verb));
                }
            }
            SessionStatus::Paused | SessionStatus::Interrupted => {
                commands.insert("cancel", command("cancel"));
                commands.extend(stopped.resume().map(|resume| ("resume", resume)));
            }
            SessionStatus::Fail => {
                commands.extend(stopped.retry(code).map(|retry| ("retry", retry)));
                commands.extend(stopped.replay(code, node).map(|replay| ("replay", replay)));
            }
            SessionStatus::Cancelled => {
                commands.extend(stopped.replay(code, node).map(|replay| ("replay", replay)));
            }
            _ => {}
        }
        commands
    }
}
