//! Agreement of `check` and `run`: `run` starts what `check` accepts, given handlers and credentials, and `check`
//! reports what `run` ignores.

#![cfg(unix)]

use crate::support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orchestra_engine::{
    AutoApprove, Disk, Engine, Outcome, RunFailure, RunResult, Script, SimulationBackend, StageContext,
};
use orchestra_engine::{Handler, HandlerFuture, HandlerSet, KindSpec, Kinds, Registry, Words};
use orchestra_graph::{LoadOptions, Pipeline, ShapeFallback, SharedPipeline, Transform, load_bytes};
use orchestra_oracle_tests::generate::cases;
use orchestra_oracle_tests::random::Random;
use serde_json::Value;
use support::Scratch;

/// Returns the files of the corpus as users write them.
fn corpus() -> Vec<std::path::PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../graph/tests/corpus");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

/// The result of `check` for a file: the codes of its errors, and of the notes on handlers that other programs may
/// supply.
#[derive(Default)]
struct Told {
    errors: BTreeSet<String>,
    notes: BTreeSet<String>,
}

/// Checks files in one call and returns the results by file.
fn check(scratch: &Scratch, files: &[String]) -> BTreeMap<String, Told> {
    let mut args = vec!["check", "--json"];
    args.extend(files.iter().map(String::as_str));
    let done = scratch.call(&args);
    let mut reported: BTreeMap<String, Told> = BTreeMap::new();
    for object in done.objects() {
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        match object["severity"].as_str() {
            Some("error") => reported
                .entry(text("file"))
                .or_default()
                .errors
                .insert(text("code")),
            Some("note") => reported
                .entry(text("file"))
                .or_default()
                .notes
                .insert(text("code")),
            _ => continue,
        };
    }
    reported
}

/// Loads a file like `run` does.
fn load(path: &Path) -> Option<Pipeline> {
    let transforms: Vec<Arc<dyn Transform>> = vec![Arc::new(ShapeFallback::default())];
    let options = LoadOptions {
        transforms,
        children: Some(&Disk),
        ..LoadOptions::default()
    };
    load_bytes(&path.to_string_lossy(), &std::fs::read(path).unwrap(), &options).pipeline()
}

/// Handlers for all kinds that a pipeline uses.
struct Handlers(Vec<&'static str>);

impl HandlerSet for Handlers {
    const KINDS: Kinds = Kinds::List(&[]);

    fn register(self, registry: &mut Registry) {
        for kind in self.0 {
            let spec = KindSpec {
                kind,
                fields: &[],
                words: Words::Open,
            };
            registry.add(spec, Arc::new(Idle));
        }
    }
}

struct Idle;

impl Handler for Idle {
    fn run<'a>(&'a self, _: StageContext) -> HandlerFuture<'a> {
        Box::pin(async { Outcome::success().into() })
    }
}

/// The kinds in random graphs for which no engine has a handler.
const ELSEWHERE: &[&str] = &["acme.build", "team.judge", "team.work"];

/// Returns those of these kinds that a pipeline uses.
fn elsewhere(pipeline: &Pipeline) -> Vec<&'static str> {
    let asked = |kind: &&'static str| pipeline.kinds().any(|asked| asked == *kind);
    ELSEWHERE.iter().copied().filter(asked).collect()
}

/// Returns whether the engine starts a pipeline if its models and handlers exist. Nothing is executed.
async fn starts(pipeline: SharedPipeline) -> bool {
    let engine = Engine::builder().backend(SimulationBackend).build().unwrap();
    let kinds = elsewhere(&pipeline);
    match engine.start(pipeline, Handlers(kinds)).await {
        Ok(run) => {
            run.cancel("it has started");
            run.wait().await.unwrap();
            true
        }
        Err(_) => false,
    }
}

