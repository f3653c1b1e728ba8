//! Random pipelines by turns: with crashes between loading and storing, with messages that arrive twice, and with pauses,
//! each run is that of its machine.

use std::time::Duration;

use orchestra_core::{Context, Effect, EffectId, Event, Machine, RunFailure, SharedPipeline};
use orchestra_engine::{EventKind, HostedEnd, ObservedStage, RunId, Timestamp};
use orchestra_oracle_tests::driver::record;
use orchestra_oracle_tests::random::Random;
use orchestra_oracle_tests::{case_count, cases, load_pipeline, seed};
use orchestra_restate::{
    Finished, Message, Outgoing, Phase, Refused, Reply, Report, RunState, Sent, Start, Turn, start, turn,
};

const BEGAN: u64 = 1_800_000_000_000;

/// A run whose state is stored as text.
struct Stored {
    pipeline: SharedPipeline,
    text: String,
    at: Timestamp,
    /// The attempts that were sent, each once.
    sent: Vec<(EffectId, Context)>,
    events: Vec<EventKind>,
    disturbed: bool,
    /// The cancelled attempts that are not over yet.
    ending: Vec<EffectId>,
    random: Random,
}

impl Stored {
    fn start(pipeline: &SharedPipeline, seed: u64) -> Stored {
        let at = Timestamp::from_millis(BEGAN);
        let begin = Start {
            run: RunId::new("r").unwrap(),
            pipeline: "flow".to_owned(),
            hash: "sha256:0".to_owned(),
            context: Context::new(),
            seed,
            budget: Default::default(),
            at,
        };
        let (state, first) = start(pipeline, begin);
        let mut run = Stored {
            pipeline: pipeline.clone(),
            text: serde_json::to_string(&state).unwrap(),
            at,
            sent: Vec::new(),
            events: Vec::new(),
            disturbed: false,
            ending: Vec::new(),
            random: Random::new(seed ^ 0x656e),
        };
        run.carry_out(first);
        run
    }

    fn state(&self) -> RunState {
        serde_json::from_str(&self.text).unwrap()
    }

    /// Takes a turn, perhaps twice because the first one is lost, and carries out what it decides.
    fn take(&mut self, message: Message, crashes: bool) -> Reply {
        let sent = Sent { at: self.at, message };
        let mut state = self.state();
        let taken = turn(&self.pipeline, &mut state, sent.clone());
        if crashes {
            let mut again = self.state();
            assert_eq!(turn(&self.pipeline, &mut again, sent), taken);
            assert_eq!(again, state);
        }
        self.text = serde_json::to_string(&state).unwrap();
        let reply = taken.reply.clone();
        self.carry_out(taken);
        reply
    }

    fn carry_out(&mut self, taken: Turn) {
        self.events
            .extend(taken.events.into_iter().map(|event| event.kind));
        for outgoing in taken.outgoing {
            match outgoing {
                Outgoing::Stage { effect, context, .. }
                    if !self.sent.iter().any(|(known, _)| *known == effect) =>
                {
                    self.sent.push((effect, context));
                }
                Outgoing::Cancel { effect, .. } => self.ending.push(effect),
                _ => {}
            }
        }
    }

    /// Returns the report of the end of an attempt, by the execution that the run waits for.
    fn finished(&self, effect: EffectId, end: HostedEnd) -> Message {
        let stages = self.state().stages;
        let live = stages.iter().find(|stage| stage.effect == effect);
        Message::Attempt {
            token: live.map_or(1, |live| live.token),
            effect,
            report: Finished::new(end).into(),
        }
    }

    /// Returns a report with the token of the execution that the run waits for now.
    fn renewed(&self, message: Message) -> Message {
        match message {
            Message::Attempt {
                effect,
                report: Report::Finished(finished),
                ..
            } => self.finished(effect, finished.end),
            other => other,
        }
    }

    /// Reports that some of the cancelled attempts are over.
    fn report_ends(&mut self, percent: usize) {
        for effect in std::mem::take(&mut self.ending) {
            if self.random.chance(percent) {
                self.take(self.finished(effect, HostedEnd::Cancelled), false);
            } else {
                self.ending.push(effect);
            }
        }
    }

    /// Lets cancelled attempts end if the one that ends next waits for them.
    fn make_ready(&mut self, next: &Message) {
        if let Message::Attempt { effect, .. } = next
            && !self.state().stages.iter().any(|stage| stage.effect == *effect)
        {
            self.report_ends(100);
        }
    }

    /// Pauses the run and resumes it, perhaps with the end of an attempt in between.
    fn pause(&mut self, between: Option<Message>) {
        let reason = "lunch".to_owned();
        assert_eq!(
            self.take(
                Message::Pause {
                    reason: reason.clone()
                },
                true
            ),
            Reply::Accepted
        );
        assert_eq!(self.state().phase, Phase::Paused(RunFailure::Paused { reason }));
        self.report_ends(if between.is_some() { 0 } else { 50 });
        if let Some(message) = between {
            self.take(message, true);
            self.report_ends(50);
        }
        if !matches!(self.state().phase, Phase::Ended(_)) {
            assert_eq!(
                self.take(Message::Resume { lost: Vec::new() }, true),
                Reply::Accepted
            );
        }
        self.disturbed = true;
    }
}

