//! What becomes of each message to a run.

use orchestra_core::{Answer, Budget, Context, EffectId, Outcome, RunFailure, SharedPipeline, Usage};
use orchestra_engine::{EventKind, RunId, Timestamp};
use orchestra_oracle_tests::load_pipeline;
use orchestra_restate::{
    AttemptEnd, Message, Outgoing, Phase, Refused, Reply, RunState, Sent, Start, Turn, start, turn,
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

    fn end(&mut self, effect: &EffectId, end: AttemptEnd) -> Turn {
        self.send(Message::Finished {
            effect: effect.clone(),
            end,
            used: Usage::default(),
        })
    }

    fn succeed(&mut self, effect: &EffectId) -> Turn {
        self.end(effect, AttemptEnd::Outcome(Outcome::success()))
    }

    fn pause(&mut self) -> Turn {
        self.send(Message::Pause {
            reason: "lunch".to_owned(),
        })
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
    let reserve = |effect: &EffectId, most| Message::Reserve {
        effect: effect.clone(),
        most: tokens(most),
    };
    assert_eq!(run.send(reserve(a, 60)).reply, Reply::Accepted);
    assert_eq!(run.send(reserve(a, 60)).reply, Reply::Later);
    let release = Message::Release {
        effect: a.clone(),
        most: tokens(60),
    };
    run.send(release);
    assert_eq!(run.send(reserve(a, 60)).reply, Reply::Accepted);
    // The attempt is over, and with it its reservations; what it used counts.
    let ended = run.send(Message::Finished {
        effect: a.clone(),
        end: AttemptEnd::Outcome(Outcome::success()),
        used: tokens(90),
    });
    let completed = ended.events.iter().find_map(|event| match &event.kind {
        EventKind::StageCompleted { usage, duration, .. } => Some((usage.clone(), *duration)),
        _ => None,
    });
    let (usage, duration) = completed.unwrap();
    assert_eq!((usage.unwrap().tokens(), duration.as_millis()), (90, 50));
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
    assert!(matches!(stranger.reply, Reply::Refused(Refused::Phase(_))));
}

#[test]
fn a_paused_run_sends_its_attempt_again_when_it_is_resumed() {
    let (mut run, first) = Run::start(LINE, Budget::default());
    let [a] = &stages(&first)[..] else {
        panic!("{first:?}")
    };
    let paused = run.pause();
    assert_eq!(paused.outgoing, [Outgoing::Cancel { effect: a.clone() }]);
    assert_eq!(events(&paused), ["PipelinePaused"]);
    assert!(run.pause().outgoing.is_empty(), "it is paused already");
    // The cancelled attempt may still be writing, so its repeat waits until it is over.
    let resumed = run.send(Message::Resume);
    assert!(stages(&resumed).is_empty());
    let over = run.end(a, AttemptEnd::Cancelled);
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
    run.end(a, AttemptEnd::Cancelled);
    run.millis += 3_600_000;
    run.send(Message::Resume);
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
    let resumed = run.send(Message::Resume);
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
    run.end(a, AttemptEnd::WaitsForHuman(reason.clone()));
    let node = "a".to_owned();
    assert_eq!(
        run.state.phase,
        Phase::Paused(RunFailure::WaitsForHuman { node, reason })
    );
    assert_eq!(stages(&run.send(Message::Resume)), std::slice::from_ref(a));
    run.end(a, AttemptEnd::OverBudget(String::new()));
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
    assert_eq!(cancelled.outgoing, [Outgoing::Cancel { effect: a.clone() }]);
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
    let again = run.end(a, AttemptEnd::Cancelled);
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
    assert!(joined.outgoing.contains(&Outgoing::Cancel {
        effect: right.clone()
    }));
    assert!(stages(&joined).is_empty(), "the loser may still be writing");
    run.pause();
    let over = run.end(right, AttemptEnd::Cancelled);
    assert!(over.outgoing.is_empty());
    let resumed = run.send(Message::Resume);
    assert_eq!(stages(&resumed).len(), 1, "the stage behind the fan-out");
}

#[test]
fn an_outcome_that_crosses_a_cancellation_counts() {
    let (mut run, first) = Run::start(LINE, Budget::default());
    let [a] = &stages(&first)[..] else {
        panic!("{first:?}")
    };
    run.pause();
    run.send(Message::Resume);
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
    run.end(left, AttemptEnd::Outcome(Outcome::fail_terminal("broken")));
    run.send(Message::Resume);
    run.end(right, AttemptEnd::Cancelled);
    while let Some(stage) = run.state.stages.first().map(|stage| stage.effect.clone()) {
        run.end(&stage, AttemptEnd::Outcome(Outcome::fail_terminal("broken")));
    }
    assert!(
        matches!(run.state.phase, Phase::Ended(Some(_))),
        "{:?}",
        run.state.phase
    );
}
