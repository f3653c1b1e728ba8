//! What becomes of each message to a run.

use orchestra_core::{
    Answer, Budget, Context, EffectId, Machine, Outcome, Question, QuestionOption, RunFailure,
    SharedPipeline, Usage,
};
use orchestra_engine::{EventKind, HostedEnd, HostedSuspension, RunId, Timestamp};
use orchestra_oracle_tests::load_pipeline;
use orchestra_restate::{
    Finished, Message, Outgoing, Phase, Refused, Reply, Report, RunState, Sent, Start, Turn, start, turn,
};

struct Run {
    pipeline: SharedPipeline,
    state: RunState,
    millis: u64,
}

impl Run {
    fn start(dot: &str, budget: Budget) -> (Run, Turn) {
        let pipeline = SharedPipeline::from(load_pipeline(dot).unwrap());
        let begin = Start {
            run: RunId::new("r").unwrap(),
            pipeline: "flow".to_owned(),
            hash: "sha256:0".to_owned(),
            context: Context::new(),
            seed: 7,
            budget,
            at: Timestamp::from_millis(1_000),
        };
        let (state, first) = start(&pipeline, begin);
        let millis = 1_000;
        let run = Run {
            pipeline,
            state,
            millis,
        };
        (run, first)
    }

    fn send(&mut self, message: Message) -> Turn {
        self.millis += 10;
        let at = Timestamp::from_millis(self.millis);
        turn(&self.pipeline, &mut self.state, Sent { at, message })
    }

    /// Reports about the execution of an attempt that the run waits for.
    fn report(&mut self, effect: &EffectId, report: Report) -> Turn {
        let live = self.state.stages.iter().find(|stage| stage.effect == *effect);
        let token = live.map_or(1, |live| live.token);
        self.send(attempt(effect, token, report))
    }

    fn end(&mut self, effect: &EffectId, end: HostedEnd) -> Turn {
        self.report(effect, finished(end, Usage::default()))
    }

    fn succeed(&mut self, effect: &EffectId) -> Turn {
        self.end(effect, success())
    }

    fn pause(&mut self) -> Turn {
        self.send(Message::Pause {
            reason: "lunch".to_owned(),
        })
    }
}

fn attempt(effect: &EffectId, token: u64, report: Report) -> Message {
    Message::Attempt {
        effect: effect.clone(),
        token,
        report,
    }
}

fn finished(end: HostedEnd, used: Usage) -> Report {
    let finished = Finished {
        used,
        ..Finished::new(end)
    };
    finished.into()
}

fn success() -> HostedEnd {
    HostedEnd::Outcome(Outcome::success())
}

fn resume() -> Message {
    Message::Resume { lost: Vec::new() }
}

fn cancel(effect: &EffectId) -> Outgoing {
    Outgoing::Cancel {
        effect: effect.clone(),
        invocation: None,
    }
}

fn stages(turn: &Turn) -> Vec<EffectId> {
    let stages = turn.outgoing.iter().filter_map(|outgoing| match outgoing {
        Outgoing::Stage { effect, .. } => Some(effect.clone()),
        _ => None,
    });
    stages.collect()
}

fn events(turn: &Turn) -> Vec<&'static str> {
    turn.events.iter().map(|event| event.kind.name()).collect()
}

fn tokens(input_tokens: u64) -> Usage {
    Usage {
        input_tokens,
        ..Usage::default()
    }
}

const LINE: &str = "digraph { start -> a -> b -> exit }";
const GATE: &str = r#"digraph { start -> ask; ask [shape=hexagon, label="Ship?"]
    ask -> ship [label="[Y] Yes"]; ask -> exit [label="[N] No"]; ship -> exit }"#;

