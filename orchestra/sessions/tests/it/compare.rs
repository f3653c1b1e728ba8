//! The comparison of two runs.
use crate::support;

use std::path::Path;
use std::time::Duration;

use orchestra_engine::{Engine, EventKind, StageRef, Status, TestedCondition, Usage};
use orchestra_graph::{Pipeline, Rule, Source, load};
use orchestra_sessions::{
    AlignedRow, DivergenceKind, RunComparison, RunStep, SessionError, SessionIndex, SessionStatus,
};
use serde_json::json;
use support::*;

/// What happens in a run, in short.
#[derive(Clone)]
enum Act {
    /// An attempt succeeds: branch, node, visit.
    Works(Option<&'static str>, &'static str, u32),
    /// An attempt begins, and its process ends.
    Begins(Option<&'static str>, &'static str, u32),
    /// An attempt fails: node, visit, attempt, and whether another one follows.
    Fails(&'static str, u32, u32, bool),
    /// A decision: branch, from, to, and the value of `context.size`.
    Goes(Option<&'static str>, &'static str, &'static str, &'static str),
    /// A parallel block begins: branch, node, number of branches.
    Forks(Option<&'static str>, &'static str, u32),
    /// The run is resumed.
    Resumes,
    /// The run ends.
    Ends,
}

use Act::*;

fn attempt(branch: Option<&str>, node: &str, visit: u32, attempt: u32) -> StageRef {
    StageRef {
        branch: branch.map(str::to_owned),
        ..attempt_at(node, visit, attempt)
    }
}

fn completion(branch: Option<&str>, node: &str, visit: u32) -> EventKind {
    EventKind::StageCompleted {
        stage: attempt(branch, node, visit, 1),
        outcome: Status::Success,
        preferred_label: None,
        notes: None,
        usage: Some(Box::new(usage())),
        duration: Duration::from_millis(10),
    }
}

fn write(runs_dir: &Path, name: &str, acts: &[Act]) {
    let mut run = WrittenRun::new(runs_dir, name);
    run.tell(started_run());
    for act in acts {
        match act {
            Works(branch, node, visit) => {
                let stage = attempt(*branch, node, *visit, 1);
                run.tell(EventKind::StageStarted {
                    stage,
                    repeat: false,
                    replay: false,
                });
                run.tell(completion(*branch, node, *visit));
            }
            Begins(branch, node, visit) => {
                let stage = attempt(*branch, node, *visit, 1);
                run.tell(EventKind::StageStarted {
                    stage,
                    repeat: false,
                    replay: false,
                });
            }
            Fails(node, visit, attempt, will_retry) => {
                run.tell(began(node, *visit, *attempt));
                run.tell(failed(node, *visit, *attempt, *will_retry));
            }
            Goes(branch, from, to, size) => {
                run.tell(decision(*branch, from, to, size));
            }
            Forks(branch, node, branch_count) => {
                run.tell(EventKind::ParallelStarted {
                    node: (*node).into(),
                    branch: branch.map(str::to_owned),
                    branch_count: *branch_count,
                    tested: Vec::new(),
                });
            }
            Resumes => {
                run.tell(resumed(2));
            }
            Ends => {
                run.tell(ended_run());
            }
        }
    }
}

fn decision(branch: Option<&str>, from: &str, to: &str, size: &str) -> EventKind {
    EventKind::EdgeSelected {
        branch: branch.map(str::to_owned),
        from: from.into(),
        to: Some(to.into()),
        edge: Some(0),
        rule: Rule::Condition,
        tested: vec![TestedCondition {
            to: to.into(),
            edge: Some(0),
            condition: "context.size!=none".to_owned(),
            held: true,
            values: vec![("context.size".to_owned(), size.to_owned())],
        }],
    }
}

fn compared(left: &[Act], right: &[Act]) -> RunComparison {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "left", left);
    write(dir.path(), "right", right);
    let index = SessionIndex::open(dir.path()).unwrap();
    let comparison = index.compare("left", "right", &[]).unwrap();
    let mirrored = index.compare("right", "left", &[]).unwrap();
    assert_eq!(mirrored.common, comparison.common);
    let kind = |comparison: &RunComparison| comparison.divergence.as_ref().map(|one| one.kind);
    assert_eq!(kind(&mirrored), kind(&comparison));
    let lefts = comparison.rows.iter().filter(|row| row.left.is_some()).count();
    let rights = comparison.rows.iter().filter(|row| row.right.is_some()).count();
    assert_eq!(
        (lefts, rights),
        (comparison.left.steps, comparison.right.steps),
        "no step is lost"
    );
    comparison
}