/// Simulates a run in which every stage succeeds.
async fn simulate(pipeline: SharedPipeline) -> RunResult {
    let engine = Engine::builder()
        .simulate(Script::new().hasten())
        .interviewer(AutoApprove);
    let start = engine.build().unwrap().start(pipeline, ());
    // The back-off between attempts would take minutes.
    let run = start.max_time(Duration::from_millis(20)).await.unwrap();
    run.wait().await.unwrap()
}

/// Returns whether a check should have found the failure, unlike a failure of a stage or a missing route.
fn is_of_the_pipeline(failure: &RunFailure) -> bool {
    let reported = failure.to_string();
    ["no handler", "tool_command", "not provided"]
        .iter()
        .any(|part| reported.contains(part))
}

/// Adds something to a graph that an engine may lack or refuse.
fn spoilt(dot: &str, nodes: &[String], random: &mut Random) -> String {
    let additions = [
        "shape=parallelogram",
        "shape=parallelogram, tool_command=\"true\"",
        "type=\"acme.build\"",
        "type=\"acme.build\", shape=parallelogram",
        "type=\"acme.build\", shape=parallelogram, tool_command=\"true\"",
        "shape=house, manager.poll_interval=1ms, stack.child_dotfile=\"child.dot\"",
        "shape=house, manager.poll_interval=1ms, stack.child_dotfile=\"child.dot\", stack.child_autostart=false",
        "shape=house, manager.poll_interval=1ms, stack.child_dotfile=\"child.dot\", manager.max_cycles=0",
        "shape=house, manager.poll_interval=1ms, stack.child_dotfile=\"child.dot\", manager.actions=\"dance\"",
        "shape=house, stack.child_dotfile=\"missing.dot\"",
        "shape=house",
        "shape=folder, subpipeline.file=\"child.dot\"",
        "shape=folder, subpipeline.file=\"empty.dot\"",
        "shape=folder",
    ];
    let Some((body, _)) = dot
        .rsplit_once('}')
        .filter(|_| !nodes.is_empty() && random.chance(60))
    else {
        return dot.to_owned();
    };
    format!(
        "{body}\n{} [{}]\n}}\n",
        random.pick(nodes),
        random.pick(&additions)
    )
}

/// The numbers of accepted and rejected graphs, and of graphs for engines with other handlers.
#[derive(Debug, Default)]
struct Counts {
    accepted: usize,
    refused: usize,
    elsewhere: usize,
}

/// Tries 2,500 graphs; set `ORACLE_CASES=10000` to try more.
#[test]
fn check_and_run_agree_on_random_graphs() {
    let scratch = Scratch::new();
    scratch.write("child.dot", "digraph child { start -> exit }");
    scratch.write(
        "empty.dot",
        "digraph child { start -> work -> exit; work [shape=parallelogram] }",
    );
    let mut files = Vec::new();
    for case in cases(
        orchestra_oracle_tests::seed(11_000),
        orchestra_oracle_tests::case_count(2_500),
    ) {
        let mut random = Random::new(case.seed);
        let nodes: Vec<String> = case.graph.nodes.iter().map(|node| node.id.clone()).collect();
        let file = format!("g{}.dot", case.seed);
        scratch.write(&file, spoilt(&case.dot, &nodes, &mut random));
        files.push(file);
    }
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let share = files.len().div_ceil(workers);
    let counted: Vec<Counts> = std::thread::scope(|scope| {
        let shares: Vec<_> = files
            .chunks(share)
            .map(|files| scope.spawn(|| agree(&scratch, files)))
            .collect();
        shares.into_iter().map(|share| share.join().unwrap()).collect()
    });
    let sum = |of: fn(&Counts) -> usize| counted.iter().map(of).sum::<usize>();
    let (accepted, refused) = (sum(|counts| counts.accepted), sum(|counts| counts.refused));
    assert!(
        accepted > files.len() / 3 && refused > files.len() / 10,
        "{accepted} accepted, {refused} refused"
    );
    assert!(sum(|counts| counts.elsewhere) > 25, "{counted:?}");
}