#[test]
fn an_answer_must_name_an_open_question_and_one_of_its_choices() {
    let (mut run, first) = Run::start(GATE, Budget::default());
    assert!(first.outgoing.is_empty(), "nobody runs while a person thinks");
    let name = "ask#1/1".to_owned();
    let answer = |question: &str, choice: &str| Message::Answer {
        question: question.to_owned(),
        answer: Answer::choice(choice),
    };
    let before = run.state.clone();
    let unknown = run.send(answer("other#1/1", "Y"));
    let Reply::Refused(Refused::NoQuestion { open, .. }) = unknown.reply else {
        panic!("{unknown:?}");
    };
    assert_eq!(open[0].id, name);
    let wrong = run.send(answer(&name, "Perhaps"));
    let Reply::Refused(Refused::WrongAnswer { message, question }) = wrong.reply else {
        panic!("{wrong:?}");
    };
    assert!(message.contains("Perhaps"), "{message}");
    assert_eq!(question.options.len(), 2);
    assert_eq!(run.state, before, "a refused message changes nothing");
    let answered = run.send(answer(&name, "Y"));
    assert_eq!(answered.reply, Reply::Accepted);
    assert_eq!(stages(&answered).len(), 1);
    let second = run.send(answer(&name, "N"));
    assert!(matches!(second.reply, Reply::Refused(Refused::NoQuestion { .. })));
    assert!(events(&answered).contains(&"InterviewCompleted"));
}

#[test]
fn reservations_never_exceed_the_budgets_of_the_run_and_of_the_node() {
    let budget = Budget {
        max_tokens: Some(100),
        ..Budget::default()
    };
    let (mut run, first) = Run::start("digraph { start -> a -> b -> exit; b [max_tokens=20] }", budget);
    let [a] = &stages(&first)[..] else {
        panic!("{first:?}")
    };
    let mut number = 0;
    let mut reserve = |effect: &EffectId, most| {
        number += 1;
        let most = tokens(most);
        attempt(effect, 1, Report::Reserved { number, most })
    };
    let first = reserve(a, 60);
    assert_eq!(run.send(first.clone()).reply, Reply::Accepted);
    assert_eq!(run.send(first).reply, Reply::Accepted, "it arrived twice");
    assert_eq!(run.send(reserve(a, 60)).reply, Reply::Later);
    run.report(a, Report::Released { number: 1 });
    assert_eq!(run.send(reserve(a, 60)).reply, Reply::Accepted);
    // The attempt is over, and with it its reservations; what it used counts.
    let ended = run.report(a, finished(success(), tokens(90)));
    let completed = ended.events.iter().find_map(|event| match &event.kind {
        EventKind::StageCompleted { usage, duration, .. } => Some((usage.clone(), *duration)),
        _ => None,
    });
    let (usage, duration) = completed.unwrap();
    assert_eq!((usage.unwrap().tokens(), duration.as_millis()), (90, 60));
    let [b] = &stages(&ended)[..] else {
        panic!("{ended:?}")
    };
    let of_node = run.send(reserve(b, 30));
    assert!(
        matches!(&of_node.reply, Reply::Refused(Refused::OverBudget { node: Some(node), .. }) if node == "b"),
        "{of_node:?}"
    );
    let of_run = run.send(reserve(b, 15));
    assert!(
        matches!(&of_run.reply, Reply::Refused(Refused::OverBudget { node: None, used, .. }) if used.tokens() == 90),
        "{of_run:?}"
    );
    assert_eq!(run.send(reserve(b, 10)).reply, Reply::Accepted);
    let stranger = run.send(reserve(a, 1));
    assert_eq!(stranger.reply, Reply::Refused(Refused::NotAwaited));
}

#[test]
fn a_paused_run_sends_its_attempt_again_when_it_is_resumed() {
    let (mut run, first) = Run::start(LINE, Budget::default());
    let [a] = &stages(&first)[..] else {
        panic!("{first:?}")
    };
    let paused = run.pause();
    assert_eq!(paused.outgoing, [cancel(a)]);
    assert!(
        events(&paused).is_empty(),
        "the attempt may still report something"
    );
    assert!(run.pause().outgoing.is_empty(), "it is paused already");
    // The cancelled attempt may still be writing, so its repeat waits until it is over.
    let resumed = run.send(resume());
    assert!(stages(&resumed).is_empty());
    assert_eq!(
        events(&resumed),
        ["PipelinePaused", "PipelineResumed", "StageStarted"]
    );
    let over = run.end(a, HostedEnd::Cancelled);
    assert_eq!(stages(&over), std::slice::from_ref(a));
    let next = run.succeed(a);
    let [b] = &stages(&next)[..] else {
        panic!("{next:?}")
    };
    let ended = run.succeed(b);
    assert_eq!(events(&ended).last(), Some(&"PipelineCompleted"));
    assert_eq!(run.state.phase, Phase::Ended(None));
    assert!(matches!(run.pause().reply, Reply::Refused(Refused::Phase(_))));
}

