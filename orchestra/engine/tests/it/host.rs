//! Attempts that a host executes for a run whose machine is elsewhere.

use crate::support;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use orchestra_core::{Context, Effect, EffectId, Event, Machine, SharedPipeline};
use orchestra_engine::{
    Answer, AttemptHost, AttemptPort, BackendError, Budget, CallbackInterviewer, CodergenBackend,
    CodergenReply, CodergenRequest, Engine, EngineBuilder, EventKind, HostedAttempt, HostedEnd, HostedResult,
    HostedSuspension, HostedText, InterviewError, Outcome, OverBudget, PastStage, PortFuture, Question,
    QuestionKind, RunFailure, RunId, Snapshot, StageFile, StageHistory, Usage,
};
use orchestra_graph::Pipeline;
use serde_json::{Value, json};
use support::{Acts, acts, pipeline};
use tokio_util::sync::CancellationToken;

/// A run whose state is not in the process that executes its attempts.
#[derive(Default)]
struct Elsewhere {
    machine: Mutex<Option<Machine>>,
    texts: Mutex<HashMap<(String, StageFile), String>>,
    notes: Mutex<Vec<(Value, Usage)>>,
    events: Mutex<Vec<EventKind>>,
    reserved: Mutex<Vec<Usage>>,
    answers: Mutex<Vec<Answer>>,
    /// The maximum reservation.
    most: Option<u64>,
}

/// The connection of one attempt to the run.
struct Port(Arc<Elsewhere>, EffectId);

impl AttemptPort for Port {
    fn note(&self, note: Value, _checkpoint: bool, used: Usage) -> PortFuture<'_, ()> {
        Box::pin(async move {
            // Let the handler wait.
            tokio::task::yield_now().await;
            self.0.notes.lock().unwrap().push((note, used));
        })
    }

    fn snapshot(&self, _: Snapshot) {}

    fn history(&self) -> PortFuture<'_, StageHistory> {
        let history = StageHistory::from_machine(self.0.machine.lock().unwrap().as_ref().unwrap(), &self.1);
        // It crosses the network.
        let sent = serde_json::to_string(&history).unwrap();
        let received: StageHistory = serde_json::from_str(&sent).unwrap();
        assert_eq!(received, history);
        Box::pin(async { received })
    }

    fn latest(&self, nodes: Option<Vec<String>>) -> PortFuture<'_, Vec<PastStage>> {
        let machine = self.0.machine.lock().unwrap();
        let latest = PastStage::latest(machine.as_ref().unwrap(), &self.1, nodes.as_deref());
        Box::pin(async { latest })
    }

    fn texts(&self, records: Vec<String>) -> PortFuture<'_, Vec<HostedText>> {
        let texts = self.0.texts.lock().unwrap();
        let found = texts.iter().filter(|((record, _), _)| records.contains(record));
        let found = found
            .map(|((record, file), text)| HostedText::new(record, *file, text))
            .collect();
        Box::pin(async { found })
    }

    fn reserve(&self, most: Usage) -> PortFuture<'_, Result<(), OverBudget>> {
        let budget = Budget {
            max_tokens: self.0.most,
            ..Budget::default()
        };
        let refused = self.0.most.is_some_and(|limit| most.tokens() > limit);
        let result = match refused {
            true => Err(OverBudget::of_run(budget, Usage::default(), most)),
            false => {
                self.0.reserved.lock().unwrap().push(most);
                Ok(())
            }
        };
        Box::pin(async { result })
    }

    fn release(&self, most: Usage) {
        self.0
            .reserved
            .lock()
            .unwrap()
            .retain(|reserved| *reserved != most);
    }

    fn ask(&self, question: Question) -> PortFuture<'_, Result<Answer, InterviewError>> {
        let answer = self.0.answers.lock().unwrap().pop();
        let answer =
            answer.ok_or_else(|| InterviewError::unavailable(format!("nobody answers `{}`", question.text)));
        Box::pin(async { answer })
    }

    fn event(&self, event: EventKind) {
        self.0.events.lock().unwrap().push(event);
    }
}