/// Compares the results of `check` with the behaviour of the engine.
#[tokio::main(flavor = "current_thread")]
async fn agree(scratch: &Scratch, files: &[String]) -> Counts {
    let mut reported = BTreeMap::new();
    for some in files.chunks(2_000) {
        reported.extend(check(scratch, some));
    }
    let none = Told::default();
    let mut counts = Counts::default();
    for file in files {
        let said = reported.get(file).unwrap_or(&none);
        let mut errors = !said.errors.is_empty();
        let Some(pipeline) = load_in(scratch, file) else {
            assert!(errors, "`check` accepts {file}, which does not load");
            counts.refused += 1;
            continue;
        };
        let pipeline = SharedPipeline::from(pipeline);
        // The errors of a child are reported in the child's own file.
        errors |= pipeline
            .children
            .iter()
            .any(|child| child.file.ends_with("empty.dot"));
        assert_eq!(
            starts(pipeline.clone()).await,
            !errors,
            "{file}: {:?}\n{}",
            said.errors,
            scratch.read(file)
        );
        if errors {
            counts.refused += 1;
            continue;
        }
        counts.accepted += 1;
        let engine = Engine::builder().backend(SimulationBackend).build().unwrap();
        let needs_others = engine.check(pipeline.clone(), ()).is_err();
        assert_eq!(
            said.notes.contains("cannot_start"),
            needs_others,
            "{file}\n{}",
            scratch.read(file)
        );
        counts.elsewhere += usize::from(needs_others);
        if let Some(failure) = simulate(pipeline).await.failure {
            assert!(!is_of_the_pipeline(&failure), "{file}: {failure}");
        }
    }
    counts
}

/// Loads a file of a place by its relative name.
fn load_in(scratch: &Scratch, file: &str) -> Option<Pipeline> {
    load(&scratch.path(file))
}

#[tokio::test(flavor = "current_thread")]
async fn check_and_run_agree_on_the_corpus() {
    let files = corpus();
    assert!(files.len() >= 48, "{}", files.len());
    for path in &files {
        let scratch = Scratch::new();
        scratch.write("child.dot", "digraph child { start -> exit }");
        scratch.write("a.dot", std::fs::read(path).unwrap());
        let name = path.file_name().unwrap().to_string_lossy();
        let checked = scratch.call(&["check", "a.dot"]);
        let pipeline = SharedPipeline::from(load_in(&scratch, "a.dot").unwrap());
        if checked.code == 0 {
            let engine = Engine::builder().backend(SimulationBackend).build().unwrap();
            let started = engine.start(pipeline, ()).await;
            // It can be run with the handlers of other programs.
            let needs_others = checked.stderr.contains("note[cannot_start]");
            assert_eq!(started.is_err(), needs_others, "{name}: {}", checked.stderr);
            if let Ok(run) = started {
                run.cancel("it has started");
                run.wait().await.unwrap();
            }
        } else {
            // It uses agents that are not configured here.
            assert!(
                checked.stderr.contains("[unknown_agent]"),
                "{name}: {}",
                checked.stderr
            );
            let refused = scratch.call(&["run", "a.dot"]).exits(3);
            assert!(
                refused.stderr.contains("[unknown_agent]"),
                "{name}: {}",
                refused.stderr
            );
        }
        let run = scratch.call(&["run", "a.dot", "--simulate", "--auto-approve", "--json"]);
        assert!(
            [0, 1].contains(&run.code),
            "{name}: {}\n{}",
            run.stdout,
            run.stderr
        );
        assert_eq!(run.result()["schema"], "orchestra.result/1");
    }
}

