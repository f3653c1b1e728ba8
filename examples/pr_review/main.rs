//! Agents in a pipeline: three reviewers side by side, a critic who sends them back, a person with the last word.
//!
//! `pr_review.dot` says who follows whom, `orchestra.yaml` who they are: their prompts, models and tools. Roles and some
//! layers come with Orchestra, others are in `prompts/`. All of it is checked while this program is built: take a layer
//! away, or misspell a variable of a task, and it does not compile.
//!
//! Each reviewer reports its findings under a name of its own branch. The critic reads all three; if it is not satisfied,
//! they look again, with its doubts. After the third round the review is written anyway: how long models may disagree is
//! decided by a handler of this program, and no model. The synthesizer talks with a person until it is approved.
//!
//! `cargo run -p pr_review` asks no model: it simulates them, and a critic who is satisfied the second time.
//! `cargo run -p pr_review -- ask change.diff` asks those of `orchestra.yaml` about a change of the folder it runs in. It
//! needs their keys, such as `ANTHROPIC_API_KEY`, and you: answer the review, and end it with `/approve` or `/reject`.

#![allow(clippy::print_stdout)]

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use orchestra::agents::{Agents, ModelError};
use orchestra::config::Project;
use orchestra::engine::{EventKind, InterviewError, RunEvent, Script};
use orchestra::prelude::*;

orchestra::pipeline! {
    /// Reviews a pull request until a critic is satisfied, or three rounds are over.
    pub mod pr_review = "pr_review.dot", handlers = Rounds, config = "orchestra.yaml";
}

/// The change that is reviewed where no other is named.
const CHANGE: &str = include_str!("change.diff");

/// Where runs that ask models keep what was said, the review among it: `RUN/synthesizer/response.md`.
const RUNS: &str = ".orchestra/runs";

/// The handlers of the pipeline.
struct Rounds;

/// What every `review.rounds` node must say.
#[derive(Attributes)]
struct RoundsAttributes {
    /// How many rounds there are at most.
    most: u32,
}

/// Whether there is another round.
#[derive(Outcome)]
enum Another {
    Success,
    Exhausted,
}

#[handlers]
impl Rounds {
    /// Counts the rounds that the critic has sent back.
    #[handler("review.rounds")]
    async fn rounds(&self, attributes: RoundsAttributes, stage: StageContext) -> Another {
        if stage.visit() < attributes.most {
            Another::Success
        } else {
            Another::Exhausted
        }
    }
}

/// Why there is no review.
#[derive(Debug, thiserror::Error)]
enum ReviewError {
    #[error("cannot read `{0}`")]
    Change(String, #[source] std::io::Error),
    #[error("`{0}` is not one of the commands: `ask FILE`, or nothing at all")]
    Command(String),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Engine(#[from] orchestra::engine::BuildError),
    #[error(transparent)]
    Start(#[from] orchestra::StartError),
    #[error(transparent)]
    Run(#[from] orchestra::RunError),
}

/// The agents of the configuration that is compiled in.
fn agents() -> Result<Agents, ModelError> {
    let project = Project::load(pr_review::CONFIG.configuration(), &pr_review::CONFIG);
    Agents::builder(project).reader(pr_review::CONFIG).build()
}

/// Asks the person at the terminal.
struct Person;

impl Interviewer for Person {
    async fn ask(&self, question: Question) -> Result<Answer, InterviewError> {
        println!("\n{}\n", question.text);
        print!("answer, /approve, or /reject REASON > ");
        let mut line = String::new();
        let read = std::io::stdout()
            .flush()
            .and_then(|()| std::io::stdin().read_line(&mut line));
        match read {
            Ok(0) => Err(InterviewError::unavailable("there is nothing more to read")),
            Ok(_) => Ok(Answer::choice(line.trim())),
            Err(error) => Err(InterviewError::terminal("nothing can be read").caused_by(error)),
        }
    }
}

/// Tells how the run goes.
fn show(event: &RunEvent) {
    match &event.kind {
        EventKind::StageCompleted { node, outcome, .. } => println!("{node}: {}", outcome.word()),
        EventKind::StageFailed { node, error, .. } => println!("{node}: {error}"),
        _ => {}
    }
}

/// The review without a model: the critic is satisfied the second time.
fn simulated() -> Script {
    Script::new()
        .run_handlers()
        .outcomes("critic", ["insufficient", "success"])
}

fn change(file: &str) -> Result<String, ReviewError> {
    std::fs::read_to_string(file).map_err(|error| ReviewError::Change(file.to_owned(), error))
}

async fn review() -> Result<RunResult, ReviewError> {
    let mut arguments = std::env::args().skip(1);
    let builder = Engine::builder().on_event(show);
    let (engine, change) = match (arguments.next().as_deref(), arguments.next()) {
        (None, _) => (builder.simulate(simulated()).build()?, CHANGE.to_owned()),
        (Some("ask"), Some(file)) => {
            let agents = agents()?;
            let builder = builder.secrets(agents.secrets()).interviewer(Person);
            let builder = builder.backend(agents).runs_dir(RUNS);
            (builder.build()?, change(&file)?)
        }
        (Some(other), _) => return Err(ReviewError::Command(other.to_owned())),
    };
    let run = engine
        .start(&pr_review::PIPELINE, Rounds)
        .param("pr_diff", change);
    let run = run.await?;
    let folder = run.run_dir().map(Path::to_owned);
    let result = run.wait().await?;
    if let Some(folder) = folder {
        println!("\nwhat was said is in {}", folder.display());
    }
    Ok(result)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, ReviewError> {
    let result = review().await?;
    println!("\n{}", result.path.join(" -> "));
    if let Some(failure) = &result.failure {
        println!("failed: {failure}");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod tests;
