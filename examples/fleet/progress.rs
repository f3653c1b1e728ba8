//! The progress of the run: what happens is printed, a worker is killed, and the gate is answered.

use std::collections::BTreeMap;

use orchestra::engine::{EventKind, Question, RunEvent, RunId};
use orchestra::prelude::Answer;
use orchestra::restate::{ClientError, Phase};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::{Failure, Fleet, show};

/// The turn of the conversation in which the worker of the agent is killed.
const KILLED_IN_TURN: usize = 3;
/// The choice of the gate that the program makes, and proposes to a person.
const CHOICE: &str = "S";

/// The part of a run that was printed so far.
pub(crate) struct Progress {
    run: RunId,
    /// The person at the terminal answers the gate.
    ask: bool,
    /// The number of the last event that was printed.
    seen: u64,
    /// The id of the question that was printed.
    asked: String,
    /// The lines that the person types.
    typed: Option<UnboundedReceiver<String>>,
    /// The number of requests to the model that were printed.
    requests: usize,
    /// The turn of the conversation in which a worker was killed.
    pub(crate) killed_in: Option<usize>,
    /// The attempts that were executed more than once, with the number of executions.
    pub(crate) executions: BTreeMap<String, u64>,
}

impl Progress {
    pub(crate) fn new(run: RunId, ask: bool) -> Progress {
        Progress {
            run,
            ask,
            seen: 0,
            asked: String::new(),
            typed: None,
            requests: 0,
            killed_in: None,
            executions: BTreeMap::new(),
        }
    }

    /// Looks at the run once. Returns whether it goes on.
    pub(crate) async fn look(&mut self, fleet: &mut Fleet) -> Result<bool, Failure> {
        // The status is read before the events, so that the events of an ended run are complete.
        let status = fleet.client.status(&self.run).await?;
        for event in fleet.client.events(&self.run, self.seen).await? {
            self.seen = event.seq;
            if let EventKind::StageStarted {
                stage, repeat: true, ..
            } = &event.kind
            {
                *self.executions.entry(stage.to_string()).or_insert(1) += 1;
            }
            if let Some(line) = describe(&event) {
                show("run", &line);
            }
        }
        let asked = fleet.model.asked();
        for request in asked.iter().skip(self.requests) {
            let (worker, turn, content) = (request.worker, request.turn, &request.content);
            show("model", &format!("turn {turn} of worker {worker}: {content}"));
        }
        self.requests = asked.len();
        if let Some(last) = asked.last()
            && last.turn >= KILLED_IN_TURN
            && self.killed_in.is_none()
        {
            fleet.kill_worker(last.worker).await?;
            self.killed_in = Some(last.turn);
        }
        if let Some(reason) = status.parked {
            return Err(reason.into());
        }
        if let Some(question) = status.questions.first() {
            self.answer(fleet, question).await?;
        }
        Ok(status.phase == Phase::Running)
    }

    /// Prints a question when it is new, and gives the answer of the program, or of the person if there is one.
    async fn answer(&mut self, fleet: &Fleet, question: &Question) -> Result<(), Failure> {
        let is_new = self.asked != question.id;
        if is_new {
            self.asked.clone_from(&question.id);
            let context = fleet.client.result(&self.run).await?.context;
            show("gate", &format!("the reply: {}", context.text("reply")));
            let options = question.options.iter();
            let options: Vec<&str> = options.map(|option| &*option.label).collect();
            show("gate", &format!("{} {}", question.text, options.join(", ")));
        }
        let choice = match self.ask {
            false if is_new => {
                show("gate", &format!("the program answers {CHOICE}"));
                CHOICE.to_owned()
            }
            false => return Ok(()),
            true => {
                if is_new {
                    let command = fleet.answer_command(&self.run, &question.node, CHOICE);
                    show("gate", "type the letter of a choice, or answer elsewhere with:");
                    println!("  {command}");
                }
                let typed = self.typed.get_or_insert_with(typed_lines);
                match typed.try_recv() {
                    Ok(line) => line.trim().to_owned(),
                    Err(_) => return Ok(()),
                }
            }
        };
        let answered = fleet
            .client
            .answer(&self.run, &question.id, Answer::choice(choice))
            .await;
        match answered {
            // Such as a choice that does not exist. The question is still open.
            Err(ClientError::Refused { message, .. }) => show("gate", &message),
            answered => answered?,
        }
        Ok(())
    }
}

/// Reads the lines of the terminal. The thread waits for the next line also when the run has ended, so it is not one of
/// the runtime, which would wait for it.
fn typed_lines() -> UnboundedReceiver<String> {
    let (sender, lines) = unbounded_channel();
    std::thread::spawn(move || {
        let lines = std::io::stdin().lines().map_while(Result::ok);
        for line in lines {
            // The run has ended if nobody receives.
            drop(sender.send(line));
        }
    });
    lines
}

/// Describes an event. Returns `None` for those that say nothing new here.
fn describe(event: &RunEvent) -> Option<String> {
    let line = match &event.kind {
        EventKind::StageStarted {
            stage, repeat: true, ..
        } => format!("{stage} was interrupted and begins again"),
        EventKind::StageFailed { stage, error, .. } => {
            format!("{} failed in attempt {}: {error}", stage.label(), stage.attempt)
        }
        EventKind::StageRetrying {
            node,
            attempt,
            max_attempts,
            delay,
            ..
        } => format!(
            "[{node}] begins attempt {attempt} of {max_attempts} in {} ms",
            delay.as_millis()
        ),
        EventKind::StageCompleted {
            stage,
            notes: Some(notes),
            ..
        } => format!("{} succeeded: {notes}", stage.label()),
        EventKind::PipelineCompleted { duration, .. } => {
            format!("ended successfully after {:.1} s", duration.as_secs_f64())
        }
        EventKind::PipelineFailed { error, .. } => format!("failed: {error}"),
        _ => return None,
    };
    Some(line)
}
