//! The command line, as a contract: commands, options, their help.

use std::path::PathBuf;

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

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
  5  the run waits for a person, and nobody can be asked
  6  a budget or the longest time was reached
  7  another process owns the run
  74  the output could not be written
  130  stopped from outside: cancelled, paused or interrupted";

/// The folder of all run folders, where nothing else is said.
pub(crate) const RUNS: &str = ".orchestra/runs";

const RUN: &str = "The run: its id, the beginning of it, `last`, or its folder";

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
    /// Write no colours
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
    /// Write results and errors only
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check whether pipelines can be run, and print what is wrong with them
    Check(CheckArgs),
    /// Check a pipeline and print its graph: handlers, models, routes
    Compile(CompileArgs),
    /// Run a pipeline
    Run(RunArgs),
    /// Go on with a run that stopped, from where it is
    Resume(ResumeArgs),
    /// Begin a run where another run was at a checkpoint
    Replay(ReplayArgs),
    /// List runs, or show one in depth: path, attempts, cost, why each edge
    Status(StatusArgs),
    /// List the points of a run that one may replay from
    Checkpoints(CheckpointsArgs),
    /// Follow a run that another process executes, and answer its questions
    Attach(AttachArgs),
    /// Answer a question of a run
    Answer(AnswerArgs),
    /// Pause a run that another process executes, so that it can be resumed
    Pause(PauseArgs),
    /// End a run
    Cancel(CancelArgs),
    /// Draw a pipeline, coloured by a run where one is given
    Graph(GraphArgs),
    /// Explain a diagnostic: what, why, a bad and a good example
    Explain(ExplainArgs),
    /// Write pipelines in canonical form, with their comments
    Fmt(FmtArgs),
    /// Remove the folders of runs that ended long ago, their trees, and branches that are merged
    Cleanup(CleanupArgs),
    /// Make a project that compiles and runs
    Init(InitArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// What to report, and how gravely.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Lints {
    /// Treat warnings of a code as errors; `warnings` means all
    #[arg(long, value_name = "CODE")]
    pub(crate) deny: Vec<String>,
    /// Do not report warnings and notes of a code
    #[arg(long, value_name = "CODE")]
    pub(crate) allow: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The pipelines
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<String>,
    #[command(flatten)]
    pub(crate) lints: Lints,
    /// How to print diagnostics
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// The project configuration, instead of the `orchestra.yaml` beside each pipeline or above it
    #[arg(long, value_name = "orchestra.yaml")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// With source lines, reasons and help
    Text,
    /// One line each
    Concise,
    /// One JSON object each
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct CompileArgs {
    /// The pipeline
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    /// The project configuration, instead of the `orchestra.yaml` beside the pipeline or above it
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
    /// Simulate the stages that ask a model, and those that the script names; run all others
    #[arg(long, value_name = "SCRIPT.yaml", num_args = 0..=1, default_missing_value = "", conflicts_with = "simulate")]
    pub(crate) simulate_models: Option<String>,
    /// Outcomes that a stage gives in turn when simulated; the last one repeats
    #[arg(long, value_name = "NODE=WORD[,WORD]")]
    pub(crate) outcome: Vec<String>,
    #[command(flatten)]
    pub(crate) answers: AnswerOptions,
    /// Set a context value: JSON where it parses, else text; `KEY=@FILE` takes the text of a file, `KEY=@-` standard input
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// The project configuration, instead of the `orchestra.yaml` beside the pipeline or above it
    #[arg(long, value_name = "orchestra.yaml")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
    /// Exactly this folder for the run
    #[arg(long, value_name = "DIR")]
    pub(crate) run_dir: Option<PathBuf>,
    /// The seed of every chance in the run
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) limits: LimitOptions,
    /// What the run must survive before a stage counts as done
    #[arg(long, value_enum, default_value_t = Survives::Full)]
    pub(crate) durability: Survives,
    #[command(flatten)]
    pub(crate) lints: Lints,
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
    /// Answer a human gate beforehand; several answers of one gate are taken in turn
    #[arg(long, value_name = "NODE=CHOICE")]
    pub(crate) answer: Vec<String>,
    /// Approve at every human gate without asking: yes, or the first choice
    #[arg(long)]
    pub(crate) auto_approve: bool,
    /// Wait for `answer` or `attach` where there is nobody to ask here, instead of pausing the run
    #[arg(long)]
    pub(crate) wait: bool,
}

