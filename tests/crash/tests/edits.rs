//! A run goes on although its pipeline was edited, or does not: the verdict for each kind of edit.
//!
//! `EDITS.md` beside this crate's manifest says them to people; `UPDATE=1` writes it anew.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fmt::Write as _;
use std::path::Path;

use orchestra_crash_tests::compare::{differences, remains};
use orchestra_crash_tests::files::{Blow, Strike};
use orchestra_crash_tests::harness::{Attempt, Exit, Runner, dir, in_parallel};
use orchestra_crash_tests::job::{Begin, Graph, Job};
use orchestra_crash_tests::log::{Log, Said};
use orchestra_engine::RunFolder;
use serde_json::Value;

const FLOW: &str = r#"digraph flow {
    goal="Ship it"
    model_stylesheet="* { llm_model: small; }"
    start -> plan -> build -> test -> review
    review [shape=diamond]
    review -> ship [condition="outcome=success"]
    review -> mend [condition="outcome=fail"]
    mend -> build
    ship -> exit
    plan [prompt="Plan it"]
    build [type=act, max_retries=1, timeout=900s]
    test [type=act, counts=tests]
    mend [type=act]
    ship [prompt="Ship it", label="Ship"]
}"#;

const FAN: &str = r#"digraph fan {
    start -> fan
    fan [shape=component, max_parallel=1]
    fan -> left -> join
    fan -> right -> late -> join
    join [shape=tripleoctagon]
    join -> sum -> exit
    left [type=act]
    right [type=act]
    late [type=act]
    sum [type=act]
}"#;

const GATE: &str = r#"digraph gate {
    start -> draft -> ask
    draft [type=act]
    ask [shape=hexagon, label="Ship it?"]
    ask -> ship [label="[Y] Yes"]
    ask -> drop [label="[N] No"]
    ship [type=act]
    drop [type=act]
    ship -> exit
    drop -> exit
}"#;

const FAMILY: &str = r#"digraph family {
    start -> first -> sub -> last -> exit
    first [type=act]
    sub [shape=folder, "subpipeline.file"="work.dot"]
    last [type=act]
}"#;

const WORK: &str = "digraph work { start -> dig -> fill -> exit; dig [type=act]; fill [type=act, lazy=99] }";