/// Returns the nodes of a row; an empty text if a run has no step there.
fn nodes(row: &AlignedRow) -> (&str, &str) {
    fn node(step: &Option<RunStep>) -> &str {
        step.as_ref().map_or("", |step| &step.node)
    }
    (node(&row.left), node(&row.right))
}

const PLAN: [Act; 4] = [
    Works(None, "start", 1),
    Goes(None, "start", "plan", "1"),
    Works(None, "plan", 1),
    Goes(None, "plan", "build", "1"),
];

fn after_plan(acts: &[Act]) -> Vec<Act> {
    [&PLAN, acts].concat()
}

#[test]
fn equal_runs_agree_to_their_end() {
    let run = after_plan(&[Fails("build", 1, 1, true), Works(None, "build", 1), Ends]);
    let comparison = compared(&run, &run);
    assert_eq!((comparison.common, comparison.divergence), (4, None));
    assert!(comparison.rows.iter().all(|row| row.same) && !comparison.more);
    assert_eq!(comparison.left.after, Default::default());
    assert_eq!(comparison.same_pipeline, None, "their manifests are incomplete");
}

#[test]
fn each_kind_of_divergence_is_found_at_its_first_step() {
    let build = after_plan(&[Works(None, "build", 1), Goes(None, "build", "exit", "7"), Ends]);
    let cases: [(&[Act], DivergenceKind); 7] = [
        (&[Fails("build", 1, 1, false), Ends], DivergenceKind::Outcome),
        (
            &[Works(None, "build", 1), Goes(None, "build", "plan", "9"), Ends],
            DivergenceKind::Edge,
        ),
        (
            &[Works(None, "build", 1), Goes(None, "build", "exit", "9"), Ends],
            DivergenceKind::Values,
        ),
        (&[Works(None, "test", 1), Ends], DivergenceKind::Node),
        (&[Works(None, "build", 2), Ends], DivergenceKind::Node),
        (&[Begins(None, "build", 1)], DivergenceKind::End),
        (&[], DivergenceKind::End),
    ];
    for (other, kind) in cases {
        let comparison = compared(&build, &after_plan(other));
        assert_eq!(comparison.common, 2, "{kind:?}");
        let divergence = comparison.divergence.unwrap();
        assert_eq!((divergence.kind, divergence.row), (kind, 2));
        assert_eq!(divergence.left.unwrap().node, "build");
        let parts = if kind == DivergenceKind::Values {
            None
        } else {
            Some(2)
        };
        assert_eq!(divergence.parts_at, parts, "{kind:?}");
        let differs = matches!(kind, DivergenceKind::Edge | DivergenceKind::Values);
        assert_eq!(divergence.values.len(), usize::from(differs), "{kind:?}");
        if differs {
            let value = &divergence.values[0];
            assert_eq!(
                json!(value),
                json!({ "key": "context.size", "left": "7", "right": "9" })
            );
        }
    }
}

#[test]
fn runs_that_only_end_differently_say_so() {
    let ended = after_plan(&[Ends]);
    let comparison = compared(&ended, &PLAN);
    let divergence = comparison.divergence.unwrap();
    assert_eq!((divergence.kind, divergence.row), (DivergenceKind::End, 2));
    assert_eq!((divergence.left, divergence.right), (None, None));
    assert_eq!(
        (comparison.left.status, comparison.right.status),
        (SessionStatus::Success, SessionStatus::Running)
    );
}

