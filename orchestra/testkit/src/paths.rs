//! The tests that `pipeline!(.., paths)` generates: one for each edge and each jump of a pipeline (rule V5).

use std::fmt::Write as _;
use std::path::Path;
use std::sync::OnceLock;

use orchestra_engine::{
    Disk, EventKind, FoundPaths, FoundTarget, PathOptions, PathScript, PathVerdict, find_paths,
};
use orchestra_graph::{LoadOptions, PathStep, Pipeline, Position, Rule, format_duration, load_bytes, render};

use crate::run::SimulationRun;
use crate::script::read_script;
use crate::simulation::Simulation;

/// The generated tests of a compiled pipeline. The search for paths is done once, by the test that comes first. Used by
/// generated code.
///
/// ```
/// use orchestra_graph::{LoadOptions, Source, load};
/// use orchestra_testkit::PathTests;
/// let text = "digraph { start -> work -> exit; work -> mend [condition=\"outcome=fail\"]; mend -> exit }";
/// let pipeline = load(Source::new("a.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let tests = PathTests::new("", text, Box::leak(Box::new(pipeline)), &[]);
/// tests.check("edge_work_to_mend_when_fail");
/// tests.check_all();
/// ```
#[doc(hidden)]
pub struct PathTests {
    folder: &'static str,
    source: &'static str,
    pipeline: &'static Pipeline,
    allowed: &'static [&'static str],
    found: OnceLock<Result<FoundPaths, String>>,
}

