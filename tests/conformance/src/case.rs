//! What is run: a random graph, and a script of its stages and people.

use std::sync::Arc;
use std::time::Duration;

use orchestra_engine::{
    Engine, Entry, Handler, HandlerFuture, HandlerSet, KindSpec, Kinds, Outcome, Registry, SharedPipeline,
    StageContext, Words,
};
use orchestra_graph::{KeyOwner, kind};
use orchestra_oracle_tests::description::Call;
use orchestra_oracle_tests::driver::{outcome, record};
use orchestra_oracle_tests::positions::Positions;
use orchestra_oracle_tests::random::Random;
use orchestra_oracle_tests::{Graph, Reaction, Script, generate, load_drawn, load_pipeline};

use serde::{Deserialize, Serialize};

use crate::ended::{Ended, USED, is_quick};
use crate::log::Log;

/// What another process needs to run a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    name: String,
    dot: String,
    script: Script,
}

/// The kind of the stages that the suite executes.
pub const ACT: &str = "act";

/// The kinds that the suite executes: its own, and fan-ins.
pub const KINDS: &[&str] = &[ACT, kind::FAN_IN];

const fn spec(kind: &'static str) -> KindSpec {
    KindSpec {
        kind,
        fields: &[],
        words: Words::Open,
    }
}

/// The number of calls that an attempt notes, where attempts are logged.
pub const CALLS: usize = 2;
/// The most stages that a run may have: longer ones find no more, and take long.
const STAGES: usize = 40;
/// By how many orders of events a run is looked at.
const SCHEDULES: u64 = 24;
/// By how many orders an end is explained that differs.
const RARE_SCHEDULES: u64 = 5_000;

/// A pipeline, and what its stages and people say.
#[derive(Debug)]
pub struct Case {
    /// Its name, also as an entry of a worker.
    pub name: String,
    /// The pipeline as DOT text.
    pub dot: String,
    /// The pipeline.
    pub pipeline: SharedPipeline,
    /// What stages and people say.
    pub script: Script,
    /// How the run ends, in whatever order its events come.
    pub expected: Ended,
    positions: Positions,
}

impl Case {
    /// Returns the case of a seed.
    pub fn new(seed: u64) -> Case {
        let mut chance = Random::new(seed ^ 0x636f_6e66);
        loop {
            let case = Drawn::draw(&mut chance).and_then(Drawn::into_case);
            if let Some(case) = case {
                return Case {
                    name: format!("case-{seed}"),
                    ..case
                };
            }
        }
    }

    /// Returns what another process needs to run the case, in a version of the program.
    pub fn plan(&self, version: u64) -> Plan {
        // The graph has another hash in each version, and the same end.
        let dot = match version {
            0 => self.dot.clone(),
            version => self
                .dot
                .replacen('{', &format!("{{ label=\"version {version}\";"), 1),
        };
        Plan {
            name: self.name.clone(),
            dot,
            script: self.script.clone(),
        }
    }

    /// Returns the case of a plan. The process that made it knows how the case ends.
    pub fn planned(plan: Plan) -> Case {
        let Plan { name, dot, script } = plan;
        let pipeline = SharedPipeline::from(load_pipeline(&dot).unwrap());
        Case {
            expected: Ended::unknown(),
            positions: Positions::of(&pipeline),
            name,
            dot,
            pipeline,
            script,
        }
    }

    /// Returns a case of a text whose stages all succeed.
    pub fn of(name: &str, dot: &str) -> Case {
        let pipeline = SharedPipeline::from(load_pipeline(dot).unwrap());
        let script = Script::default();
        Case {
            name: name.to_owned(),
            dot: dot.to_owned(),
            expected: Ended::of_machine(&pipeline, &script),
            positions: Positions::of(&pipeline),
            pipeline,
            script,
        }
    }

    /// Returns which call of its stage an attempt is.
    pub fn call(&self, key: &str) -> Call {
        self.positions.call(key)
    }

    /// Returns what a person does about the question of a gate.
    pub fn reaction(&self, question: &str) -> Reaction {
        let gate = question.rsplit('/').nth(1).unwrap_or(question);
        let gate = gate.split('#').next().unwrap_or(gate);
        self.script.reaction(gate, self.call(question))
    }

    /// Returns the pipeline with its stages, as the entry of a worker.
    pub fn entry(self: &Arc<Case>, actor: &Actor) -> Entry {
        let actor = Actor {
            case: Some(self.clone()),
            ..actor.clone()
        };
        Entry::new(&self.name, self.pipeline.clone(), move || actor.clone())
    }

    /// Returns the engine of the stages.
    pub fn engine() -> Engine {
        Engine::builder().build().unwrap()
    }
}

/// A graph with its script, which may be a case.
struct Drawn {
    graph: Graph,
    script: Script,
    dot: String,
}

impl Drawn {
    fn draw(chance: &mut Random) -> Option<Drawn> {
        let generate::Case { mut graph, .. } = generate::cases(chance.number(), 1).next()?;
        let mut script = generate::script(chance, &graph);
        prepare(&mut graph, &mut script);
        let dot = graph.dot();
        Some(Drawn { graph, script, dot })
    }