#[test]
fn a_pause_does_not_count_as_time_of_the_run() {
    let (mut run, first) = Run::start(LINE, Budget::default());
    let [a] = &stages(&first)[..] else {
        panic!("{first:?}")
    };
    run.pause();
    let over = run.end(a, HostedEnd::Cancelled);
    assert_eq!(events(&over), ["PipelinePaused"]);
    run.millis += 3_600_000;
    run.send(resume());
    run.succeed(a);
    assert_eq!(run.state.executed.as_millis(), 20);
}

#[test]
fn an_end_while_the_run_is_paused_counts() {
    let (mut run, first) = Run::start(LINE, Budget::default());
    let [a] = &stages(&first)[..] else {
        panic!("{first:?}")
    };
    run.pause();
    let ended = run.succeed(a);
    assert!(
        ended.outgoing.is_empty(),
        "what follows waits for the end of the pause"
    );
    let resumed = run.send(resume());
    let [b] = &stages(&resumed)[..] else {
        panic!("{resumed:?}")
    };
    assert_ne!(b, a);
}

#[test]
fn a_suspended_attempt_pauses_the_run() {
    let (mut run, first) = Run::start(LINE, Budget::default());
    let [a] = &stages(&first)[..] else {
        panic!("{first:?}")
    };
    let reason = "nobody is there".to_owned();
    run.end(
        a,
        HostedEnd::Suspended(HostedSuspension::WaitsForHuman(reason.clone())),
    );
    let node = "a".to_owned();
    assert_eq!(
        run.state.phase,
        Phase::Paused(RunFailure::WaitsForHuman { node, reason })
    );
    assert_eq!(stages(&run.send(resume())), std::slice::from_ref(a));
    run.end(
        a,
        HostedEnd::Suspended(HostedSuspension::OverBudget(String::new())),
    );
    assert!(matches!(
        run.state.phase,
        Phase::Paused(RunFailure::Budget { .. })
    ));
}

#[test]
fn a_cancelled_run_ends_when_nothing_of_it_is_executed_any_more() {
    let (mut run, first) = Run::start(LINE, Budget::default());
    let [a] = &stages(&first)[..] else {
        panic!("{first:?}")
    };
    let reason = "a new version".to_owned();
    let cancelled = run.send(Message::Cancel {
        reason: reason.clone(),
    });
    assert_eq!(cancelled.outgoing, [cancel(a)]);
    assert_eq!(run.state.phase, Phase::Running);
    // Its outcome comes too late.
    let over = run.succeed(a);
    assert!(stages(&over).is_empty());
    assert_eq!(
        run.state.phase,
        Phase::Ended(Some(RunFailure::Cancelled { reason }))
    );
    assert_eq!(events(&over), ["PipelineCancelled"]);
}

#[test]
fn an_attempt_that_was_cancelled_from_outside_is_sent_again() {
    let (mut run, first) = Run::start(LINE, Budget::default());
    let [a] = &stages(&first)[..] else {
        panic!("{first:?}")
    };
    let again = run.end(a, HostedEnd::Cancelled);
    assert_eq!(stages(&again), std::slice::from_ref(a));
}

#[test]
fn a_clock_that_goes_back_stands_still() {
    let (mut run, first) = Run::start(LINE, Budget::default());
    let [a] = &stages(&first)[..] else {
        panic!("{first:?}")
    };
    run.millis = 0;
    let next = run.succeed(a);
    assert_eq!(run.state.now, Timestamp::from_millis(1_000));
    assert!(next.events.iter().all(|event| event.time == run.state.now));
}

/// Two stages at once; the first success ends the other, and a stage follows.
const RACE: &str = r#"digraph { start -> fan; fan [shape=component, join_policy=first_success]
    fan -> left -> join; fan -> right -> join; join [shape=tripleoctagon]; join -> after -> exit }"#;

#[test]
fn nothing_is_sent_while_the_run_is_paused() {
    let (mut run, first) = Run::start(RACE, Budget::default());
    let [left, right] = &stages(&first)[..] else {
        panic!("{first:?}")
    };
    let joined = run.succeed(left);
    assert!(joined.outgoing.contains(&cancel(right)));
    assert!(stages(&joined).is_empty(), "the loser may still be writing");
    run.pause();
    let over = run.end(right, HostedEnd::Cancelled);
    assert!(stages(&over).is_empty());
    let resumed = run.send(resume());
    assert_eq!(stages(&resumed).len(), 1, "the stage behind the fan-out");
}

