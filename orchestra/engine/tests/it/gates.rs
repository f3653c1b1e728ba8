//! Tests of human gates in real runs: exactly one transition, and silence never approves (rules H1 to H4).
use crate::support;

use std::sync::Arc;
use std::time::Duration;

use orchestra_engine::{
    Answer, AnswerError, AutoApprove, Engine, EngineBuilder, EventKind, InterviewError, Interviewer, Outcome,
    Question, QueueInterviewer, RunFailure, RunHandle, RunResult, RunStatus, Script,
};
use support::{Acts, pipeline};
use tokio::sync::Notify;

const GATE: &str = "digraph t { start -> ask; ask [shape=hexagon, label=\"Ship it?\", ATTRIBUTES]
    ask -> ship [label=\"[Y] Yes, ship\"]; ask -> mend [label=\"[N] No\"]
    ship [type=act]; mend [type=act]; ship -> exit; mend -> exit }";

fn gate(attributes: &str) -> orchestra_graph::Pipeline {
    pipeline(&GATE.replace("ATTRIBUTES", attributes))
}

async fn begin(builder: EngineBuilder, attributes: &str) -> RunHandle {
    let engine = builder.build().unwrap();
    engine.start(gate(attributes), Acts::new()).seed(1).await.unwrap()
}

async fn with(interviewer: impl Interviewer, attributes: &str) -> RunResult {
    let run = begin(Engine::builder().interviewer(interviewer), attributes).await;
    run.wait().await.unwrap()
}