/// What is to become of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It goes on without a word.
    GoesOn,
    /// It is refused, and goes on where the change is accepted by name; this is the path that it took at the end.
    Accepted(&'static str),
    /// It is refused even then; this is the reason.
    Refused(&'static str),
    /// It is accepted, and pauses again for this reason until the change is taken back.
    Pauses(&'static str),
}
use Verdict::{Accepted, GoesOn, Pauses, Refused};

/// An edit of a pipeline whose run was paused.
struct Edit {
    name: &'static str,
    before: &'static str,
    /// The stage ends behind which it was paused.
    behind: u64,
    /// What is replaced in the text, each by the other.
    edits: &'static [(&'static str, &'static str)],
    /// The same in the text of the pipeline that a stage runs.
    child: &'static [(&'static str, &'static str)],
    verdict: Verdict,
}

const PATH: &str = "start plan build test review ship exit";

/// An edit while `build` is about to begin.
const fn flow(name: &'static str, edits: &'static [(&'static str, &'static str)], verdict: Verdict) -> Edit {
    Edit {
        name,
        before: FLOW,
        behind: 2,
        edits,
        child: &[],
        verdict,
    }
}

/// An edit while a parallel block is open: `left` and `right` are done, `late` is not.
const fn fan(name: &'static str, edits: &'static [(&'static str, &'static str)], verdict: Verdict) -> Edit {
    Edit {
        before: FAN,
        behind: 3,
        ..flow(name, edits, verdict)
    }
}

/// An edit while a question is open.
const fn gate(name: &'static str, edits: &'static [(&'static str, &'static str)], verdict: Verdict) -> Edit {
    Edit {
        before: GATE,
        ..flow(name, edits, verdict)
    }
}

const EDITS: &[Edit] = &[
    flow(
        "Comments and blanks",
        &[
            ("digraph flow {", "// A better day.\ndigraph flow {\n\n"),
            ("ship -> exit", "ship   ->   exit ;"),
        ],
        GoesOn,
    ),
    flow(
        "Attributes in another order",
        &[(
            "type=act, max_retries=1, timeout=900s",
            "timeout=15m max_retries=1 type=act",
        )],
        GoesOn,
    ),
    flow(
        "The label of a stage ahead",
        &[("label=\"Ship\"", "label=\"Release\"")],
        Accepted(PATH),
    ),
    flow(
        "The prompt of a stage ahead",
        &[("prompt=\"Ship it\"", "prompt=\"Release it\"")],
        Accepted(PATH),
    ),
    flow(
        "The prompt of a stage that is done",
        &[("prompt=\"Plan it\"", "prompt=\"Think\"")],
        Accepted(PATH),
    ),
    flow(
        "A new stage ahead",
        &[
            ("test -> review", "test -> lint -> review"),
            ("    ship [", "    lint [type=act]\n    ship ["),
        ],
        Accepted("start plan build test lint review ship exit"),
    ),
    flow(
        "A new stage before that at which the run stands",
        &[
            ("plan -> build", "plan -> lint -> build"),
            ("    ship [", "    lint [type=act]\n    ship ["),
        ],
        Accepted(PATH),
    ),
    flow(
        "A stage removed that is done",
        &[
            ("start -> plan ->", "start ->"),
            ("    plan [prompt=\"Plan it\"]\n", ""),
        ],
        Accepted("start build test review ship exit"),
    ),
    flow(
        "A stage removed that is ahead",
        &[
            ("-> test -> review", "-> review"),
            ("    test [type=act, counts=tests]\n", ""),
        ],
        Accepted("start plan build review ship exit"),
    ),
    flow(
        "The stage removed at which the run stands",
        &[
            ("-> build -> test", "-> test"),
            ("    mend -> build\n", "    mend -> test\n"),
            ("    build [type=act, max_retries=1, timeout=900s]\n", ""),
        ],
        Refused("the run stands at `build`, which is gone"),
    ),
    flow(
        "The stage renamed at which the run stands",
        &[("build", "compile")],
        Refused("the run stands at `build`, which is gone"),
    ),
    flow(
        "Another kind for the stage at which the run stands",
        &[("build [type=act,", "build [prompt=\"Build it\",")],
        Accepted(PATH),
    ),
    flow(
        "A gate in place of the stage at which the run stands",
        &[
            ("build [type=act,", "build [shape=hexagon,"),
            ("build -> test", "build; build -> test [label=Go]; test"),
        ],
        Refused("the run stands at `build`, which is of another kind now"),
    ),
    flow(
        "The condition of an edge ahead",
        &[("[condition=\"outcome=success\"]", "[condition=\"outcome!=fail\"]")],
        Accepted(PATH),
    ),
    flow(
        "A new edge ahead",
        &[(
            "ship -> exit",
            "ship -> exit\n    test -> mend [condition=\"context.tests<2\"]",
        )],
        Accepted("start plan build test mend build test review ship exit"),
    ),
    flow(
        "An edge removed that is ahead",
        &[
            (
                "    review -> mend [condition=\"outcome=fail\"]\n    mend -> build\n",
                "",
            ),
            ("    mend [type=act]\n", ""),
        ],
        Accepted(PATH),
    ),
    flow(
        "The number of attempts",
        &[("max_retries=1", "max_retries=5")],
        Accepted(PATH),
    ),
    flow("A time-out", &[("timeout=900s", "timeout=20m")], Accepted(PATH)),
    flow(
        "The goal",
        &[("goal=\"Ship it\"", "goal=\"Ship it twice\"")],
        Accepted(PATH),
    ),
    flow(
        "The stylesheet",
        &[("llm_model: small", "llm_model: large")],
        Accepted(PATH),
    ),
    flow(
        "The start renamed",
        &[
            ("start ->", "begin ->"),
            ("    ship [", "    begin [shape=Mdiamond]\n    ship ["),
        ],
        Accepted("plan build test review ship exit"),
    ),
    flow(
        "The exit renamed",
        &[
            ("-> exit", "-> done"),
            ("    ship [", "    done [shape=Msquare]\n    ship ["),
        ],
        Accepted("start plan build test review ship done"),
    ),
    fan(
        "Another branch while the block is open",
        &[(
            "fan -> left",
            "fan -> extra -> join\n    extra [type=act]\n    fan -> left",
        )],
        Accepted("start left right late fan join sum exit"),
    ),
    fan(
        "A branch removed while the block is open",
        &[("    fan -> left -> join\n", ""), ("    left [type=act]\n", "")],
        Refused("the branch `fan` -> `left` is open, and its edge is gone"),
    ),
    fan(
        "The join moved while the block is open",
        &[("late -> join", "late -> more -> join\n    more [type=act]")],
        Accepted("start left right late more fan join sum exit"),
    ),
    fan(
        "The join replaced while the block is open",
        &[
            ("join [shape=tripleoctagon]", "both [shape=tripleoctagon]"),
            ("-> join", "-> both"),
            ("join ->", "both ->"),
        ],
        Refused("the branches of `fan` are open, and join elsewhere now"),
    ),
    fan(
        "A stage behind an open block",
        &[("sum [type=act]", "sum [prompt=\"Sum up\"]")],
        Accepted("start left right late fan join sum exit"),
    ),
    gate(
        "Another choice of the question that is open",
        &[(
            "ask -> drop",
            "ask -> draft [label=\"[A] Again\"]\n    ask -> drop",
        )],
        Accepted("start draft ask ship exit"),
    ),
    gate(
        "A choice removed from the question that is open",
        &[
            ("    ask -> drop [label=\"[N] No\"]\n", ""),
            ("    drop [type=act]\n", ""),
            ("    drop -> exit\n", ""),
        ],
        Accepted("start draft ask ship exit"),
    ),
    Edit {
        child: &[("dig [type=act]", "dig [type=act, label=Spade]")],
        before: FAMILY,
        behind: 4,
        ..flow(
            "The pipeline that the stage runs at which the run stands",
            &[],
            Accepted("start first sub last exit"),
        )
    },
    Edit {
        child: &[("-> fill ", ""), ("; fill [type=act, lazy=99]", "")],
        before: FAMILY,
        behind: 4,
        ..flow(
            "The stage removed at which a run within the run stands",
            &[],
            Pauses("the run stands at `fill`, which is gone"),
        )
    },
];

impl Edit {
    fn graph(&self, edited: bool) -> Graph {
        let change = |text: &str, edits: &[(&str, &str)]| {
            let mut text = text.to_owned();
            for (old, new) in edits.iter().filter(|_| edited) {
                assert!(text.contains(old), "{}: `{old}`", self.name);
                text = text.replace(old, new);
            }
            text
        };
        let children = vec![("work.dot".to_owned(), change(WORK, self.child))];
        Graph::Text(change(self.before, self.edits), children)
    }

    /// The job that is paused.
    fn paused(&self, runner: &Runner, runs: &Path) -> Job {
        let job = Job {
            pause_after: Some(self.behind),
            ..Job::new(self.graph(false), runs)
        };
        let Exit::Said { report, code: 0 } = runner.run(&job) else {
            panic!("{}: it does not pause", self.name)
        };
        assert_eq!(report["ended"]["status"], "paused", "{}", self.name);
        job
    }

    /// The next process, which has the edited pipeline.
    fn edited(&self, paused: &Job, begin: Begin) -> Job {
        Job {
            graph: self.graph(true),
            ..paused.next(begin)
        }
    }
}

fn report(exit: Exit) -> Value {
    match exit {
        Exit::Said { report, .. } => report,
        Exit::Killed => panic!("nobody kills it"),
    }
}

/// How a run ended, in words; an error instead.
fn end(report: &Value) -> Result<String, (&str, &str)> {
    let ended = &report["ended"];
    match &report["error"] {
        Value::Null => {
            let path = ended["path"].as_array().unwrap().iter();
            let path: Vec<&str> = path.map(|node| node.as_str().unwrap()).collect();
            match ended["status"].as_str() {
                Some("success") => Ok(path.join(" ")),
                Some("paused") => Err(("paused", ended["failure"].as_str().unwrap())),
                _ => panic!("{report}"),
            }
        }
        error => Err((
            error["code"].as_str().unwrap(),
            error["message"].as_str().unwrap(),
        )),
    }
}

/// What was done twice although it was over; nothing may be.
fn done_twice(job: &Job) -> Vec<String> {
    let mut done: Vec<String> = Vec::new();
    let mut twice = Vec::new();
    for line in Log::read(&job.log) {
        match line.said {
            Said::Began(key, false) if done.contains(&key) => twice.push(key),
            Said::Began(key, false) => done.push(key),
            _ => {}
        }
    }
    twice
}

#[test]
fn each_kind_of_edit_has_its_verdict() {
    let (dir, runner) = (dir(), Runner::new(env!("CARGO_BIN_EXE_orchestra-crash-runner")));
    let mut told = String::from(
        "# Edits of a pipeline whose run goes on\n\n\
         Written by `UPDATE=1 cargo test -p orchestra-crash-tests --test edits`, and held to what the engine does.\n\
         A run is paused, its pipeline is edited, and another process goes on with it: without a word first, and where \
         that is refused\nby `accept_changes()`, which is `--accept-changes` on the command line.\n",
    );
    let mut wrong = Vec::new();
    for (number, edit) in EDITS.iter().enumerate() {
        let runs = dir.path().join(number.to_string());
        std::fs::create_dir_all(&runs).unwrap();
        let paused = edit.paused(&runner, &runs);
        write!(told, "\n## {}. {}\n\n", number + 1, edit.name).unwrap();
        let first = report(runner.run(&edit.edited(&paused, Begin::GoOn)));
        let verdict = match end(&first) {
            Ok(path) => {
                writeln!(told, "It goes on without a word: `{path}`.").unwrap();
                GoesOn
            }
            Err(("pipeline_changed", message)) => {
                let (_, difference) = message.split_once(":\n").unwrap();
                writeln!(told, "Refused:\n\n```text\n{difference}\n```\n").unwrap();
                let second = report(runner.run(&edit.edited(&paused, Begin::Accept)));
                match end(&second) {
                    Ok(path) => {
                        writeln!(told, "Accepted by name, it ends by `{path}`.").unwrap();
                        Accepted(path.leak())
                    }
                    Err(("paused", message)) => {
                        let (_, reason) = message.rsplit_once(": ").unwrap();
                        writeln!(
                            told,
                            "Accepted by name, it pauses again, until the change is taken back: {reason}."
                        )
                        .unwrap();
                        let third = report(runner.run(&paused.next(Begin::Accept)));
                        end(&third).unwrap_or_else(|error| panic!("{}: {error:?}", edit.name));
                        Pauses(reason.split("; ").next().unwrap_or_default().to_owned().leak())
                    }
                    Err((code, message)) => {
                        let (_, reason) = message.split_once(": ").unwrap_or(("", message));
                        writeln!(told, "Refused even then (`{code}`): {reason}.").unwrap();
                        // The run is none the worse for it.
                        let third = report(runner.run(&paused.next(Begin::GoOn)));
                        end(&third).unwrap_or_else(|error| panic!("{}: {error:?}", edit.name));
                        Refused(reason.split("; ").next().unwrap_or_default().to_owned().leak())
                    }
                }
            }
            Err(other) => panic!("{}: {other:?}", edit.name),
        };
        assert_eq!(done_twice(&paused), Vec::<String>::new(), "{}", edit.name);
        if verdict != edit.verdict {
            wrong.push(format!(
                "{}: {verdict:?} instead of {:?}",
                edit.name, edit.verdict
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("EDITS.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &told).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        known == told,
        "{} is not what happens; see UPDATE=1",
        path.display()
    );
}

#[test]
fn a_process_that_is_killed_while_it_accepts_a_change_leaves_a_run_that_goes_on() {
    let (dir, runner) = (dir(), Runner::new(env!("CARGO_BIN_EXE_orchestra-crash-runner")));
    let edit = EDITS
        .iter()
        .find(|edit| edit.name == "A new stage ahead")
        .unwrap();
    let whole = edit.paused(&runner, &dir.path().join("whole"));
    report(runner.run(&edit.edited(&whole, Begin::Accept)));
    let expected = remains(&whole.folder(), true).unwrap();
    let paused = edit.paused(&runner, &dir.path().join("paused"));
    let kills = in_parallel(dir.path(), "accept", |number, runs| {
        let copied = std::process::Command::new("cp")
            .args([
                "-a",
                &paused.runs.join("run").to_string_lossy(),
                &runs.to_string_lossy(),
            ])
            .status();
        assert!(copied.unwrap().success());
        let blow = if number % 2 == 1 { Blow::Before } else { Blow::Half };
        let job = Job {
            runs: runs.to_owned(),
            log: runs.with_extension("log"),
            strike: Some(Strike {
                at: number.div_ceil(2),
                blow,
            }),
            ..edit.edited(&paused, Begin::Accept)
        };
        let killed = runner.run(&job) == Exit::Killed;
        if killed {
            let last = report(runner.run(&job.next(Begin::Accept)));
            if last["error"]["code"] != "already_finished" {
                end(&last).map_err(|error| format!("{error:?}"))?;
            }
        }
        let left = remains(&job.folder(), true)?;
        if left == expected {
            Ok(killed)
        } else {
            Err(differences(&left, &expected).join("\n  "))
        }
    });
    println!("{kills} kills");
    assert!(kills > 40, "only {kills}");
}

#[test]
fn a_run_that_was_killed_goes_on_in_a_changed_pipeline() {
    let (dir, runner) = (dir(), Runner::new(env!("CARGO_BIN_EXE_orchestra-crash-runner")));
    let edit = EDITS
        .iter()
        .find(|edit| edit.name == "The label of a stage ahead")
        .unwrap();
    let graph = edit.graph(true);
    let (expected, changes) = runner.whole(&Job::new(graph, dir.path().join("whole")), true);
    let attempt = Attempt {
        runner: &runner,
        expected: &expected,
        at_once: 1,
        in_order: true,
    };
    let kills = in_parallel(dir.path(), "killed", |at, runs| {
        let job = Job {
            strike: Some(Strike { at, blow: Blow::Half }),
            ..Job::new(edit.graph(false), runs)
        };
        let killed = runner.run(&job) == Exit::Killed;
        if killed && RunFolder::is_one(job.folder()) {
            let next = edit.edited(&job, Begin::Accept);
            attempt.ended(&next, &runner.run(&next))?;
        }
        Ok(killed)
    });
    println!("{kills} kills of {changes}");
    assert!(kills > 30, "only {kills}");
}

#[test]
fn a_run_that_is_over_is_not_touched_by_a_change() {
    let (dir, runner) = (dir(), Runner::new(env!("CARGO_BIN_EXE_orchestra-crash-runner")));
    let edit = EDITS
        .iter()
        .find(|edit| edit.name == "A new stage ahead")
        .unwrap();
    let job = Job::new(edit.graph(false), dir.path().join("runs"));
    end(&report(runner.run(&job))).unwrap();
    let kept = |name: &str| std::fs::read(job.folder().join(name)).unwrap();
    let before = [
        "manifest.json",
        "journal.jsonl",
        "checkpoint.json",
        "events.jsonl",
    ]
    .map(kept);
    for begin in [Begin::GoOn, Begin::Accept] {
        let said = report(runner.run(&edit.edited(&job, begin)));
        assert_eq!(end(&said).unwrap_err().0, "already_finished", "{begin:?}");
        let after = [
            "manifest.json",
            "journal.jsonl",
            "checkpoint.json",
            "events.jsonl",
        ]
        .map(kept);
        assert!(before == after, "{begin:?} changes a run that is over");
    }
}