#[test]
fn an_outcome_that_crosses_a_cancellation_counts() {
    let (mut run, first) = Run::start(LINE, Budget::default());
    let [a] = &stages(&first)[..] else {
        panic!("{first:?}")
    };
    run.pause();
    run.send(resume());
    // The attempt had ended before the cancellation reached it.
    let next = run.succeed(a);
    let [b] = &stages(&next)[..] else {
        panic!("{next:?}")
    };
    assert_ne!(a, b, "it is not executed again");
}

#[test]
fn a_run_that_ends_while_it_is_paused_stays_ended() {
    let text = RACE.replace("first_success", "wait_all, error_policy=fail_fast");
    let (mut run, first) = Run::start(&text, Budget::default());
    let [left, right] = &stages(&first)[..] else {
        panic!("{first:?}")
    };
    run.pause();
    run.end(left, HostedEnd::Outcome(Outcome::fail_terminal("broken")));
    run.send(resume());
    run.end(right, HostedEnd::Cancelled);
    while let Some(stage) = run.state.stages.first().map(|stage| stage.effect.clone()) {
        run.end(&stage, HostedEnd::Outcome(Outcome::fail_terminal("broken")));
    }
    assert!(
        matches!(run.state.phase, Phase::Ended(Some(_))),
        "{:?}",
        run.state.phase
    );
}

#[test]
fn a_claim_of_a_cancelled_attempt_ends_it() {
    let (mut run, first) = Run::start(LINE, Budget::default());
    let [a] = &stages(&first)[..] else {
        panic!("{first:?}")
    };
    run.send(Message::Pause {
        reason: "lunch".to_owned(),
    });
    assert!(run.state.stages[0].cancelled);
    // The worker died before it could report that the attempt is over.
    let execution = "second".to_owned();
    let claimed = run.report(a, Report::Claimed { execution });
    assert_eq!(claimed.reply, Reply::Accepted, "it need not begin");
    assert_eq!(events(&claimed), ["PipelinePaused"]);
    assert!(run.state.stages.is_empty());
    let resumed = run.send(Message::Resume { lost: Vec::new() });
    assert_eq!(stages(&resumed).len(), 1, "{resumed:?}");
}

#[test]
fn an_execution_with_an_old_token_is_refused() {
    let (mut run, first) = Run::start(LINE, Budget::default());
    let [a] = &stages(&first)[..] else {
        panic!("{first:?}")
    };
    let claim = |execution: &str| Report::Claimed {
        execution: execution.to_owned(),
    };
    let claimed = run.report(a, claim("second"));
    assert_eq!(claimed.reply, Reply::Claimed(2));
    let [repeat] = &claimed.events[..] else {
        panic!("{claimed:?}")
    };
    assert!(
        matches!(&repeat.kind, EventKind::StageStarted { stage, repeat: true, .. } if &*stage.node == "a"),
        "{repeat:?}"
    );
    let again = run.report(a, claim("second"));
    assert_eq!(again.reply, Reply::Claimed(2), "it arrived twice");
    assert!(again.events.is_empty(), "{again:?}");
    let late = run.send(attempt(a, 1, finished(success(), Usage::default())));
    assert_eq!(late.reply, Reply::Refused(Refused::NotAwaited));
    let most = tokens(1);
    let late = run.send(attempt(a, 1, Report::Reserved { number: 1, most }));
    assert_eq!(late.reply, Reply::Refused(Refused::NotAwaited));
    // Money that was spent counts nevertheless.
    run.send(attempt(a, 1, Report::Used(tokens(5))));
    let ended = run.send(attempt(a, 2, finished(success(), Usage::default())));
    assert_eq!(ended.reply, Reply::Accepted);
    assert_eq!(stages(&ended).len(), 1);
    let saved = run.state.machine.clone().restore(&run.pipeline).unwrap();
    let machine = Machine::resume(run.pipeline.clone(), saved);
    assert_eq!(machine.state().totals.usage.tokens(), 5);
}

