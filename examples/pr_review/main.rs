//! Agents in a pipeline: three parallel reviewers, a critic who sends them back, and a person who has the last word.
//!
//! `pr_review.dot` defines the stages and their order, `orchestra.yaml` the agents: their prompts, models and tools.
//! Some roles and prompt layers come with Orchestra, others are in `prompts/`. All of them are checked when this
//! program is built: it does not compile if a layer is missing or a variable of a task is misspelled.
//!
//! Each reviewer reports its findings under the name of its branch. The critic reads all three. If it is not
//! satisfied, the reviewers run again with its objections. After the third round the review is written in any case: a
//! handler of this program, not a model, decides how long the models may disagree. The synthesizer talks with a
//! person until that person approves.
//!
//! `cargo run -p pr_review` calls no model: it simulates the models, with a critic who is satisfied in the second
//! round.
//! `cargo run -p pr_review -- ask change.diff` calls the models of `orchestra.yaml` to review a change of the current
//! folder. It needs their API keys, such as `ANTHROPIC_API_KEY`, and a person: reply to the review, and end the
//! conversation with `/approve` or `/reject`.

#![allow(clippy::print_stdout)]

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use orchestra::agents::{Agents, ModelError};
use orchestra::config::Project;
use orchestra::engine::{EventKind, InterviewError, RunEvent, Script};
use orchestra::prelude::*;

orchestra::pipeline! {
    /// Reviews a pull request until a critic is satisfied, or after three rounds.
    pub mod pr_review = "pr_review.dot", handlers = Rounds, config = "orchestra.yaml";
}

/// The change to review if none is given.
const CHANGE: &str = include_str!("change.diff");

/// The runs folder for runs that call models. The review is in `RUN/synthesizer/response.md`.
const RUNS: &str = ".orchestra/runs";

/// The handlers of the pipeline.
struct Rounds;

/// The attributes of every `review.rounds` node.
#[derive(Attributes)]
struct RoundsAttributes {
    /// The maximum number of rounds.
    most: u32,
}

/// The outcomes of `review.rounds`: whether there is another round.
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

/// The reason why there is no review.
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

/// Returns the agents of the compiled configuration.
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

/// Prints the progress of the run.
fn show(event: &RunEvent) {
    match &event.kind {
        EventKind::StageCompleted { stage, outcome, .. } => println!("{}: {}", stage.node, outcome.word()),
        EventKind::StageFailed { stage, error, .. } => println!("{}: {error}", stage.node),
        _ => {}
    }
}

/// Simulates the review. The critic is satisfied in the second round.
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
    let run = engine.start(
        pr_review::PIPELINE.with(pr_review::Inputs { pr_diff: change }),
        Rounds,
    );
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