#[test]
fn branches_are_aligned_by_their_ids_and_not_by_time() {
    let (left, right) = (Some("fan#1:left"), Some("fan#1:right"));
    let (inner_a, inner_b) = (Some("fan#1:right/in#1:a"), Some("fan#1:right/in#1:b"));
    let block = |branches: &[Act]| {
        let begin = [Begins(None, "fan", 1), Forks(None, "fan", 2)];
        let end = [
            Works(None, "join", 1),
            Goes(None, "join", "exit", "1"),
            Works(None, "exit", 1),
            Ends,
        ];
        after_plan(&[&begin[..], branches, &end].concat())
    };
    let one = block(&[
        Works(left, "lint", 1),
        Goes(left, "lint", "join", "1"),
        Begins(right, "in", 1),
        Forks(right, "in", 2),
        Works(inner_a, "a", 1),
        Works(inner_b, "b", 1),
        Works(right, "done", 1),
    ]);
    let other = block(&[
        Begins(right, "in", 1),
        Forks(right, "in", 2),
        Works(inner_b, "b", 1),
        Works(left, "lint", 1),
        Works(inner_a, "a", 1),
        Works(right, "done", 1),
        Goes(left, "lint", "join", "1"),
    ]);
    let comparison = compared(&one, &other);
    assert_eq!(comparison.divergence, None);
    let order: Vec<&str> = comparison.rows.iter().map(|row| nodes(row).0).collect();
    assert_eq!(
        order,
        [
            "start", "plan", "fan", "lint", "in", "a", "b", "in", "done", "fan", "join", "exit"
        ]
    );
    // A difference in a branch comes before the attempt of the block, whose outcome follows from it.
    let mut changed = other.clone();
    let at = changed
        .iter()
        .position(|act| matches!(act, Works(_, "a", _)))
        .unwrap();
    changed.remove(at);
    let comparison = compared(&one, &changed);
    let divergence = comparison.divergence.unwrap();
    assert_eq!((divergence.kind, divergence.row), (DivergenceKind::Node, 5));
    assert_eq!(nodes(&comparison.rows[5]), ("a", ""));
    assert!(comparison.rows.iter().skip(6).all(|row| row.same));
}

/// Returns the acts of several branches, merged in an order that follows from a seed.
fn interleaved(branches: &[Vec<Act>], mut seed: u64) -> Vec<Act> {
    let mut rest: Vec<_> = branches.iter().map(|acts| acts.iter().peekable()).collect();
    let mut merged = Vec::new();
    while rest.iter_mut().any(|acts| acts.peek().is_some()) {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let chosen = (seed >> 33) as usize % rest.len();
        merged.extend(rest[chosen].next().cloned());
    }
    merged
}

#[test]
fn every_interleaving_of_branches_gives_the_same_steps() {
    const IDS: [&str; 4] = ["fan#1:a", "fan#1:b", "fan#1:c", "fan#1:d"];
    let branches: Vec<Vec<Act>> = IDS
        .iter()
        .enumerate()
        .map(|(number, id)| {
            let visits = 1..=number as u32 + 1;
            let acts = visits.flat_map(|visit| {
                [
                    Works(Some(id), "lint", visit),
                    Goes(Some(id), "lint", "lint", "1"),
                    Begins(Some(id), "test", visit),
                ]
            });
            acts.collect()
        })
        .collect();
    let dir = tempfile::tempdir().unwrap();
    for seed in 0..40_u64 {
        let merged = interleaved(&branches, seed);
        let block = [
            &[Begins(None, "fan", 1), Forks(None, "fan", 4)][..],
            &merged,
            &[Works(None, "join", 1), Ends],
        ];
        write(dir.path(), &format!("run-{seed}"), &after_plan(&block.concat()));
    }
    let index = SessionIndex::open(dir.path()).unwrap();
    for seed in 1..40 {
        let comparison = index.compare("run-0", &format!("run-{seed}"), &[]).unwrap();
        assert_eq!(comparison.divergence, None, "seed {seed}");
        // The plan, the beginning of the block, its branches, its attempt, and the join.
        assert_eq!(comparison.common, 2 + 1 + 2 * (1 + 2 + 3 + 4) + 1 + 1);
    }
}

#[test]
fn an_attempt_that_was_cut_short_is_one_step_with_its_repetition() {
    let whole = after_plan(&[Works(None, "build", 1), Goes(None, "build", "exit", "1"), Ends]);
    let cut = after_plan(&[
        Begins(None, "build", 1),
        Resumes,
        Begins(None, "build", 1),
        Resumes,
        Works(None, "build", 1),
        Goes(None, "build", "exit", "1"),
        Ends,
    ]);
    let comparison = compared(&whole, &cut);
    assert_eq!((comparison.common, comparison.divergence), (3, None));
    let attempts = |step: &Option<RunStep>| step.as_ref().unwrap().attempts;
    let row = &comparison.rows[2];
    assert_eq!((attempts(&row.left), attempts(&row.right)), (1, 3));
}