#[test]
fn an_attempt_that_stops_its_workers_fails_at_the_sixth_claim() {
    let (mut run, first) = Run::start(LINE, Budget::default());
    let [a] = &stages(&first)[..] else {
        panic!("{first:?}")
    };
    let claim = |number: u64| Report::Claimed {
        execution: number.to_string(),
    };
    for number in 2..=6 {
        run.millis += 5_000;
        assert_eq!(run.report(a, claim(number)).reply, Reply::Claimed(number));
    }
    // Interruptions soon after another are one disturbance.
    for number in 7..=20 {
        assert_eq!(run.report(a, claim(number)).reply, Reply::Claimed(number));
    }
    run.millis += 5_000;
    let last = run.report(a, claim(21));
    assert_eq!(last.reply, Reply::Refused(Refused::NotAwaited));
    assert_eq!(events(&last), ["StageFailed", "EdgeSelected", "PipelineFailed"]);
}

#[test]
fn an_attempt_that_is_sent_again_has_a_newer_token() {
    let (mut run, first) = Run::start(LINE, Budget::default());
    let [a] = &stages(&first)[..] else {
        panic!("{first:?}")
    };
    let execution = "second".to_owned();
    run.report(a, Report::Claimed { execution });
    // An operator ended the invocation.
    let again = run.send(Message::Resume {
        lost: vec![a.clone()],
    });
    let [Outgoing::Stage { token: 3, .. }] = again.outgoing[..] else {
        panic!("{again:?}")
    };
    run.pause();
    run.end(a, HostedEnd::Cancelled);
    let resumed = run.send(resume());
    let [Outgoing::Stage { token: 4, .. }] = resumed.outgoing[..] else {
        panic!("{resumed:?}")
    };
    let next = run.succeed(a);
    let [Outgoing::Forget { effect }, Outgoing::Stage { token: 1, .. }] = &next.outgoing[..] else {
        panic!("{next:?}")
    };
    assert_eq!(effect, a, "its notes are removed");
    assert!(run.state.interrupted.is_empty());
}

#[test]
fn the_question_of_an_attempt_is_answered_once_however_often_it_is_asked() {
    let (mut run, first) = Run::start(LINE, Budget::default());
    let [a] = &stages(&first)[..] else {
        panic!("{first:?}")
    };
    run.state.stages[0].invocation = Some("inv_1".to_owned());
    let mut question = Question::select("Which one?", [QuestionOption::new("L", "Left")]);
    question.id = "a#1/1?1.1".to_owned();
    let asked = Report::Asked(Box::new(question.clone()));
    assert_eq!(run.report(a, asked.clone()).reply, Reply::Accepted);
    let answer = |choice: &str| Message::Answer {
        question: "a#1/1?1.1".to_owned(),
        answer: Answer::choice(choice),
    };
    let wrong = run.send(answer("Right"));
    assert!(
        matches!(wrong.reply, Reply::Refused(Refused::WrongAnswer { .. })),
        "{wrong:?}"
    );
    let answered = run.send(answer("L"));
    assert_eq!(
        answered.outgoing,
        [Outgoing::Answer {
            invocation: "inv_1".to_owned(),
            number: 1,
            question: "a#1/1?1.1".to_owned(),
            answer: Answer::choice("L"),
        }]
    );
    let late = run.send(answer("L"));
    assert!(
        matches!(late.reply, Reply::Refused(Refused::NoQuestion { .. })),
        "{late:?}"
    );
    // The worker stops before it notes the answer, and the attempt asks again.
    let execution = "second".to_owned();
    run.report(a, Report::Claimed { execution });
    assert_eq!(run.report(a, asked).reply, Reply::Answered(Answer::choice("L")));
    // A question after another note; the answer before it is part of that note.
    question.id = "a#1/1?2.1".to_owned();
    run.report(a, Report::Asked(Box::new(question.clone())));
    let ids: Vec<&str> = run
        .state
        .questions
        .iter()
        .map(|asked| &*asked.question.id)
        .collect();
    assert_eq!(ids, ["a#1/1?2.1"]);
    run.succeed(a);
    assert!(run.state.questions.is_empty());
}

#[test]
fn events_of_an_attempt_count_once() {
    let (mut run, first) = Run::start(LINE, Budget::default());
    let [a] = &stages(&first)[..] else {
        panic!("{first:?}")
    };
    let log = |number| Report::Emitted {
        number,
        events: vec![EventKind::PipelineStarted {
            name: "n".to_owned(),
            goal: String::new(),
        }],
    };
    assert_eq!(run.report(a, log(1)).events.len(), 1);
    assert_eq!(run.report(a, log(1)).events.len(), 0, "it arrived twice");
    assert_eq!(run.report(a, log(2)).events.len(), 1);
}