impl Elsewhere {
    /// Runs a pipeline to its end, each attempt by the host. Timers fire at once, and gates choose their first option.
    async fn run(self: &Arc<Self>, host: &AttemptHost) -> (Machine, Option<RunFailure>) {
        let mut effects = Vec::new();
        let machine = Machine::start(host.pipeline().clone(), Context::new(), 7, &mut effects);
        *self.machine.lock().unwrap() = Some(machine);
        let mut running = FuturesUnordered::new();
        let mut tokens: HashMap<EffectId, CancellationToken> = HashMap::new();
        let mut failure = None;
        let mut finished = false;
        loop {
            for effect in std::mem::take(&mut effects) {
                let event = match effect {
                    Effect::RunNode { id, context } => {
                        let token = CancellationToken::new();
                        tokens.insert(id.clone(), token.clone());
                        let port = Arc::new(Port(self.clone(), id.clone()));
                        let attempt = HostedAttempt::new(RunId::new("r").unwrap(), id.clone(), context);
                        running.push(async move { (id, host.run(attempt, port, &token).await) });
                        continue;
                    }
                    Effect::StartTimer { id, .. } => Event::TimerFired { id },
                    Effect::AskHuman { id, question } => Event::Answered {
                        id,
                        answer: Answer::choice(&question.options[0].key),
                    },
                    Effect::CancelEffect { id } => {
                        if let Some(token) = tokens.get(&id) {
                            token.cancel();
                        }
                        continue;
                    }
                    Effect::Finish { failure: end } => {
                        (failure, finished) = (end, true);
                        continue;
                    }
                    _ => continue,
                };
                self.on(event, &mut effects);
            }
            if !effects.is_empty() {
                continue;
            }
            let Some((id, result)) = running.next().await else {
                break;
            };
            let HostedResult { end, used, texts, .. } = result;
            let mut kept = self.texts.lock().unwrap();
            kept.extend(
                texts
                    .into_iter()
                    .map(|text| ((text.record, text.file), text.text)),
            );
            drop(kept);
            if !used.is_zero() {
                let id = id.clone();
                self.on(Event::Used { id, usage: used }, &mut effects);
            }
            match end {
                HostedEnd::Outcome(outcome) => self.on(Event::NodeFinished { id, outcome }, &mut effects),
                HostedEnd::Cancelled => {}
                other => panic!("{other:?}"),
            }
        }
        assert!(finished, "the run has ended");
        (self.machine.lock().unwrap().take().unwrap(), failure)
    }

    fn on(&self, event: Event, effects: &mut Vec<Effect>) {
        self.machine.lock().unwrap().as_mut().unwrap().on(event, effects);
    }

    /// Executes the first stage of a pipeline, which calls no other.
    async fn first(
        self: &Arc<Self>,
        host: &AttemptHost,
        with: impl FnOnce(&mut HostedAttempt),
    ) -> HostedResult {
        let (attempt, port) = self.first_attempt(host.pipeline());
        let mut attempt = attempt;
        with(&mut attempt);
        host.run(attempt, port, &CancellationToken::new()).await
    }

    fn first_attempt(self: &Arc<Self>, pipeline: &SharedPipeline) -> (HostedAttempt, Arc<Port>) {
        let mut effects = Vec::new();
        let machine = Machine::start(pipeline.clone(), Context::new(), 7, &mut effects);
        *self.machine.lock().unwrap() = Some(machine);
        let begun = effects.into_iter().find_map(|effect| match effect {
            Effect::RunNode { id, context } => Some((id, context)),
            _ => None,
        });
        let (id, context) = begun.unwrap();
        let port = Arc::new(Port(self.clone(), id.clone()));
        (HostedAttempt::new(RunId::new("r").unwrap(), id, context), port)
    }
}

/// A backend that tells what it knows of the run.
struct Knows;

impl CodergenBackend for Knows {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        let stage = request.stage;
        let history = stage.history().await;
        let mut said: Vec<String> = Vec::new();
        for past in &history.stages {
            let record = past.record.as_deref().unwrap_or_default();
            let text = stage.stage_text(record, StageFile::Response, 1_000);
            said.push(format!(
                "{}={}",
                past.node,
                text.map_or_else(String::new, |text| text.to_string())
            ));
        }
        stage.log(format!("{} stages before", history.stages_in_all));
        stage.record_usage(Usage {
            input_tokens: 10,
            output_tokens: 1,
            cost_micros: 5,
        });
        Ok(format!("{} saw [{}]", stage.node().id(), said.join(", ")).into())
    }
}

