//! The command line, as a contract: commands, options, their help.

mod man;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "restate")]
mod restate;
mod stations;

use std::path::PathBuf;

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

pub(crate) use man::ManArgs;
#[cfg(feature = "mcp")]
pub(crate) use mcp::{McpArgs, McpCommand, McpLockArgs, McpServeArgs};
#[cfg(feature = "restate")]
pub(crate) use restate::{ExportArgs, ServeRestateArgs, ServerOptions, SyncArgs};
pub(crate) use stations::{StationsArgs, StationsCommand};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const EXIT_CODES: &str = "Exit codes:
  0  ok
  1  the run failed
  2  wrong usage
  3  the pipeline is invalid
  4  credentials are missing
  5  the run waits for a person, and nobody is there to answer
  6  a budget or the time limit was reached
  7  another process owns the run
  74  the output could not be written
  130  the run was cancelled, paused or interrupted";

/// The folder of all run folders, where nothing else is said.
pub(crate) const RUNS: &str = ".orchestra/runs";

const RUN: &str = "The run: its id, a unique prefix of the id, `last`, or its folder";

/// Checks, draws and runs pipelines written in Graphviz DOT.
#[derive(Debug, Parser)]
#[command(name = "orchestra", version, styles = STYLES, after_help = EXIT_CODES, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Write JSON lines to standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Disable colours
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
    /// Print only results and errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check whether pipelines can be run, and print their diagnostics
    Check(CheckArgs),
    /// Check a pipeline and print its resolved graph: handlers, models, edges
    Compile(CompileArgs),
    /// Run a pipeline
    Run(RunArgs),
    /// Resume a stopped run
    Resume(ResumeArgs),
    /// Start a new run from a checkpoint of another run
    Replay(ReplayArgs),
    /// List runs, or show one in detail: path, attempts, cost, reason of each transition
    Status(StatusArgs),
    /// Compare two runs: up to where they agree, where they diverge, and why
    Compare(CompareArgs),
    /// List the checkpoints from which a run can be replayed
    Checkpoints(CheckpointsArgs),
    /// Follow a run that another process executes, and answer its questions
    Attach(AttachArgs),
    /// Answer a question of a run
    Answer(AnswerArgs),
    /// Pause a run that another process executes, so that it can be resumed
    Pause(PauseArgs),
    /// End a run
    Cancel(CancelArgs),
    /// Draw a pipeline, optionally coloured by the state of a run
    Graph(GraphArgs),
    /// Show the limits of a pipeline, and try all outcomes and answers without running anything
    Explore(ExploreArgs),
    /// Record released versions of pipelines, and refuse those that break unfinished runs
    Lock(LockArgs),
    /// Record the tools of MCP servers for review, or serve pipelines as such tools
    #[cfg(feature = "mcp")]
    Mcp(McpArgs),
    /// Explain a diagnostic: meaning, reason, a bad and a good example
    Explain(ExplainArgs),
    /// Format pipelines canonically, keeping their comments
    Fmt(FmtArgs),
    /// Remove the folders of runs that ended long ago, their worktrees, and merged branches
    Cleanup(CleanupArgs),
    /// Show runs in a browser, start them, and answer their questions
    #[cfg(feature = "server")]
    Serve(ServeArgs),
    /// Work for a Restate server: execute the runs that `run --on` starts there
    #[cfg(feature = "restate")]
    ServeRestate(ServeRestateArgs),
    /// Copy a run of a Restate server to a run folder, which `status`, `compare`, `replay` and `serve` read
    #[cfg(feature = "restate")]
    Export(ExportArgs),
    /// Export the runs of a Restate server that are new or have changed
    #[cfg(feature = "restate")]
    Sync(SyncArgs),
    /// Keep workflows with their versions in a database; `stations:NAME` runs one
    Stations(StationsArgs),
    /// Serve an editor: the language server, on standard input and output
    #[cfg(feature = "lsp")]
    Lsp {
        /// Accepted for clients that always pass it; there is no other transport
        #[arg(long, hide = true)]
        stdio: bool,
    },
    /// Create a project that compiles and runs
    Init(InitArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page of the program or of a command, or write all pages to a folder
    Man(ManArgs),
}