#[test]
fn what_run_refuses_check_says_in_the_same_words() {
    let stage =
        |attributes: &str| format!("digraph a {{ start -> work -> exit; work [label=Work, {attributes}] }}");
    let cases = [
        (
            "shape=parallelogram",
            "`work` is a tool, but has no `tool_command`",
        ),
        (
            "shape=house, manager.poll_interval=1ms, stack.child_dotfile=\"child.dot\", stack.child_autostart=false",
            "`work` says `stack.child_autostart=false`, but nothing else starts a child",
        ),
        ("shape=folder", "`work` does not say which pipeline it runs"),
        (
            "shape=folder, subpipeline.file=\"empty.dot\"",
            "`tests` is a tool, but has no `tool_command`",
        ),
    ];
    for (attributes, message) in cases {
        let scratch = Scratch::new();
        scratch.write("child.dot", "digraph child { start -> exit }");
        scratch.write(
            "empty.dot",
            "digraph e { start -> tests -> exit; tests [shape=parallelogram] }",
        );
        scratch.write("a.dot", stage(attributes));
        for command in ["check", "run"] {
            let done = scratch.call(&[command, "a.dot"]).exits(3);
            assert!(
                done.stderr.contains(message),
                "{command} {attributes}: {}",
                done.stderr
            );
        }
        assert!(!scratch.path(".orchestra").exists());
    }
}

#[test]
fn types_without_a_handler_here_are_reported_by_both() {
    let scratch = Scratch::new();
    scratch.write(
        "a.dot",
        r#"digraph a { start -> one -> two -> exit; one [type="acme.one", shape=parallelogram, tool_command="true"]
            two [type="acme.two"] }"#,
    );
    // Another program may have these handlers, so they are not errors of the file.
    let checked = scratch.call(&["check", "a.dot", "--deny", "warnings"]).exits(0);
    let run = scratch.call(&["run", "a.dot"]).exits(3);
    for part in [
        "no handler for the type `acme.one`, so `one` runs as a `tool`",
        "`two` is of kind `acme.two`, which has no handler",
    ] {
        assert!(
            checked.stderr.contains(part) && run.stderr.contains(part),
            "{}\n{}",
            checked.stderr,
            run.stderr
        );
    }
    assert!(
        checked.stderr.contains("ok: 1 file checked, 2 notes"),
        "{}",
        checked.stderr
    );
    scratch
        .call(&["check", "a.dot", "--deny", "cannot_start"])
        .exits(3);
    let quiet = scratch
        .call(&[
            "check",
            "a.dot",
            "--allow",
            "cannot_start",
            "--allow",
            "type_known",
        ])
        .exits(0);
    assert!(quiet.stderr.contains("no problems found"), "{}", quiet.stderr);
    let page = scratch.call(&["explain", "cannot_start"]).exits(0);
    assert!(page.stdout.contains("tool_command"), "{}", page.stdout);
}

#[test]
fn check_asks_the_configuration_that_run_would_take() {
    let scratch = Scratch::new();
    scratch.write(
        "flows/a.dot",
        "digraph a { start -> work -> exit; work [prompt=Work, agent=writter] }",
    );
    scratch.write(
        "flows/orchestra.yaml",
        "backend: simulation\nagents:\n  writer: {}\n",
    );
    for command in ["check", "compile", "run"] {
        let done = scratch.call(&[command, "flows/a.dot"]).exits(3);
        assert!(
            done.stderr.contains("unknown_agent") && done.stderr.contains("`writer`"),
            "{command}: {}",
            done.stderr
        );
    }
    scratch.write("other.yaml", "backend: simulation\nagents:\n  writter: {}\n");
    for command in ["check", "run"] {
        scratch
            .call(&[command, "flows/a.dot", "--config", "other.yaml"])
            .exits(0);
    }
    let objects = scratch
        .call(&["check", "flows/a.dot", "--json"])
        .exits(3)
        .objects();
    let errors: Vec<&Value> = objects
        .iter()
        .filter(|object| object["code"] == "unknown_agent")
        .collect();
    assert_eq!((errors.len(), &errors[0]["line"]), (1, &1.into()));
    assert_eq!(objects.last().unwrap()["errors"], 1);
    // An invalid configuration keeps its pipelines from running.
    scratch.write("flows/orchestra.yaml", "agents: [writer\n");
    for command in ["check", "run"] {
        scratch.call(&[command, "flows/a.dot"]).exits(3);
    }
}