/// How much a run may use; it pauses when it has.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct LimitOptions {
    /// The most that models may cost, such as `2.50`
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<String>,
    /// The most tokens that models may read and write
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<u64>,
    /// The longest that the run may take, such as `15m`
    #[arg(long, value_name = "DURATION")]
    pub(crate) max_time: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Survives {
    /// A loss of power
    Full,
    /// The end of the process
    Process,
    /// Nothing but a pause and the end
    None,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    #[arg(value_name = "RUN", help = RUN)]
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) going_on: GoingOn,
    /// Take the run from a process that hangs; should it wake, it can write nothing more
    #[arg(long)]
    pub(crate) take_over: bool,
    /// Go on although records of the run are lost: from the latest state that is left, doing again what came since
    #[arg(long)]
    pub(crate) accept_loss: bool,
    /// Retry a run that failed, at the stage that failed
    #[arg(long)]
    pub(crate) retry: bool,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    #[arg(value_name = "RUN", help = RUN)]
    pub(crate) run: String,
    /// Where to begin, such as `cp_000012`; `orchestra checkpoints RUN` lists them
    #[arg(long, value_name = "CHECKPOINT")]
    pub(crate) checkpoint: String,
    #[command(flatten)]
    pub(crate) going_on: GoingOn,
    /// Exactly this folder for the new run
    #[arg(long, value_name = "DIR")]
    pub(crate) run_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
}

/// How a run that was begun before goes on.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct GoingOn {
    /// Go on although the pipeline was changed, if the places where the run stands are still there
    #[arg(long)]
    pub(crate) accept_changes: bool,
    /// The project configuration, instead of the `orchestra.yaml` beside the pipeline or above it
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
    /// At most so many runs in the list
    #[arg(long, value_name = "N", conflicts_with = "run")]
    pub(crate) limit: Option<usize>,
    /// Show the whole path, however long it is
    #[arg(long, requires = "run")]
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
    /// Show only what happens from now on
    #[arg(long)]
    pub(crate) tail: bool,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
}

#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    #[arg(value_name = "RUN", help = RUN)]
    pub(crate) run: String,
    /// The gate that asks
    #[arg(value_name = "GATE")]
    pub(crate) gate: String,
    /// The choice, by its key, its label or its target; or the text, where the gate takes any
    #[arg(value_name = "CHOICE")]
    pub(crate) choice: String,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
}

#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    #[arg(value_name = "RUN", help = RUN)]
    pub(crate) run: String,
    /// Why; it is kept with the run
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
}

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    #[arg(value_name = "RUN", help = RUN)]
    pub(crate) run: String,
    /// Why; it is kept with the run
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
}

#[derive(Debug, Args)]
pub(crate) struct CleanupArgs {
    /// Remove runs that ended longer ago than this
    #[arg(long, value_name = "DURATION", default_value = "7d")]
    pub(crate) older_than: String,
    /// Remove paused runs too, which could be resumed
    #[arg(long)]
    pub(crate) paused: bool,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Remove also branches of runs whose commits are nowhere else, where they are older than that
    #[arg(long)]
    pub(crate) force: bool,
    /// The project configuration that names the repositories, instead of the `orchestra.yaml` here
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
    /// Colour it by this run: its id, the beginning of it, `last`, or its folder
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
    /// The form; without it, that of the output file's ending, else text on a terminal and SVG elsewhere
    #[arg(long, value_enum)]
    pub(crate) format: Option<Picture>,
    /// Write to this file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Picture {
    /// A picture, by Graphviz where it is installed
    Svg,
    /// Graphviz DOT that any Graphviz reads
    Dot,
    /// A Mermaid flowchart
    Mermaid,
    /// Lines for a terminal
    Text,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The code, as printed in brackets; without one, all codes are listed
    #[arg(value_name = "CODE")]
    pub(crate) code: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct FmtArgs {
    /// The pipelines; `-` reads standard input and writes standard output
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// Change nothing; exit with 1 where a file is not in canonical form
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// The project's name, and the folder that is made
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// What to begin with
    #[arg(long, value_enum, default_value_t = Template::Hello)]
    pub(crate) template: Template,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Template {
    /// A line of stages
    Hello,
    /// Tools, a decision on their result, and a handler of your own
    Tools,
}