/// A pipeline with models, tools that read what others wrote, a retry, a fan-out, a gate and a loop.
fn release() -> Pipeline {
    pipeline(
        r#"digraph release {
            start -> plan -> build -> fan
            fan [shape=component]
            fan -> left -> join
            fan -> right -> join
            join [shape=tripleoctagon]
            join -> approve
            approve [shape=hexagon, label="Ship?"]
            approve -> ship [label="[Y] Yes"]
            approve -> plan [label="[N] No"]
            ship -> exit
            plan [prompt=p]
            build [shape=parallelogram, tool_command="cat; echo $ORCHESTRA_ATTEMPT >&2; test $ORCHESTRA_ATTEMPT -gt 1", max_retries=2, tool_stdin="stages.plan.response"]
            left [prompt=p]
            right [shape=parallelogram, tool_command="echo $SEEN", "tool_env_from.SEEN"="stages.build.output"]
            ship [prompt=p]
        }"#,
    )
}

fn knowing() -> EngineBuilder {
    Engine::builder().backend(Knows)
}

#[tokio::test]
async fn a_run_by_hosted_attempts_equals_a_run_of_the_engine() {
    let engine = knowing().interviewer(CallbackInterviewer::new(|question: Question| async move {
        Ok::<_, InterviewError>(Answer::choice(&question.options[0].key))
    }));
    let run = engine.build().unwrap().start(release(), ()).seed(7);
    let expected = run.await.unwrap().wait().await.unwrap();
    assert!(expected.is_success(), "{:?}", expected.failure);

    let run = Arc::new(Elsewhere::default());
    let host = knowing().build().unwrap().host(release(), ()).unwrap();
    let (machine, failure) = run.run(&host).await;
    assert_eq!(failure, None);
    let state = machine.into_state();
    let node = |at: &orchestra_graph::NodeIndex| host.pipeline().stage(*at).id().to_owned();
    let path: Vec<String> = state.main.completed.iter().map(node).collect();
    assert_eq!(expected.path, path);
    assert_eq!(state.totals.usage, expected.usage);
    for (key, value) in expected.context.iter() {
        // Each run has its own id, and times differ.
        if !matches!(key, "run_id" | "parallel.results") {
            assert_eq!(state.main.context.get(key), Some(value), "{key}");
        }
    }
    let said = run.texts.lock().unwrap();
    let last = &said[&("ship#1".to_owned(), StageFile::Response)];
    assert!(last.contains("plan=plan saw [start=]"), "{last}");
    let seen = &said[&("fan#1:right/right#1".to_owned(), StageFile::ToolOutput)];
    assert_eq!(seen.trim(), "plan saw [start=]");
    let warned = &said[&("build#1".to_owned(), StageFile::ToolError)];
    assert_eq!(warned.trim(), "2", "the text of the last attempt counts");
    let events = run.events.lock().unwrap();
    let logs = events
        .iter()
        .filter(|event| matches!(event, EventKind::StageLog { message, .. } if message.ends_with("before")));
    assert_eq!(logs.count(), 3);
}

#[tokio::test]
async fn a_repeated_attempt_goes_on_behind_its_notes() {
    let handlers = || {
        Acts::new().on("work", |stage| async move {
            let done = stage.notes().len() as i64;
            for step in done..3 {
                stage.record_usage(Usage {
                    input_tokens: 1,
                    ..Usage::default()
                });
                stage.note(json!({ "step": step })).await;
            }
            Outcome::success()
                .set("began_at", done)
                .set("repeat", stage.is_repeat())
        })
    };
    let run = Arc::new(Elsewhere::default());
    let host = Engine::builder()
        .build()
        .unwrap()
        .host(acts("start -> work -> exit"), handlers())
        .unwrap();
    let result = run
        .first(&host, |attempt| {
            attempt.is_repeat = true;
            attempt.notes = vec![json!({ "step": 0 }), json!({ "step": 1 })];
        })
        .await;
    let HostedEnd::Outcome(outcome) = result.end else {
        panic!("{result:?}");
    };
    assert_eq!(outcome.context_updates["began_at"], 2);
    assert_eq!(outcome.context_updates["repeat"], true);
    let notes = run.notes.lock().unwrap();
    let used = Usage {
        input_tokens: 1,
        ..Usage::default()
    };
    assert_eq!(*notes, [(json!({ "step": 2 }), used)]);
    assert!(result.used.is_zero(), "the usage was stored with the note");
}

/// A backend that calls a model for at most 1,000 tokens.
struct Careful;

impl CodergenBackend for Careful {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        let most = Usage {
            input_tokens: 500,
            output_tokens: 500,
            ..Usage::default()
        };
        let reserved = request.stage.reserve(most).await?;
        reserved.settle(Usage {
            input_tokens: 20,
            ..Usage::default()
        });
        Ok("Done.".into())
    }
}