/// Returns the message of an event. Returns `None` for an event that no message causes.
fn message(run: &Stored, machine: &Machine, event: &Event) -> Option<Message> {
    Some(match event.clone() {
        Event::NodeFinished { id, outcome } => run.finished(id, HostedEnd::Outcome(outcome)),
        Event::TimerFired { id } => {
            let timers = run.state().timers;
            let timer = timers.into_iter().find(|timer| timer.effect == id);
            let number = timer.expect("the run waits for the delay").number;
            Message::Timer { number }
        }
        Event::Answered { id, answer } => {
            let question = machine.questions().into_iter().find(|(of, _)| *of == id)?.1;
            let question = question.id;
            Message::Answer { question, answer }
        }
        _ => return None,
    })
}

#[test]
fn a_run_by_turns_is_that_of_its_machine() {
    let (mut runs, mut pauses, mut cancelled) = (0, 0, 0);
    for case in cases(seed(60), case_count(400)) {
        let Ok(pipeline) = load_pipeline(&case.dot) else {
            continue;
        };
        let pipeline = SharedPipeline::from(pipeline);
        let mut random = Random::new(case.seed ^ 0x7475);
        'scripts: for script in &case.scripts {
            let recording = record(pipeline.clone(), script);
            let mut effects = Vec::new();
            let mut machine = Machine::start(pipeline.clone(), Context::new(), script.schedule, &mut effects);
            let mut run = Stored::start(&pipeline, script.schedule);
            for (event, _) in &recording.turns {
                if let Event::Tick { elapsed } = event {
                    // Times between turns have milliseconds.
                    let elapsed = Duration::from_millis(elapsed.as_millis() as u64);
                    machine.on(Event::Tick { elapsed }, &mut effects);
                    run.at = Timestamp::from_millis(BEGAN + elapsed.as_millis() as u64);
                    continue;
                }
                let Some(message) = message(&run, &machine, event) else {
                    continue 'scripts;
                };
                machine.on(event.clone(), &mut effects);
                let is_end = matches!(message, Message::Attempt { .. });
                run.make_ready(&message);
                if random.chance(10) {
                    pauses += 1;
                    let between = (is_end && random.chance(50)).then(|| run.renewed(message.clone()));
                    let was_applied = between.is_some();
                    run.pause(between);
                    if was_applied {
                        continue;
                    }
                }
                run.make_ready(&message);
                let message = run.renewed(message);
                let reply = run.take(message.clone(), random.chance(30));
                if let Reply::Refused(refused) = &reply {
                    // The script goes on with a skip where the machine does not take the answer.
                    assert!(
                        matches!(refused, Refused::WrongAnswer { .. }),
                        "{refused:?}\n{}",
                        case.dot
                    );
                    continue;
                }
                if random.chance(30) {
                    let before = run.text.clone();
                    let events = run.events.len();
                    run.take(message.clone(), false);
                    assert_eq!(run.events.len(), events, "{message:?} counts once\n{}", case.dot);
                    assert_eq!(run.text, before);
                }
                run.report_ends(40);
            }
            run.report_ends(100);
            let (mut stages, mut ended_early) = (Vec::new(), Vec::new());
            let (mut observed, mut end) = (Vec::new(), None);
            for effect in effects {
                match effect {
                    Effect::RunNode { id, context } => stages.push((id, context)),
                    Effect::CancelEffect { id } => ended_early.push(id),
                    Effect::Finish { failure } => end = Some(failure),
                    Effect::Observe(observation) => {
                        observed.extend(EventKind::from_observation(
                            &pipeline,
                            observation,
                            ObservedStage::default(),
                        ));
                    }
                    _ => {}
                }
            }
            run.report_ends(100);
            let state = run.state();
            assert_eq!(
                state.phase,
                Phase::Ended(end.expect("the machine has ended")),
                "{}",
                case.dot
            );
            // An attempt that is cancelled while it waits for others to end is never sent.
            stages.retain(|stage| run.sent.contains(stage) || !ended_early.contains(&stage.0));
            cancelled += ended_early.len();
            let names = |list: &[(EffectId, Context)]| {
                let mut names: Vec<String> = list.iter().map(|(id, _)| id.name(&pipeline)).collect();
                names.sort_unstable();
                names
            };
            assert_eq!(names(&run.sent), names(&stages), "{}", case.dot);
            assert!(
                stages.iter().all(|stage| run.sent.contains(stage)),
                "{}",
                case.dot
            );
            assert_eq!(state.machine, machine.saved(), "{}", case.dot);
            assert!(state.stages.is_empty() && state.withheld.is_empty());
            if !run.disturbed {
                let names = |events: &[EventKind]| events.iter().map(EventKind::name).collect::<Vec<_>>();
                let ended = run.events.len() - 1;
                assert_eq!(names(&run.events[1..ended]), names(&observed), "{}", case.dot);
            }
            runs += 1;
        }
    }
    assert!(
        runs > 400 && pauses > 200 && cancelled > 20,
        "{runs} {pauses} {cancelled}"
    );
}