    /// Returns the pipeline, if it is the one that was drawn.
    fn pipeline(&self) -> Option<SharedPipeline> {
        let (pipeline, others) = load_drawn(&self.graph, &self.dot).ok()?;
        if !others.is_empty() || load_pipeline(&self.dot).ok()?.nodes != pipeline.nodes {
            return None;
        }
        Some(SharedPipeline::from(Arc::new(pipeline)))
    }

    /// Returns the case, if it can be compared: its end does not depend on the order of events.
    fn into_case(self) -> Option<Case> {
        let pipeline = self.pipeline()?;
        let expected = Ended::of_machine(&pipeline, &self.script);
        let recording = record(pipeline.clone(), &self.script);
        if expected.stages() > STAGES || !is_quick(&recording) {
            return None;
        }
        let is_certain = self.graph.joins.is_empty() || is_certain(&pipeline, &self.script, &expected);
        is_certain.then(|| Case {
            name: String::new(),
            dot: self.dot,
            positions: Positions::of(&pipeline),
            pipeline,
            script: self.script,
            expected,
        })
    }
}

impl Case {
    /// Returns how an end differs from the expected one; empty if another order of events leads to it. A branch that takes
    /// longer than in all orders that were looked at may be cut off by what ends its block.
    pub fn difference(&self, ended: &Ended) -> String {
        let difference = self.expected.difference(ended);
        let is_another_order = |order: u64| {
            let script = in_order(&self.script, order);
            let other = Ended::of_schedule(&self.pipeline, &script, self.script.schedule);
            other.difference(ended).is_empty()
        };
        match !difference.is_empty() && (1..=RARE_SCHEDULES).any(is_another_order) {
            true => String::new(),
            false => difference,
        }
    }
}

/// Returns the script with its events in another order.
fn in_order(script: &Script, order: u64) -> Script {
    Script {
        schedule: script.schedule ^ order.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        ..script.clone()
    }
}

/// Whether other orders of events lead to the same end. What ends a run from within a block cuts off the other branches
/// wherever they are.
fn is_certain(pipeline: &SharedPipeline, script: &Script, expected: &Ended) -> bool {
    expected.failure.is_none()
        && (1..=SCHEDULES).all(|schedule| {
            let other = in_order(script, schedule);
            Ended::of_schedule(pipeline, &other, script.schedule) == *expected
        })
}

/// Makes the stages of a graph those of the suite, and the waits short.
fn prepare(graph: &mut Graph, script: &mut Script) {
    for node in &mut graph.nodes {
        if node.is_work() {
            for key in ["tool_command", "shape", "prompt"] {
                node.attributes.remove(key);
            }
            node.attributes.insert("type".to_owned(), ACT.to_owned());
        }
        for key in ["retry_policy", "timeout"] {
            node.attributes.remove(key);
        }
        node.attributes
            .insert("retry_initial_delay".to_owned(), "1ms".to_owned());
    }
    for said in script.outcomes.values_mut().flatten() {
        said.updates.retain(|key, _| KeyOwner::of_key(key).is_none());
        said.retry_after = None;
    }
    // There is always somebody who answers.
    for reaction in script.reactions.values_mut().flatten() {
        if matches!(reaction, Reaction::Nobody | Reaction::Silence) {
            *reaction = Reaction::Skip;
        }
    }
}

/// The handler of the stages: they do what the script of their case says.
#[derive(Clone, Debug, Default)]
pub struct Actor {
    /// The case; chosen by [`Case::entry`].
    pub case: Option<Arc<Case>>,
    /// Where attempts are logged.
    pub log: Option<Arc<Log>>,
    /// How long an attempt takes.
    pub takes: Duration,
}

impl Handler for Actor {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        Box::pin(async move {
            let key = stage.attempt_key();
            let log = |what: &str| {
                if let Some(log) = &self.log {
                    log.write(&format!(
                        "{} {} {what} {key}",
                        stage.now().as_millis(),
                        stage.run_id()
                    ));
                }
            };
            log(if stage.is_repeat() { "again" } else { "begins" });
            // As an agent notes the answers of its model.
            if self.log.is_some() {
                for number in stage.notes().len()..CALLS {
                    log(&format!("call-{number}"));
                    tokio::time::sleep(self.takes).await;
                    stage.note(number as u64).await;
                    log(&format!("noted-{number}"));
                }
            }
            stage.record_usage(USED);
            let Some(case) = &self.case else {
                return Outcome::success().into();
            };
            let said = outcome(case.script.outcome(stage.node().id(), case.call(&key)));
            log("ends");
            said.into()
        })
    }
}

impl HandlerSet for Actor {
    const KINDS: Kinds = Kinds::List(&[spec(ACT), spec(kind::FAN_IN)]);

    fn register(self, registry: &mut Registry) {
        registry.add(spec(ACT), Arc::new(self.clone()));
        registry.add(spec(kind::FAN_IN), Arc::new(self));
    }
}