/// Waits until the gate asks a question.
async fn asked(run: &RunHandle) -> Question {
    loop {
        if let Some(question) = run.questions().pop() {
            return question;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_answer_routes_and_is_kept() {
    for (answer, target) in [
        ("y", "ship"),
        ("No", "mend"),
        ("mend", "mend"),
        ("yes, ship", "ship"),
    ] {
        let result = with(QueueInterviewer::new().answers([answer]), "").await;
        assert_eq!(result.path, ["start", "ask", target, "exit"], "{answer}");
        let key = if target == "ship" { "Y" } else { "N" };
        assert_eq!(result.context.text("human.gate.selected"), key);
        assert_eq!(result.context.text("human.gate.answered_by"), "prepared");
    }
}

#[tokio::test]
async fn automatic_approval_is_always_recorded_as_such() {
    let run = begin(Engine::builder().interviewer(AutoApprove), "").await;
    let mut events = run.events();
    let result = run.wait().await.unwrap();
    assert_eq!(result.context.text("human.gate.answered_by"), "automatic");
    let mut reported = None;
    while let Some(event) = events.recv().await {
        if let EventKind::InterviewCompleted {
            answered_by, answer, ..
        } = &event.kind
        {
            reported = Some((answered_by.word(), answer.clone()));
        }
    }
    assert_eq!(reported, Some(("automatic", "[Y] Yes, ship".to_owned())));
}

#[tokio::test]
async fn an_answer_that_matches_no_choice_is_refused_and_the_gate_stays_open() {
    let run = begin(Engine::builder(), "").await;
    let question = asked(&run).await;
    assert_eq!(
        (question.id.as_str(), question.text.as_str()),
        ("ask#1/1", "Ship it?")
    );
    let refused = run.answer("ask", Answer::choice("maybe")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "`maybe` is not one of the answers: [Y] Yes, ship, [N] No"
    );
    assert_eq!(run.questions().len(), 1);
    run.answer("ask#1/1", Answer::choice("n")).unwrap();
    let late = run.answer("ask", Answer::choice("y")).unwrap_err();
    assert!(matches!(late, AnswerError::NoQuestion { .. }), "{late}");
    assert_eq!(run.wait().await.unwrap().path, ["start", "ask", "mend", "exit"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_answers_at_once_exactly_one_is_taken() {
    for round in 0..1_000 {
        let run = begin(Engine::builder(), "").await;
        asked(&run).await;
        let run = Arc::new(run);
        let tasks: Vec<_> = (0..4)
            .map(|at| {
                let run = run.clone();
                let choice = if (at + round) % 2 == 0 { "Y" } else { "N" };
                tokio::spawn(async move {
                    run.answer("ask", Answer::choice(choice))
                        .is_ok()
                        .then_some(choice)
                })
            })
            .collect();
        let mut taken = Vec::new();
        for task in tasks {
            taken.extend(task.await.unwrap());
        }
        let [taken] = taken[..] else { panic!("{taken:?}") };
        let target = if taken == "Y" { "ship" } else { "mend" };
        let result = Arc::into_inner(run).unwrap().wait().await.unwrap();
        assert_eq!(result.path, ["start", "ask", target, "exit"]);
        assert_eq!(
            result
                .transitions
                .iter()
                .filter(|edge| edge.from == "ask" && edge.count == 1)
                .count(),
            1
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_answer_that_races_with_the_time_out_gives_one_transition() {
    let mut answered = 0;
    for _ in 0..200 {
        let run = begin(Engine::builder(), "timeout=\"1ms\", \"human.default_choice\"=N").await;
        let answerer = run.canceller();
        let ended = tokio::spawn(run.wait());
        // Either may come first, but an accepted answer must take effect.
        let mut taken = false;
        while !taken && !ended.is_finished() {
            taken = answerer.answer("ask", Answer::choice("Y")).is_ok();
            tokio::task::yield_now().await;
        }
        answered += u32::from(taken);
        let result = ended.await.unwrap().unwrap();
        let target = if taken { "ship" } else { "mend" };
        assert_eq!(result.path, ["start", "ask", target, "exit"]);
        let by = if taken { "person" } else { "default" };
        assert_eq!(result.context.text("human.gate.answered_by"), by);
    }
    assert!(answered > 0, "no answer came in time");
}

/// An interviewer that never answers.
struct Silent;

impl Interviewer for Silent {
    async fn ask(&self, _: Question) -> Result<Answer, InterviewError> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_time_out_takes_the_default() {
    let result = with(Silent, "timeout=\"90m\", \"human.default_choice\"=mend").await;
    assert_eq!(result.path, ["start", "ask", "mend", "exit"]);
    assert_eq!(result.context.text("human.gate.answered_by"), "default");
}

#[tokio::test(start_paused = true)]
async fn a_time_out_without_default_asks_again_and_never_approves() {
    let run = begin(
        Engine::builder().interviewer(Silent),
        "timeout=\"5m\", max_retries=2, retry_jitter=false",
    )
    .await;
    let mut events = run.events();
    let result = run.wait().await.unwrap();
    assert_eq!(result.status, RunStatus::Fail);
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `ask` failed: nobody answered in time, and the gate has no default"
    );
    let mut reported = Vec::new();
    while let Some(event) = events.recv().await {
        if matches!(
            event.kind.name(),
            "InterviewStarted" | "InterviewTimeout" | "StageRetrying"
        ) {
            reported.push(event.kind.name());
        }
    }
    let round = ["InterviewStarted", "InterviewTimeout", "StageRetrying"];
    assert_eq!(reported, [&round[..], &round[..], &round[..2]].concat());
}

#[tokio::test]
async fn where_nobody_can_be_asked_the_run_is_paused_and_names_the_gate() {
    struct Closed;
    impl Interviewer for Closed {
        async fn ask(&self, _: Question) -> Result<Answer, InterviewError> {
            Err(InterviewError::unavailable("standard input is closed"))
        }
    }
    let result = with(Closed, "").await;
    assert_eq!(result.status, RunStatus::Paused);
    let Some(RunFailure::WaitsForHuman { node, reason }) = result.failure else {
        panic!("{:?}", result.failure)
    };
    assert_eq!(
        (node.as_str(), reason.as_str()),
        ("ask", "standard input is closed")
    );
}

#[tokio::test]
async fn a_question_that_is_skipped_fails_the_gate_for_good() {
    let run = begin(Engine::builder(), "max_retries=5").await;
    asked(&run).await;
    run.answer("ask", Answer::skipped()).unwrap();
    let result = run.wait().await.unwrap();
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `ask` failed: the person skipped the question"
    );
}

#[tokio::test]
async fn an_interviewer_that_talks_nonsense_fails_the_gate() {
    let result = with(QueueInterviewer::new().answers(["a", "b", "c", "Y"]), "").await;
    assert_eq!(result.status, RunStatus::Fail);
    let reason = result.failure.unwrap().to_string();
    assert!(reason.contains("3 answers in a row were refused"), "{reason}");
}

#[tokio::test]
async fn a_script_answers_gates_and_may_leave_them_unanswered() {
    let run = |word: &str, attributes: &str| {
        let script = Script::new().outcomes("ask", [Outcome::custom(word.to_owned())]);
        let engine = Engine::builder().simulate(script).build().unwrap();
        let graph = gate(attributes);
        async move { engine.start(graph, ()).await.unwrap().wait().await.unwrap() }
    };
    assert_eq!(run("N", "").await.path, ["start", "ask", "mend", "exit"]);
    assert_eq!(run("timeout", "").await.status, RunStatus::Paused);
    let defaulted = run("timeout", "timeout=\"1ms\", \"human.default_choice\"=Y").await;
    assert_eq!(defaulted.path, ["start", "ask", "ship", "exit"]);
    let wrong = run("perhaps", "").await.failure.unwrap().to_string();
    assert!(wrong.contains("`perhaps` is not one of the answers"), "{wrong}");
}

#[tokio::test]
async fn free_text_is_kept() {
    let text =
        "digraph t { start -> ask; ask [shape=hexagon]; ask -> mend [label=\"What is wrong?\", freeform=true]
        ask -> exit [label=\"[O] Ok\"]; mend [type=act]; mend -> exit }";
    let engine = Engine::builder()
        .interviewer(QueueInterviewer::new().answers(["the logo is too small"]))
        .build()
        .unwrap();
    let result = engine
        .start(pipeline(text), Acts::new())
        .await
        .unwrap()
        .wait()
        .await
        .unwrap();
    assert_eq!(result.path, ["start", "ask", "mend", "exit"]);
    assert_eq!(result.context.text("human.gate.text"), "the logo is too small");
}

#[tokio::test]
async fn a_handler_may_ask_too() {
    let engine = Engine::builder()
        .interviewer(QueueInterviewer::new().answers(["yes"]))
        .build()
        .unwrap();
    let acts = Acts::new().on("a", |stage| async move {
        let question = Question::new(orchestra_engine::QuestionKind::Confirm, "Delete?");
        let answer = stage.ask(question.clone()).await.unwrap();
        Outcome::success().set("sure", question.accept(&answer).unwrap().is_yes())
    });
    let graph = support::acts("start -> a -> exit");
    let result = engine.start(graph, acts).await.unwrap().wait().await.unwrap();
    assert_eq!(result.context.get("sure"), Some(&true.into()));
}

#[tokio::test]
async fn the_question_of_a_stage_takes_one_fitting_answer_and_is_then_closed() {
    let engine = Engine::builder().interviewer(Silent).build().unwrap();
    let go_on = Arc::new(Notify::new());
    let waits = go_on.clone();
    let acts = Acts::new().on("a", move |stage| {
        let waits = waits.clone();
        async move {
            let question = Question::new(orchestra_engine::QuestionKind::Confirm, "Delete?");
            let answer = stage.ask(question.clone()).await.unwrap();
            waits.notified().await;
            Outcome::success().set("sure", question.accept(&answer).unwrap().is_yes())
        }
    });
    let run = engine
        .start(support::acts("start -> a -> exit"), acts)
        .await
        .unwrap();
    let question = asked(&run).await;
    assert!(question.id.starts_with("a#1/1"), "{}", question.id);
    for unfit in [Answer::skipped(), Answer::choice("perhaps")] {
        let refused = run.answer(&question.id, unfit).unwrap_err();
        assert!(matches!(refused, AnswerError::Refused(_)), "{refused}");
    }
    run.answer("a", Answer::yes()).unwrap();
    assert!(run.questions().is_empty());
    let late = run.answer(&question.id, Answer::yes()).unwrap_err();
    assert!(matches!(late, AnswerError::NoQuestion { .. }), "{late}");
    go_on.notify_one();
    let result = run.wait().await.unwrap();
    assert_eq!(result.context.get("sure"), Some(&true.into()));
}

/// The interviewer answers while others could, too.
#[tokio::test]
async fn a_question_that_the_interviewer_answered_is_closed_while_its_stage_goes_on() {
    let engine = Engine::builder()
        .interviewer(QueueInterviewer::new().answers(["yes"]))
        .build()
        .unwrap();
    let (answered, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tells, waits) = (answered.clone(), go_on.clone());
    let acts = Acts::new().on("a", move |stage| {
        let (tells, waits) = (tells.clone(), waits.clone());
        async move {
            let question = Question::new(orchestra_engine::QuestionKind::Confirm, "Delete?");
            stage.ask(question).await.unwrap();
            tells.notify_one();
            waits.notified().await;
            Outcome::success()
        }
    });
    let run = engine
        .start(support::acts("start -> a -> exit"), acts)
        .await
        .unwrap();
    answered.notified().await;
    assert!(run.questions().is_empty(), "{:?}", run.questions());
    go_on.notify_one();
    assert!(run.wait().await.unwrap().is_success());
}

#[tokio::test(start_paused = true)]
async fn gates_of_parallel_branches_are_open_at_the_same_time() {
    let text = "digraph t { start -> fan; fan [shape=component]; fan -> left -> join; fan -> right -> join
        left [shape=hexagon]; right [shape=hexagon]; left -> join [label=Ok]; right -> join [label=Ok]
        join [shape=tripleoctagon]; join -> exit }"
        .replace(
            "fan -> left -> join; fan -> right -> join",
            "fan -> left; fan -> right",
        );
    let run = Engine::builder()
        .build()
        .unwrap()
        .start(pipeline(&text), ())
        .await
        .unwrap();
    while run.questions().len() < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    run.answer("right", Answer::choice("ok")).unwrap();
    run.answer("left", Answer::choice("ok")).unwrap();
    assert!(run.wait().await.unwrap().is_success());
}

#[tokio::test(start_paused = true)]
async fn silence_takes_no_answer_even_where_one_leads_into_a_routing_node() {
    let text = "digraph t { ROUTING start -> ask; ask [shape=hexagon, timeout=5m]; ask -> check [label=Yes]
        check [shape=diamond]; check -> exit }";
    for routing in ["", "routing=first_match;"] {
        let engine = Engine::builder().interviewer(Silent).build().unwrap();
        let graph = pipeline(&text.replace("ROUTING", routing));
        let run = engine.start(graph, ()).await.unwrap();
        let result = run.wait().await.unwrap();
        assert_eq!(result.path, ["start", "ask"], "{routing}");
        assert_eq!(result.status, RunStatus::Fail);
    }
}

#[tokio::test]
async fn in_first_match_routing_the_answer_decides_among_the_answers() {
    let text = "digraph t { routing=first_match; start -> ask; ask [shape=hexagon]; ask -> ship [label=Ship]
        ask -> mend [label=Mend]; ship [type=act]; mend [type=act]; ship -> exit; mend -> exit }";
    let interviewer = QueueInterviewer::new().answers(["mend"]);
    let engine = Engine::builder().interviewer(interviewer).build().unwrap();
    let run = engine.start(pipeline(text), Acts::new()).await.unwrap();
    assert_eq!(run.wait().await.unwrap().path, ["start", "ask", "mend", "exit"]);
}

#[tokio::test]
async fn an_answer_names_the_question_that_it_is_for() {
    let run = begin(Engine::builder().interviewer(AutoApprove), "").await;
    let mut events = run.events();
    run.wait().await.unwrap();
    let mut named = Vec::new();
    while let Some(event) = events.recv().await {
        match &event.kind {
            EventKind::InterviewStarted { question, .. } => named.push(question.id.clone()),
            EventKind::InterviewCompleted { question_id, .. } => named.push(question_id.clone()),
            _ => {}
        }
    }
    assert_eq!(named, ["ask#1/1", "ask#1/1"]);
}

#[tokio::test]
async fn an_engine_gets_an_interviewer_later_only_if_it_has_none() {
    let asks = |engine: Engine| async move {
        let start = engine
            .with_default_interviewer(AutoApprove)
            .start(gate(""), Acts::new());
        let result = start.await.unwrap().wait().await.unwrap();
        result.context.text("human.gate.answered_by")
    };
    assert_eq!(asks(Engine::builder().build().unwrap()).await, "automatic");
    let own = Engine::builder().interviewer(QueueInterviewer::new().answers(["n"]));
    assert_eq!(asks(own.build().unwrap()).await, "prepared");
}

#[tokio::test]
async fn an_observer_that_is_added_later_sees_all_events_of_its_engine_alone() {
    let engine = Engine::builder().interviewer(AutoApprove).build().unwrap();
    let seen = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = seen.clone();
    let observed = engine.with_observer(move |_| {
        counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    });
    let run = observed.start(gate(""), Acts::new()).await.unwrap();
    let mut events = run.events();
    run.wait().await.unwrap();
    let mut emitted = 0;
    while events.recv().await.is_some() {
        emitted += 1;
    }
    assert_eq!(seen.load(std::sync::atomic::Ordering::Relaxed), emitted);
    let other = engine.start(gate(""), Acts::new()).await.unwrap();
    other.wait().await.unwrap();
    assert_eq!(seen.load(std::sync::atomic::Ordering::Relaxed), emitted);
}
