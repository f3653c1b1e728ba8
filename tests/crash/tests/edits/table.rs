//! The edits, what each does to the text of a pipeline, and the verdict that it must get.

use std::path::Path;

use orchestra_crash_tests::harness::{Exit, Runner};
use orchestra_crash_tests::job::{Begin, Graph, Job};

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
pub(crate) enum Verdict {
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
pub(crate) struct Edit {
    pub(crate) name: &'static str,
    before: &'static str,
    /// The stage ends behind which it was paused.
    behind: u64,
    /// What is replaced in the text, each by the other.
    edits: &'static [(&'static str, &'static str)],
    /// The same in the text of the pipeline that a stage runs.
    child: &'static [(&'static str, &'static str)],
    pub(crate) verdict: Verdict,
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

pub(crate) const EDITS: &[Edit] = &[
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
    pub(crate) fn graph(&self, edited: bool) -> Graph {
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
    pub(crate) fn paused(&self, runner: &Runner, runs: &Path) -> Job {
        let job = Job {
            pause_after: Some(self.behind),
            ..Job::new(self.graph(false), runs)
        };
        let Exit::Reported { report, code: 0 } = runner.run(&job) else {
            panic!("{}: it does not pause", self.name)
        };
        assert_eq!(report["ended"]["status"], "paused", "{}", self.name);
        job
    }

    /// The next process, which has the edited pipeline.
    pub(crate) fn edited(&self, paused: &Job, begin: Begin) -> Job {
        Job {
            graph: self.graph(true),
            ..paused.next(begin)
        }
    }
}
