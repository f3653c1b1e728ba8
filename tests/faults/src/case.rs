//! What is run: a random graph with a script, and what the rules say that comes of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use orchestra_engine::SharedPipeline;
use orchestra_engine::process::{Exit, ShellCommand};
use orchestra_graph::KeyOwner;
use orchestra_oracle_tests::description::{Call, Node};
use orchestra_oracle_tests::positions::Positions;
use orchestra_oracle_tests::random::Random;
use orchestra_oracle_tests::{
    End, Graph, Reaction, Script, ScriptedOutcome, Step, Trace, generate, load_drawn, reference,
};
use serde_json::json;

use crate::model::ModelRun;

/// The most steps that a run may have by the rules: longer ones find no more, and take long.
const STEPS: usize = 400;
/// One seed in so many has stages with a model.
const MODELS: u64 = 7;
/// By how many other orders of its branches a run is looked at.
const SCHEDULES: u64 = 6;

/// A pipeline, what its stages and people say, and what comes of it.
#[derive(Debug)]
pub struct Case {
    /// The graph.
    pub graph: Graph,
    /// The graph as DOT text.
    pub dot: String,
    /// The pipeline.
    pub pipeline: SharedPipeline,
    /// What stages and people say.
    pub script: Script,
    /// What tools do, call by call.
    pub tools: BTreeMap<String, Vec<ToolRun>>,
    /// What models do, call by call.
    pub models: BTreeMap<String, Vec<ModelRun>>,
    /// What the rules say.
    pub expected: Trace,
    /// Whether that does not depend on which of several branches is faster.
    pub is_certain: bool,
    /// How many stages may be in flight at once.
    pub at_once: usize,
    positions: Positions,
}

/// What becomes of a command.
#[derive(Clone, Debug)]
pub enum ToolRun {
    /// It ends by itself.
    Ends {
        /// How.
        exit: Exit,
        /// What it wrote to its standard output.
        stdout: Vec<u8>,
        /// What it wrote to its standard error.
        stderr: Vec<u8>,
    },
    /// It runs until its time is over.
    Hangs,
    /// It cannot be started, for this reason of the system.
    Refused(i32),
}

impl Default for ToolRun {
    fn default() -> ToolRun {
        ToolRun::Ends {
            exit: Exit::Code(0),
            stdout: b"done\n".to_vec(),
            stderr: Vec::new(),
        }
    }
}

impl Case {
    /// Returns the case of a seed.
    pub fn new(seed: u64) -> Case {
        let mut chance = Random::new(seed ^ 0xca5e);
        loop {
            if let Some(case) = Case::draw(seed.is_multiple_of(MODELS), &mut chance) {
                return case;
            }
        }
    }

    fn draw(has_models: bool, chance: &mut Random) -> Option<Case> {
        let generate::Case { mut graph, .. } = generate::cases(chance.number(), 1).next()?;
        let mut script = generate::script(chance, &graph);
        let (tools, models) = prepare(&mut graph, &mut script, has_models, chance);
        let dot = graph.dot();
        let (pipeline, others) = load_drawn(&graph, &dot).ok()?;
        if !others.is_empty() {
            return None;
        }
        let expected = reference::run(&graph, &script);
        if expected.steps.len() > STEPS {
            return None;
        }
        let is_certain = graph.joins.is_empty() || is_certain(&graph, &script, &expected);
        let positions = Positions::of(&pipeline);
        Some(Case {
            at_once: if graph.joins.is_empty() { 1 } else { usize::MAX },
            pipeline: SharedPipeline::from(Arc::new(pipeline)),
            graph,
            dot,
            script,
            tools,
            models,
            expected,
            is_certain,
            positions,
        })
    }

    /// Returns whether a node is a fan-in.
    pub fn is_fan_in(&self, id: &str) -> bool {
        let found = self.graph.nodes.iter().find(|node| node.id == id);
        found.is_some_and(Node::is_fan_in)
    }

    /// Returns which call of its stage an attempt is.
    pub fn call(&self, key: &str) -> Call {
        self.positions.call(key)
    }
}

/// Whether the rules say the same of other orders of branches.
fn is_certain(graph: &Graph, script: &Script, expected: &Trace) -> bool {
    let limited = graph
        .nodes
        .iter()
        .any(|node| graph.joins.contains_key(&node.id) && node.attributes.contains_key("timeout"));
    let same = |other: Trace| {
        other.end == expected.end
            && other.context == expected.context
            && other.outcomes == expected.outcomes
            && other.path == expected.path
            && other.visits == expected.visits
            && other.taken == expected.taken
            && other.errors == expected.errors
    };
    // A block that needs some branches fails as soon as too many have failed, and the death of a process can make any
    // branch the slower one.
    let fails_early = format!("{:?}", expected.context).contains("must; branch `");
    // What ends a run from within a block cuts off the other branches wherever they are.
    !limited
        && !fails_early
        && expected.end == End::Success
        && (1..=SCHEDULES).all(|schedule| {
            let other = Script {
                schedule: script.schedule ^ schedule.wrapping_mul(0x9e37_79b9_7f4a_7c15),
                ..script.clone()
            };
            same(reference::run(graph, &other))
        })
}

