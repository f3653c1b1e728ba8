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
  130  cancelled";

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
    /// Check pipelines and print what is wrong with them
    Check(CheckArgs),
    /// Check a pipeline and print its graph: handlers, models, routes
    Compile(CompileArgs),
    /// Run a pipeline
    Run(RunArgs),
    /// Draw a pipeline
    Graph(GraphArgs),
    /// Explain a diagnostic: what, why, a bad and a good example
    Explain(ExplainArgs),
    /// Write pipelines in canonical form, with their comments
    Fmt(FmtArgs),
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
    #[command(flatten)]
    pub(crate) lints: Lints,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The pipeline
    #[arg(value_name = "FILE", required_unless_present = "simulate")]
    pub(crate) file: Option<String>,
    /// Call no model and run no tool; outcomes come from the script, or are successes
    #[arg(long, value_name = "SCRIPT.yaml", num_args = 0..=1, default_missing_value = "")]
    pub(crate) simulate: Option<String>,
    /// Outcomes that a stage gives in turn when simulated; the last one repeats
    #[arg(long, value_name = "NODE=WORD[,WORD]")]
    pub(crate) outcome: Vec<String>,
    /// Answer a human gate beforehand; several answers of one gate are taken in turn
    #[arg(long, value_name = "NODE=CHOICE")]
    pub(crate) answer: Vec<String>,
    /// Approve at every human gate without asking: yes, or the first choice
    #[arg(long)]
    pub(crate) auto_approve: bool,
    /// Set a context value: JSON where it parses, else text
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// The folder of all run folders
    #[arg(long, value_name = "DIR", default_value = ".orchestra/runs")]
    pub(crate) runs: PathBuf,
    /// Exactly this folder for the run
    #[arg(long, value_name = "DIR")]
    pub(crate) run_dir: Option<PathBuf>,
    /// The seed of every chance in the run
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// The longest that the run may take, such as `15m`
    #[arg(long, value_name = "DURATION")]
    pub(crate) max_time: Option<String>,
    #[command(flatten)]
    pub(crate) lints: Lints,
}

#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// The pipeline
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
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