impl PathTests {
    /// Prepares the tests of a pipeline. `folder` is the folder of the package, and `allowed` names the targets that need
    /// not be found.
    pub const fn new(
        folder: &'static str,
        source: &'static str,
        pipeline: &'static Pipeline,
        allowed: &'static [&'static str],
    ) -> PathTests {
        PathTests {
            folder,
            source,
            pipeline,
            allowed,
            found: OnceLock::new(),
        }
    }

    /// Runs the script of a target with the engine, and asserts that the run takes the target.
    ///
    /// # Panics
    ///
    /// Panics if it does not, or if there is no such script.
    #[track_caller]
    #[allow(clippy::panic, reason = "a test fails by panicking")]
    pub fn check(&self, target: &str) {
        let result = match self.found() {
            Ok(found) => match found.targets.iter().find(|found| found.target.name == target) {
                Some(wanted) => self.run(found, wanted),
                None => Err(format!(
                    "there is no target `{target}` any longer; build the program again"
                )),
            },
            Err(problem) => Err(problem.clone()),
        };
        if let Err(problem) = result {
            panic!("pipeline `{}`: {problem}", self.pipeline.name);
        }
    }

    /// Checks all targets, and lists all that fail.
    ///
    /// # Panics
    ///
    /// Panics if any of them fails.
    #[track_caller]
    #[allow(clippy::panic, reason = "a test fails by panicking")]
    pub fn check_all(&self) {
        let problems = match self.found() {
            Ok(found) => {
                let targets = found.targets.iter();
                targets
                    .filter_map(|target| self.run(found, target).err())
                    .collect()
            }
            Err(problem) => vec![problem.clone()],
        };
        if !problems.is_empty() {
            panic!(
                "pipeline `{}`: {} targets fail\n{}",
                self.pipeline.name,
                problems.len(),
                problems.join("\n")
            );
        }
    }

    fn found(&self) -> Result<&FoundPaths, &String> {
        let found = self.found.get_or_init(|| {
            let name = Path::new(self.folder).join(&*self.pipeline.file);
            let name = name.to_string_lossy().replace('\\', "/");
            let options = LoadOptions {
                children: Some(&Disk),
                ..LoadOptions::default()
            };
            let loaded = load_bytes(&name, self.source.as_bytes(), &options);
            find_paths(&loaded, &PathOptions::default()).ok_or_else(|| {
                let reports = loaded.reports();
                let texts = reports.map(|report| render::text(report, render::Style::Plain));
                format!("it has errors\n{}", texts.collect::<String>())
            })
        });
        found.as_ref()
    }

    /// Runs the script of a target, and returns why the test of the target fails.
    fn run(&self, found: &FoundPaths, wanted: &FoundTarget) -> Result<(), String> {
        let (text, at) = (&wanted.target.text, self.position(wanted.target.step));
        let name = &wanted.target.name;
        match &wanted.verdict {
            PathVerdict::Infeasible { reason } => Err(format!(
                "{at}: no run takes the {text}\n  infeasible: {reason}\n  help: remove it, or change what decides before it"
            )),
            PathVerdict::NotFound { .. } if self.allowed.contains(&name.as_str()) => Ok(()),
            PathVerdict::NotFound { reason } => Err(format!(
                "{at}: no script takes the {text}\n  not found: {reason}\n  help: change what leads to it, or allow the \
                 gap by `paths(allow = [{name}])`"
            )),
            PathVerdict::Covered { script, .. } => {
                let script = found.scripts.get(*script).cloned().unwrap_or_default();
                self.follow(&script, wanted.target.step).map_err(|problem| {
                    let mut message = format!("{at}: a run did not take the {text}\n{problem}\nthe script:");
                    for line in script.to_yaml().lines() {
                        let _ = write!(message, "\n  {line}");
                    }
                    for (key, value) in &script.inputs {
                        let _ = write!(message, "\n  input {key}: {value}");
                    }
                    message
                })
            }
        }
    }

    /// Runs a script, and returns the report of the run if it does not take a step.
    fn follow(&self, script: &PathScript, step: PathStep) -> Result<(), String> {
        let read = read_script(&script.to_yaml()).map_err(|error| error.to_string())?;
        let mut simulation = Simulation::from_pipeline(self.pipeline).script(read);
        for (key, value) in &script.inputs {
            simulation = simulation.param(key, value.clone());
        }
        let run = simulation.try_run().map_err(|error| error.to_string())?;
        if self.takes(&run, step) {
            return Ok(());
        }
        let duration = format_duration(run.duration());
        Err(format!("path: {} in {duration}\n{run}", run.path().join(" -> ")))
    }

    /// Returns whether a run took a step.
    fn takes(&self, run: &SimulationRun, step: PathStep) -> bool {
        let id = |node| self.pipeline.stage(node).id();
        let has = |wanted: &dyn Fn(&EventKind) -> bool| run.events().iter().any(|event| wanted(&event.kind));
        let jumped = |node, rules: &[Rule]| {
            has(&|kind| {
                matches!(kind, EventKind::EdgeSelected { from, rule, edge: None, .. }
                    if **from == *id(node) && rules.contains(rule))
            })
        };
        match step {
            PathStep::Edge(edge) | PathStep::Restart(edge) => {
                let taken = run.transitions().iter().nth(edge.at());
                let restarted = || has(&|kind| matches!(kind, EventKind::PipelineRestarted { .. }));
                let is_taken = taken.is_some_and(|edge| edge.count > 0);
                is_taken && (matches!(step, PathStep::Edge(_)) || restarted())
            }
            PathStep::Retry(node) => has(
                &|kind| matches!(kind, EventKind::StageRetrying { node: retried, .. } if **retried == *id(node)),
            ),
            PathStep::TimeOut(node) => has(
                &|kind| matches!(kind, EventKind::InterviewTimeout { node: gate, .. } if **gate == *id(node)),
            ),
            PathStep::GoalGate(node) => has(
                &|kind| matches!(kind, EventKind::GoalGateUnsatisfied { gate, .. } if **gate == *id(node)),
            ),
            PathStep::Failure(node) => jumped(node, &[Rule::RetryTarget, Rule::FallbackRetryTarget]),
            PathStep::Join(node) => jumped(node, &[Rule::Join, Rule::FailureToRouting]),
            _ => false,
        }
    }

    /// Returns the position of a step in the file.
    fn position(&self, step: PathStep) -> String {
        let Position { line, column } = match step {
            PathStep::Edge(edge) | PathStep::Restart(edge) => self.pipeline.edge(edge).position,
            PathStep::Retry(node)
            | PathStep::TimeOut(node)
            | PathStep::GoalGate(node)
            | PathStep::Failure(node)
            | PathStep::Join(node) => self.pipeline.stage(node).row().position,
            _ => Position { line: 1, column: 1 },
        };
        format!("{}:{line}:{column}", self.pipeline.file)
    }
}