/// What to report, and how gravely.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Lints {
    /// Treat warnings with this code as errors; `warnings` means all
    #[arg(long, value_name = "CODE")]
    pub(crate) deny: Vec<String>,
    /// Suppress warnings and notes with this code
    #[arg(long, value_name = "CODE")]
    pub(crate) allow: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The pipelines
    #[arg(required_unless_present = "locked", value_name = "FILE")]
    pub(crate) files: Vec<String>,
    #[command(flatten)]
    pub(crate) lints: Lints,
    /// The format of diagnostics
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// The project configuration [default: the nearest `orchestra.yaml` in the folder of each pipeline or a parent]
    #[arg(long, value_name = "orchestra.yaml")]
    pub(crate) config: Option<PathBuf>,
    /// Compare with the versions in `orchestra.lock`, and refuse what breaks unfinished runs; without files, check all
    /// locked pipelines
    #[arg(long)]
    pub(crate) locked: bool,
    /// Also try each unfinished run of this folder of runs
    #[arg(long, value_name = "DIR", requires = "locked")]
    pub(crate) runs: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct LockArgs {
    /// The pipelines; without any, all that are locked already
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// Record the new version also if it breaks unfinished runs, and keep the old one beside it
    #[arg(long, conflicts_with = "retire")]
    pub(crate) accept: bool,
    /// Remove a version of a pipeline that no unfinished run needs
    #[arg(long, value_name = "VERSION")]
    pub(crate) retire: Option<u32>,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// With source lines, reasons and help
    Text,
    /// One line each
    Concise,
    /// Annotations of GitHub Actions, one line each
    Github,
    /// One JSON object each
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct CompileArgs {
    /// The pipeline
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    /// The project configuration [default: the nearest `orchestra.yaml` in the folder of the pipeline or a parent]
    #[arg(long, value_name = "orchestra.yaml")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) lints: Lints,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The pipeline
    #[arg(value_name = "FILE", required_unless_present_any = ["simulate", "simulate_models"])]
    pub(crate) file: Option<String>,
    /// Simulate: call no model, run no tool; take outcomes from the script, else succeed
    #[arg(long, value_name = "SCRIPT.yaml", num_args = 0..=1, default_missing_value = "")]
    pub(crate) simulate: Option<String>,
    /// Simulate model stages and the stages in the script; run all others
    #[arg(long, value_name = "SCRIPT.yaml", num_args = 0..=1, default_missing_value = "", conflicts_with = "simulate")]
    pub(crate) simulate_models: Option<String>,
    /// The outcomes of a simulated stage, in order; the last one repeats
    #[arg(long, value_name = "NODE=WORD[,WORD]")]
    pub(crate) outcome: Vec<String>,
    #[command(flatten)]
    pub(crate) answers: AnswerOptions,
    /// Set a context value: JSON if it parses, else text; `KEY=@FILE` reads a file, `KEY=@-` reads standard input
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// The project configuration [default: the nearest `orchestra.yaml` in the folder of the pipeline or a parent]
    #[arg(long, value_name = "orchestra.yaml")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
    /// Use this folder as the run folder
    #[arg(long, value_name = "DIR")]
    pub(crate) run_dir: Option<PathBuf>,
    /// The id of the run [default: a new one that begins with the time]
    #[arg(long, value_name = "ID")]
    pub(crate) run_id: Option<String>,
    /// The random seed of the run
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) limits: LimitOptions,
    /// The failure that the result of a finished stage must survive
    #[arg(long, value_enum, default_value_t = DurabilityLevel::Full)]
    pub(crate) durability: DurabilityLevel,
    #[command(flatten)]
    pub(crate) lints: Lints,
    #[cfg(feature = "restate")]
    #[command(flatten)]
    pub(crate) server: ServerOptions,
}

