//! Stages that do what the attributes of their nodes say, and log that they did.

use std::io::{Read, Write};
use std::sync::Arc;

use orchestra_engine::{
    Answer, BackendError, CallbackInterviewer, CodergenBackend, CodergenReply, CodergenRequest, Handler,
    HandlerFuture, HandlerSet, InterviewError, KindSpec, Kinds, Outcome, Registry, StageContext, Usage,
    Words,
};
use orchestra_graph::table::Constant;
use serde_json::Value;

use crate::log::Log;

/// The kind of stages that the tests supply.
const ACT: KindSpec = KindSpec {
    kind: "act",
    fields: &[],
    words: Words::Open,
};

/// Stages of kind `act`. Their attributes:
///
/// `counts=KEY` adds one to a value, `failing=N` fails the first attempts of each visit, `lazy=N` lets others have their
/// turn so often, `spends=N` uses tokens, `keeps=ID` stores an artifact, `bulk=N` gives so many bytes and writes no file, `notes=N` takes so many steps and notes each, `holds=true` waits until standard input ends, `waits=true` for ever where that is wanted.
#[derive(Clone, Debug)]
pub struct Act {
    log: Log,
    waits: bool,
}

impl Act {
    /// Stages that log, and wait for ever if they are to.
    pub fn new(log: Log, waits: bool) -> Act {
        Act { log, waits }
    }

    async fn act(&self, stage: StageContext) -> Outcome {
        self.log.began(&stage);
        for _ in 0..number(&stage, "lazy") {
            tokio::task::yield_now().await;
        }
        if stage.attribute("holds").is_some() {
            input_ends().await;
        }
        if self.waits && stage.attribute("waits").is_some() {
            std::future::pending::<()>().await;
        }
        let steps = number(&stage, "notes");
        for step in stage.notes().len() as u64..steps {
            stage.record_usage(Usage {
                input_tokens: 10 + step,
                ..Usage::default()
            });
            match step % 2 {
                0 => stage.note(step).await,
                _ => stage.note_checkpoint(step).await,
            }
        }
        let spent = number(&stage, "spends");
        stage.record_usage(Usage {
            input_tokens: spent,
            output_tokens: spent / 2,
            cost_micros: spent * 3,
        });
        let key = stage.attempt_key();
        match stage.stage_dir() {
            _ if stage.attribute("bulk").is_some() => {}
            Ok(folder) => std::fs::write(folder.join("note.txt"), &key).unwrap(),
            Err(error) => return Outcome::fail_terminal(error.to_string()),
        }
        if u64::from(stage.attempt()) <= number(&stage, "failing") {
            return Outcome::fail("not yet");
        }
        if let Some(id) = stage.node().text("keeps") {
            let kept = stage
                .artifacts()
                .and_then(|kept| kept.store(id, "A report", key.as_str()));
            if let Err(error) = kept {
                return Outcome::fail_terminal(error.to_string());
            }
        }
        let mut outcome = Outcome::success()
            .set(format!("{}.last", stage.node().id()), key.as_str())
            .notes(format!("did {key}"));
        let bulk = usize::try_from(number(&stage, "bulk")).unwrap_or_default();
        if bulk > 0 {
            outcome = outcome.set(format!("{}.bulk", stage.node().id()), "x".repeat(bulk));
        }
        if let Some(counter) = stage.node().text("counts") {
            let before = stage.context().get(counter).and_then(Value::as_u64).unwrap_or(0);
            outcome = outcome.set(counter, before + 1);
        }
        outcome
    }
}

/// Tells that this process is there, and waits until its standard input ends.
pub async fn input_ends() {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdout()
            .write_all(b"h")
            .and_then(|()| std::io::stdout().flush());
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = sender.send(());
    });
    let _ = receiver.await;
}

fn number(stage: &StageContext, name: &str) -> u64 {
    match stage.attribute(name) {
        Some(Constant::Integer(number)) => u64::try_from(number).unwrap_or(0),
        _ => 0,
    }
}

impl Handler for Act {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        Box::pin(async move { self.act(stage).await.into() })
    }
}

impl HandlerSet for Act {
    const KINDS: Kinds = Kinds::List(&[ACT]);

    fn register(self, registry: &mut Registry) {
        registry.add(ACT, Arc::new(self));
    }
}

/// A model that says what it was asked.
#[derive(Clone, Debug)]
pub struct Echo(pub Log);

impl CodergenBackend for Echo {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        self.0.began(&request.stage);
        tokio::task::yield_now().await;
        let used = Usage {
            input_tokens: 10,
            output_tokens: 5,
            cost_micros: 1,
        };
        Ok(CodergenReply::from(format!("{}!", request.prompt)).used(used))
    }
}

/// Answers each gate by its first option, after a while; those whose node begins with `silent` not at all.
pub fn interviewer() -> CallbackInterviewer {
    CallbackInterviewer::new(|question| async move {
        if question.node.starts_with("silent") {
            std::future::pending::<()>().await;
        }
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        let first = question.options.first();
        let first = first.ok_or_else(|| InterviewError::unavailable("it offers nothing"))?;
        Ok(Answer::choice(&first.key))
    })
}