#[test]
fn what_follows_the_divergence_is_aligned_by_node() {
    let tail = |visit| {
        [
            Works(None, "test", visit),
            Goes(None, "test", "exit", "1"),
            Works(None, "exit", 1),
            Ends,
        ]
    };
    let direct = [
        &after_plan(&[Works(None, "build", 1), Goes(None, "build", "test", "1")])[..],
        &tail(1),
    ]
    .concat();
    let detour = after_plan(&[
        Works(None, "build", 1),
        Goes(None, "build", "mend", "2"),
        Works(None, "mend", 1),
        Goes(None, "mend", "plan", "2"),
        Works(None, "plan", 2),
        Goes(None, "plan", "test", "2"),
    ]);
    let comparison = compared(&direct, &[&detour[..], &tail(2)].concat());
    let rows: Vec<_> = comparison.rows.iter().map(|row| (nodes(row), row.same)).collect();
    assert_eq!(
        rows,
        [
            (("start", "start"), true),
            (("plan", "plan"), true),
            (("build", "build"), false),
            (("", "mend"), false),
            (("", "plan"), false),
            (("test", "test"), true),
            (("exit", "exit"), true),
        ],
        "another number of the visit is no difference any more"
    );
    let (left, right) = (comparison.left.after, comparison.right.after);
    assert_eq!((left.attempts, right.attempts), (3, 5));
    assert_eq!(right.duration, Duration::from_millis(50));
    let five = (0..5).fold(Usage::default(), |mut sum, _| {
        sum += usage();
        sum
    });
    assert_eq!(right.usage, five);
}

#[test]
fn rows_of_blocks_whose_beginning_is_lost_are_kept() {
    let deep: String = (0..200).map(|_| "fan#1:b/").collect::<String>() + "fan#1:b";
    let branch: &'static str = Box::leak(deep.into_boxed_str());
    let run = after_plan(&[Works(Some(branch), "b", 1), Ends]);
    let comparison = compared(&run, &run);
    assert_eq!((comparison.common, comparison.divergence), (3, None));
}

#[test]
fn long_runs_are_aligned_up_to_a_limit() {
    let rest =
        |from: &'static str| -> Vec<Act> { (1..=2_100).map(|visit| Works(None, from, visit)).collect() };
    let (left, right) = (after_plan(&rest("ping")), after_plan(&rest("pong")));
    let comparison = compared(&left, &right);
    assert!(comparison.more);
    assert_eq!((comparison.common, comparison.rows.len()), (2, 2 + 2 * 2_100));
    let dir = tempfile::tempdir().unwrap();
    for (name, count) in [("long", 10_001), ("longer", 10_002), ("short", 20)] {
        let begins: Vec<Act> = (1..=count).map(|visit| Begins(None, "ping", visit)).collect();
        write(dir.path(), name, &begins);
    }
    let index = SessionIndex::open(dir.path()).unwrap();
    let comparison = index.compare("long", "longer", &[]).unwrap();
    assert_eq!((comparison.common, comparison.divergence), (10_000, None));
    assert!(comparison.more);
    let divergence = index.compare("long", "short", &[]).unwrap().divergence;
    assert_eq!(divergence.unwrap().kind, DivergenceKind::End, "one run has ended");
}

fn pipeline(text: &str) -> Pipeline {
    load(Source::new("a.dot", text), &Default::default())
        .pipeline()
        .unwrap()
}

#[tokio::test]
async fn changed_pipelines_are_named_and_runs_of_two_folders_compared() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let text = r#"digraph a { start -> work -> exit; work [shape=parallelogram, tool_command="true"] }"#;
    for (folder, text) in [(&here, text.to_owned()), (&there, text.replace("true", "exit 1"))] {
        let engine = Engine::builder().runs_dir(folder.path()).build().unwrap();
        let run = engine.start(pipeline(&text), ()).run_id("nightly").await.unwrap();
        run.wait().await.unwrap();
    }
    let (here, there) = (
        SessionIndex::open(here.path()).unwrap(),
        SessionIndex::open(there.path()).unwrap(),
    );
    let comparison = here.compare_with("nightly", &there, "night", &[]).unwrap();
    assert_eq!(comparison.same_pipeline, Some(false));
    assert!(
        comparison.pipeline_changes.contains("tool_command"),
        "{}",
        comparison.pipeline_changes
    );
    let divergence = comparison.divergence.unwrap();
    assert_eq!((divergence.kind, divergence.row), (DivergenceKind::Outcome, 1));
    assert!(divergence.right.unwrap().error.is_some());
    let same = here.compare("nightly", "nightly", &[]).unwrap();
    assert_eq!((same.same_pipeline, same.divergence), (Some(true), None));
    assert_eq!(same.pipeline_changes, "");
    let unknown = here.compare("nightly", "weekly", &[]).unwrap_err();
    assert!(matches!(unknown, SessionError::UnknownRun { .. }));
}