/// Where runs are.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunsDir {
    /// The folder of all run folders
    #[arg(id = "runs", long = "runs", value_name = "DIR", default_value = RUNS)]
    pub(crate) dir: PathBuf,
}

/// Who answers the questions of a run, beside a person.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct AnswerOptions {
    /// Answer a human gate in advance; several answers to one gate are used in order
    #[arg(long, value_name = "NODE=CHOICE")]
    pub(crate) answer: Vec<String>,
    /// Approve every human gate without asking: yes, or the first choice
    #[arg(long)]
    pub(crate) auto_approve: bool,
    /// Wait for `answer` or `attach` instead of pausing the run if nobody can be asked here
    #[arg(long)]
    pub(crate) wait: bool,
}

/// How much a run may use; it pauses when it has.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct LimitOptions {
    /// The maximum cost of model calls, such as `2.50`
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<String>,
    /// The maximum number of input and output tokens
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<u64>,
    /// The maximum duration of the run, such as `15m`
    #[arg(long, value_name = "DURATION")]
    pub(crate) max_time: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityLevel {
    /// A power failure
    Full,
    /// A crash of the process
    Process,
    /// None: state is stored only when the run pauses or ends
    None,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    #[arg(value_name = "RUN", help = RUN)]
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) options: ResumeOptions,
    /// Take over the run from a hung process, which can then write no more
    #[arg(long)]
    pub(crate) take_over: bool,
    /// Resume although records of the run are lost: start from the latest remaining state and repeat later work
    #[arg(long)]
    pub(crate) accept_loss: bool,
    /// Retry a failed run at the stage that failed
    #[arg(long)]
    pub(crate) retry: bool,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
    #[cfg(feature = "restate")]
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// The administration of the Restate server, to send stages again whose invocations an operator ended
    #[cfg(feature = "restate")]
    #[arg(long, value_name = "URL", requires = "on")]
    pub(crate) admin: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    #[arg(value_name = "RUN", help = RUN)]
    pub(crate) run: String,
    /// The checkpoint to start from, such as `cp_000012`; `orchestra checkpoints RUN` lists them
    #[arg(long, value_name = "CHECKPOINT")]
    pub(crate) checkpoint: String,
    #[command(flatten)]
    pub(crate) options: ResumeOptions,
    /// Use this folder as the folder of the new run
    #[arg(long, value_name = "DIR")]
    pub(crate) run_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
}

/// How a run that was begun before goes on.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ResumeOptions {
    /// Resume with a changed pipeline if the current nodes of the run still exist
    #[arg(long)]
    pub(crate) accept_changes: bool,
    /// The project configuration [default: the nearest `orchestra.yaml` in the folder of the pipeline or a parent]
    #[arg(long, value_name = "orchestra.yaml")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) answers: AnswerOptions,
    #[command(flatten)]
    pub(crate) limits: LimitOptions,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[arg(value_name = "RUN", help = RUN)]
    pub(crate) run: Option<String>,
    /// The maximum number of runs to list
    #[arg(long, value_name = "N", conflicts_with = "run")]
    pub(crate) limit: Option<usize>,
    /// Show the complete path
    #[arg(long, requires = "run")]
    pub(crate) all: bool,
    /// Show a summary of the run, for the page of a job
    #[arg(long, value_name = "FORMAT", requires = "run")]
    pub(crate) summary: Option<Summary>,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
    #[cfg(feature = "restate")]
    #[command(flatten)]
    pub(crate) server: ServerOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Summary {
    Markdown,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    #[arg(value_name = "RUN", help = RUN)]
    pub(crate) run: String,
    /// The other run, named in the same way
    #[arg(value_name = "OTHER")]
    pub(crate) other: String,
    /// Show all steps
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
}

#[derive(Debug, Args)]
pub(crate) struct CheckpointsArgs {
    #[arg(value_name = "RUN", help = RUN)]
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
}

