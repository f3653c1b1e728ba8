//! The load mix, as a table. A new kind of load is a row, with its files under `scenarios`.

use crate::run::Action;

/// A pipeline with its files, how it is run, and how it ends however often it is disturbed.
#[derive(Debug)]
pub(crate) struct Scenario {
    /// Its name; the pipeline is `NAME.dot`.
    pub(crate) name: &'static str,
    /// The files of its project. `MODEL_SERVER` in them stands for the base of the model server.
    pub(crate) files: &'static [(&'static str, &'static str)],
    /// A repository in its project: the folder, and its files.
    pub(crate) repository: Option<(&'static str, &'static [(&'static str, &'static str)])>,
    /// Options of `run` and of each `resume`.
    pub(crate) options: &'static [&'static str],
    /// Options of each `resume` after the run paused by itself, at a gate or at a budget.
    pub(crate) after_pause: &'static [&'static str],
    /// What another process does to the run.
    pub(crate) action: Option<Action>,
    /// How the run ends.
    pub(crate) status: &'static str,
    /// The nodes that are done then.
    pub(crate) path: &'static str,
    /// The nodes whose tools log that they began, in the order of the run, where that is fixed.
    pub(crate) tools: &'static [&'static str],
    /// How many stages may be in flight at once.
    pub(crate) at_once: usize,
}

const PLAIN: Scenario = Scenario {
    name: "",
    files: &[],
    repository: None,
    options: &[],
    after_pause: &[],
    action: None,
    status: "success",
    path: "",
    tools: &[],
    at_once: 1,
};

const GATE: &[(&str, &str)] = &[("pipeline.dot", include_str!("../scenarios/gate.dot"))];
const GATE_PATH: &str = "start -> build -> approve -> ship -> exit";

/// All scenarios.
pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "loop",
        files: &[("pipeline.dot", include_str!("../scenarios/loop.dot"))],
        path: "start -> work -> test -> work -> test -> work -> test -> work -> test -> exit",
        tools: &["work", "test", "work", "test", "work", "test", "work", "test"],
        ..PLAIN
    },
    Scenario {
        name: "branches",
        files: &[("pipeline.dot", include_str!("../scenarios/branches.dot"))],
        path: "start -> one -> two -> three -> more -> fan -> join -> last -> exit",
        tools: &["one", "two", "three", "more", "last"],
        at_once: 3,
        ..PLAIN
    },
    Scenario {
        name: "retries",
        files: &[("pipeline.dot", include_str!("../scenarios/retries.dot"))],
        path: "start -> before -> flaky -> after -> exit",
        tools: &["before", "after"],
        ..PLAIN
    },
    Scenario {
        name: "goal_gate",
        files: &[("pipeline.dot", include_str!("../scenarios/goal_gate.dot"))],
        path: "start -> work -> check -> work -> check -> work -> check -> exit",
        tools: &["work", "check", "work", "check", "work", "check"],
        ..PLAIN
    },
    Scenario {
        name: "gate_prepared",
        files: GATE,
        options: &["--answer", "approve=Y"],
        path: GATE_PATH,
        tools: &["build", "ship"],
        ..PLAIN
    },
    Scenario {
        name: "gate_answered",
        files: GATE,
        options: &["--wait"],
        action: Some(Action::Answer {
            gate: "approve",
            choice: "Y",
        }),
        path: GATE_PATH,
        tools: &["build", "ship"],
        ..PLAIN
    },
    Scenario {
        name: "gate_paused",
        files: GATE,
        after_pause: &["--answer", "approve=Y"],
        path: GATE_PATH,
        tools: &["build", "ship"],
        ..PLAIN
    },
    Scenario {
        name: "children",
        files: &[
            ("pipeline.dot", include_str!("../scenarios/children.dot")),
            ("child.dot", include_str!("../scenarios/child.dot")),
        ],
        path: "start -> part -> boss -> last -> exit",
        tools: &["first", "second", "first", "second", "last"],
        ..PLAIN
    },
    Scenario {
        name: "agents",
        files: &[
            ("pipeline.dot", include_str!("../scenarios/agents.dot")),
            ("orchestra.yaml", include_str!("../scenarios/agents.yaml")),
        ],
        path: "start -> plan -> work -> check -> report -> exit",
        tools: &["check"],
        ..PLAIN
    },
    Scenario {
        name: "budget",
        files: &[
            ("pipeline.dot", include_str!("../scenarios/budget.dot")),
            ("orchestra.yaml", include_str!("../scenarios/agents.yaml")),
        ],
        options: &["--max-tokens", "6500"],
        after_pause: &["--max-tokens", "1000000"],
        path: "start -> write -> translate -> name -> exit",
        ..PLAIN
    },
    Scenario {
        name: "hostile",
        files: &[("pipeline.dot", include_str!("../scenarios/hostile.dot"))],
        path: "start -> escape -> stubborn -> flood -> exit",
        tools: &["escape", "flood"],
        ..PLAIN
    },
    Scenario {
        name: "git",
        files: &[
            ("pipeline.dot", include_str!("../scenarios/git.dot")),
            ("orchestra.yaml", include_str!("../scenarios/git.yaml")),
        ],
        repository: Some(("menu", &[("menu.txt", "base\n")])),
        path: "start -> left -> right -> features -> merge -> settle -> verify -> exit",
        tools: &["left", "right", "settle", "verify"],
        at_once: 2,
        ..PLAIN
    },
    Scenario {
        name: "cancel",
        files: &[("pipeline.dot", include_str!("../scenarios/cancel.dot"))],
        action: Some(Action::Cancel { stage: "wait" }),
        status: "cancelled",
        path: "start -> quick",
        tools: &["quick"],
        ..PLAIN
    },
    Scenario {
        name: "failing",
        files: &[("pipeline.dot", include_str!("../scenarios/failing.dot"))],
        status: "fail",
        path: "start -> good -> bad",
        tools: &["good", "bad"],
        ..PLAIN
    },
];