/// Makes the stages of a graph those that the simulation has, and their outcomes such as they may give.
fn prepare(
    graph: &mut Graph,
    script: &mut Script,
    has_models: bool,
    chance: &mut Random,
) -> (BTreeMap<String, Vec<ToolRun>>, BTreeMap<String, Vec<ModelRun>>) {
    let (mut tools, mut models) = (BTreeMap::new(), BTreeMap::new());
    let is_flat = graph.joins.is_empty();
    for node in graph.nodes.iter_mut().filter(|node| node.is_work()) {
        let own = &mut node.attributes;
        own.remove("tool_command");
        own.remove("shape");
        own.remove("type");
        let outcomes = script.outcomes.entry(node.id.clone()).or_default();
        let fails = |at: usize, outcomes: &[ScriptedOutcome]| {
            outcomes
                .get(at)
                .is_some_and(|said| said.word == "fail" || said.word == "retry")
        };
        if has_models && is_flat && chance.chance(40) {
            own.insert("prompt".to_owned(), format!("stage:{}", node.id));
            own.remove("outcomes");
            let calls = outcomes.len().max(1);
            let runs: Vec<ModelRun> = (0..calls)
                .map(|at| ModelRun::draw(chance, fails(at, outcomes)))
                .collect();
            *outcomes = runs.iter().map(|run| run.said(&node.id)).collect();
            models.insert(node.id.clone(), runs);
        } else if is_flat && chance.chance(30) {
            own.insert("shape".to_owned(), "parallelogram".to_owned());
            own.insert("tool_command".to_owned(), node.id.clone());
            own.remove("outcomes");
            if chance.chance(40) {
                own.insert("timeout".to_owned(), "2s".to_owned());
            }
            let timeout = own.contains_key("timeout");
            let calls = outcomes.len().max(1);
            let runs: Vec<ToolRun> = (0..calls)
                .map(|at| tool(chance, fails(at, outcomes), timeout))
                .collect();
            *outcomes = runs.iter().map(|run| said(run, &node.id)).collect();
            tools.insert(node.id.clone(), runs);
        } else {
            own.insert("type".to_owned(), "act".to_owned());
        }
    }
    for (node, outcomes) in &mut script.outcomes {
        for said in outcomes {
            said.updates.retain(|key, _| {
                KeyOwner::of_key(key).is_none()
                    || key.starts_with("tool.") && tools.contains_key(node)
                    || key == "last_response" && models.contains_key(node)
            });
        }
    }
    // What a fan-in chooses is the engine's.
    for node in &graph.nodes {
        if node.is_fan_in() {
            script.outcomes.remove(&node.id);
        }
    }
    // A gate that waits for an answer which comes at once is never late.
    for reactions in script.reactions.values_mut() {
        for reaction in reactions {
            if matches!(reaction, Reaction::Nobody) && chance.chance(50) {
                *reaction = Reaction::Skip;
            }
        }
    }
    (tools, models)
}

fn tool(chance: &mut Random, fails: bool, has_timeout: bool) -> ToolRun {
    let line = |chance: &mut Random| match chance.below(6) {
        0 => Vec::new(),
        1 => b"two\nlines, and no end".to_vec(),
        2 => vec![b'x'; 70_000],
        3 => b"\xff\xfe not text\n".to_vec(),
        4 => b"\n\n \n".to_vec(),
        _ => b"done\n".to_vec(),
    };
    if !fails {
        return ToolRun::Ends {
            exit: Exit::Code(0),
            stdout: line(chance),
            stderr: line(chance),
        };
    }
    let ends = |exit: Exit, stderr: &[u8]| ToolRun::Ends {
        exit,
        stdout: Vec::new(),
        stderr: stderr.to_vec(),
    };
    match chance.below(7) {
        0 => ToolRun::Refused(11),
        1 => ToolRun::Refused(2),
        2 => ToolRun::Refused(7),
        3 if has_timeout => ToolRun::Hangs,
        4 => ends(Exit::Signal(9), b""),
        5 => ends(Exit::Code(127), b"not found\n"),
        _ => ends(Exit::Code(1), b"it is red\n"),
    }
}

/// The outcome of a tool stage (Attractor 4.10).
fn said(run: &ToolRun, node: &str) -> ScriptedOutcome {
    let (exit, stdout, stderr) = match run {
        ToolRun::Ends { exit, stdout, stderr } => (*exit, stdout.as_slice(), stderr.as_slice()),
        ToolRun::Hangs => (Exit::TimedOut, &[][..], &[][..]),
        ToolRun::Refused(code) => {
            let error = std::io::Error::from_raw_os_error(*code);
            return ScriptedOutcome::fail(&format!("cannot start /bin/sh: {error}"));
        }
    };
    // What is kept of large or broken output has its own tests.
    let kept = ShellCommand::new("").capture_limit(64 * 1024);
    let Ok(kept) = kept.simulate(exit, stdout, stderr, std::time::Duration::ZERO) else {
        return ScriptedOutcome::default();
    };
    let last = kept.last_line().unwrap_or_default();
    let reported = kept
        .stderr
        .lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty());
    let reported = reported.unwrap_or(last);
    let failed = |what: String| {
        ScriptedOutcome::fail(&if reported.is_empty() {
            what
        } else {
            format!("{what}: {reported}")
        })
    };
    let (mut said, code) = match exit {
        Exit::Code(0) => {
            let notes = if last.is_empty() { node } else { last };
            let mut said = ScriptedOutcome::word("success");
            said.notes = notes.chars().take(200).collect();
            (said, json!(0))
        }
        Exit::Code(code) => (failed(format!("exit code {code}")), json!(code)),
        Exit::Signal(signal) => (failed(format!("killed by signal {signal}")), json!(128 + signal)),
        _ => (ScriptedOutcome::fail("timed out after 2s"), json!(null)),
    };
    said.updates.insert("tool.output".to_owned(), json!(kept.stdout));
    said.updates.insert("tool.exit_code".to_owned(), code);
    said.updates.insert("tool.last_line".to_owned(), json!(last));
    said
}

/// How many attempts of stages a run has by the rules.
pub fn attempts(trace: &Trace) -> usize {
    trace
        .steps
        .iter()
        .filter(|step| matches!(step, Step::Run { .. }))
        .count()
}