#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    #[arg(value_name = "RUN", help = RUN)]
    pub(crate) run: String,
    /// Show new events only
    #[arg(long)]
    pub(crate) tail: bool,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
    #[cfg(feature = "restate")]
    #[command(flatten)]
    pub(crate) server: ServerOptions,
}

#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    #[arg(value_name = "RUN", help = RUN)]
    pub(crate) run: String,
    /// The gate to answer
    #[arg(value_name = "GATE")]
    pub(crate) gate: String,
    /// The key, label or target of a choice, or text if the gate accepts text
    #[arg(value_name = "CHOICE")]
    pub(crate) choice: String,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
    #[cfg(feature = "restate")]
    #[command(flatten)]
    pub(crate) server: ServerOptions,
}

#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    #[arg(value_name = "RUN", help = RUN)]
    pub(crate) run: String,
    /// The reason, which is stored with the run
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
    #[cfg(feature = "restate")]
    #[command(flatten)]
    pub(crate) server: ServerOptions,
}

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    #[arg(value_name = "RUN", help = RUN)]
    pub(crate) run: String,
    /// The reason, which is stored with the run
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
    #[cfg(feature = "restate")]
    #[command(flatten)]
    pub(crate) server: ServerOptions,
}

#[derive(Debug, Args)]
pub(crate) struct CleanupArgs {
    /// Remove runs that ended longer ago than this
    #[arg(long, value_name = "DURATION", default_value = "7d")]
    pub(crate) older_than: String,
    /// Also remove paused runs, which could be resumed
    #[arg(long)]
    pub(crate) paused: bool,
    /// Print what would be removed without removing it
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Also remove older branches of runs whose commits exist nowhere else
    #[arg(long)]
    pub(crate) force: bool,
    /// The project configuration that names the repositories [default: the `orchestra.yaml` of the current folder]
    #[arg(long, value_name = "orchestra.yaml")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
}

#[cfg(feature = "server")]
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The address to listen on; only addresses of this machine, unless there is a public URL
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4680")]
    pub(crate) listen: String,
    /// The URL under which a proxy with TLS publishes the server, such as `https://flow.example`
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// Refuse everything that would change something
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Which pipelines may be sent as text: `off`, `simulate`, `safe` (no commands, files, handlers or models with tools) or
    /// `any`
    #[arg(long, value_name = "KIND", default_value = "safe")]
    pub(crate) submit: orchestra_server::Submit,
    /// The number of runs that the server executes at once
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) max_runs: usize,
    /// Keep the token in this file, for programs and the next start; tools of runs can read it, and so answer for you
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// The project configuration [default: the `orchestra.yaml` beside the pipeline or above it]
    #[arg(long, value_name = "orchestra.yaml")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
}

#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// The pipeline
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    /// Colour it by the state of this run: its id, a unique prefix of the id, `last`, or its folder
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
    /// The output format [default: by the extension of the output file, else text on a terminal and SVG otherwise]
    #[arg(long, value_enum)]
    pub(crate) format: Option<Picture>,
    /// Write to this file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ExploreArgs {
    /// The pipeline
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    /// Print scripts of simulated runs that together take every edge and every jump
    #[arg(long)]
    pub(crate) paths: bool,
    /// Write the scripts to files in this folder
    #[arg(long, short, value_name = "DIR", requires = "paths")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Picture {
    /// An SVG picture, laid out by Graphviz if it is installed
    Svg,
    /// Standard Graphviz DOT
    Dot,
    /// A Mermaid flowchart
    Mermaid,
    /// Text for a terminal
    Text,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The code, as printed in brackets [default: list all codes]
    #[arg(value_name = "CODE")]
    pub(crate) code: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct FmtArgs {
    /// The pipelines; `-` reads standard input and writes standard output
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// Change nothing; exit with 1 if a file is not in canonical form
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// The name of the project and of its folder
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The template of the project
    #[arg(long, value_enum, default_value_t = Template::Hello)]
    pub(crate) template: Template,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Template {
    /// A sequence of stages
    Hello,
    /// Tools, a decision on their result, and a custom handler
    Tools,
}