#[tokio::test]
async fn reservations_are_made_in_the_run() {
    let text = || pipeline("digraph { start -> work -> exit; work [prompt=p] }");
    let engine = Engine::builder().backend(Careful).build().unwrap();
    let host = engine.host(text(), ()).unwrap();
    let run = Arc::new(Elsewhere::default());
    let result = run.first(&host, |_| {}).await;
    assert!(matches!(result.end, HostedEnd::Outcome(outcome) if outcome.status.is_success()));
    assert_eq!(result.used.tokens(), 20);
    assert!(run.reserved.lock().unwrap().is_empty(), "it was released");

    let poor = Arc::new(Elsewhere {
        most: Some(100),
        ..Elsewhere::default()
    });
    let result = poor.first(&host, |_| {}).await;
    let HostedEnd::Suspended(HostedSuspension::OverBudget(reason)) = result.end else {
        panic!("{result:?}");
    };
    assert!(reason.contains("the budget of the run is used up"), "{reason}");
}

#[tokio::test]
async fn questions_of_a_stage_are_asked_in_the_run() {
    let handlers = || {
        Acts::new().ends("work", |stage| async move {
            match stage
                .ask(Question::new(QuestionKind::Confirm, "Delete it?"))
                .await
            {
                Ok(answer) => Outcome::success().notes(format!("{:?}", answer.reply)).into(),
                Err(orchestra_engine::AskError::Suspended(suspension)) => suspension.into(),
                Err(error) => Outcome::fail(error.to_string()).into(),
            }
        })
    };
    let host = Engine::builder()
        .build()
        .unwrap()
        .host(acts("start -> work -> exit"), handlers())
        .unwrap();
    let run = Arc::new(Elsewhere::default());
    run.answers.lock().unwrap().push(Answer::yes());
    let result = run.first(&host, |_| {}).await;
    assert!(matches!(result.end, HostedEnd::Outcome(outcome) if outcome.status.is_success()));
    let result = run.first(&host, |_| {}).await;
    let HostedEnd::Suspended(HostedSuspension::WaitsForHuman(reason)) = result.end else {
        panic!("{result:?}");
    };
    assert!(reason.contains("Delete it?"), "{reason}");
    // An answer that was given before the attempt was repeated.
    let result = run
        .first(&host, |attempt| attempt.answer = Some(Answer::yes()))
        .await;
    assert!(matches!(result.end, HostedEnd::Outcome(outcome) if outcome.status.is_success()));
}

#[tokio::test]
async fn nothing_secret_leaves_the_process() {
    let handlers = || {
        Acts::new().on("work", |stage| async move {
            stage.log("the key is s3cr3t-value");
            stage.note("s3cr3t-value").await;
            stage.keep_response("answer: s3cr3t-value").unwrap();
            Outcome::success()
                .set("key", "s3cr3t-value")
                .notes("s3cr3t-value")
        })
    };
    let engine = Engine::builder().secrets(["s3cr3t-value"]).build().unwrap();
    let host = engine.host(acts("start -> work -> exit"), handlers()).unwrap();
    let run = Arc::new(Elsewhere::default());
    let result = run.first(&host, |_| {}).await;
    assert!(!result.texts.is_empty());
    let all = format!(
        "{result:?} {:?} {:?}",
        run.notes.lock().unwrap(),
        run.events.lock().unwrap()
    );
    assert!(!all.contains("s3cr3t-value"), "{all}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_cancelled_attempt_leaves_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"digraph { start -> work -> exit; work [shape=parallelogram, tool_command="echo $$ > pid; sleep 1000"] }"#;
    let engine = Engine::builder().working_dir(folder.path()).build().unwrap();
    let host = engine.host(pipeline(text), ()).unwrap();
    let run = Arc::new(Elsewhere::default());
    let (attempt, port) = run.first_attempt(host.pipeline());
    let cancelled = CancellationToken::new();
    let pid = folder.path().join("pid");
    let running = host.run(attempt, port, &cancelled);
    let cancels = async {
        while !std::fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n')) {
            tokio::task::yield_now().await;
        }
        cancelled.cancel();
    };
    let (result, ()) = tokio::join!(running, cancels);
    assert_eq!(result.end, HostedEnd::Cancelled);
    let pid = std::fs::read_to_string(&pid).unwrap();
    let proc = std::path::Path::new("/proc").join(pid.trim());
    assert!(!proc.exists() || !cfg!(target_os = "linux"), "{proc:?}");
}

#[test]
fn what_no_attempt_by_itself_can_do_is_refused() {
    let missing = Engine::builder()
        .build()
        .unwrap()
        .host(release(), ())
        .unwrap_err();
    assert_eq!(missing.list[0].code, "no_backend");
}
