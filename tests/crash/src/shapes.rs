//! The pipelines that are killed.

use orchestra_graph::{LoadOptions, Pipeline, ReadError, Source, load};

/// A pipeline, and those that its stages run, by the names of their files.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Its name.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
    /// The other pipelines.
    pub children: &'static [(&'static str, &'static str)],
    /// How many stages may be in flight at once.
    pub at_once: usize,
}

/// A chain with a loop: a stage of the tests', a model's, a decision.
const CHAIN: Shape = Shape {
    name: "chain",
    text: r#"digraph chain {
        goal="count to three"
        start -> plan -> write -> test -> enough
        enough -> write [condition="context.turns<3"]
        enough -> publish [condition="context.turns>=3"]
        publish -> exit
        plan [type=act, spends=100, keeps=plan]
        write [prompt="Write, $goal"]
        test [type=act, counts=turns, spends=10]
        enough [shape=diamond]
        publish [type=act, goal_gate=true]
    }"#,
    children: &[],
    at_once: 1,
};

/// Retries with waits in between.
const RETRIES: Shape = Shape {
    name: "retries",
    text: r#"digraph retries {
        start -> fetch -> build -> exit
        fetch [type=act, failing=2, spends=7, max_retries=3, retry_initial_delay=3s, retry_backoff_factor=2]
        build [type=act, failing=1, counts=built, max_retries=1, retry_initial_delay=2s]
    }"#,
    children: &[],
    at_once: 1,
};

/// A parallel block, in which another is open.
const PARALLEL: Shape = Shape {
    name: "parallel",
    text: r#"digraph parallel {
        start -> fan
        fan [shape=component, max_parallel=3]
        fan -> left
        fan -> middle
        fan -> inner
        left -> left_more -> join
        middle -> middle_more -> middle_last -> join
        inner [shape=component]
        inner -> one
        inner -> other
        one -> inner_join
        other -> inner_join
        inner_join [shape=tripleoctagon]
        inner_join -> join
        join [shape=tripleoctagon]
        join -> last -> exit
        left [type=act, lazy=5, spends=1]
        left_more [type=act, lazy=1, failing=1, max_retries=1, retry_initial_delay=1s]
        middle [type=act, lazy=2]
        middle_more [type=act, spends=1]
        middle_last [type=act, lazy=3]
        one [type=act, lazy=4]
        other [type=act, lazy=1]
        last [type=act]
    }"#,
    children: &[],
    at_once: 4,
};

/// Gates: one whose deadline passes, and one that is answered.
const GATES: Shape = Shape {
    name: "gates",
    text: r#"digraph gates {
        start -> draft -> silent
        draft [type=act]
        silent [shape=hexagon, label="Anybody?", timeout=20s, "human.default_choice"=Go]
        silent -> asked [label="[G] Go"]
        silent -> stop [label="[S] Stop"]
        asked [shape=hexagon, label="Ship it?"]
        asked -> ship [label="[Y] Yes"]
        asked -> stop [label="[N] No"]
        ship [type=act]
        ship -> exit
        stop [type=act, end=fail]
    }"#,
    children: &[],
    at_once: 1,
};

const WORK: (&str, &str) = (
    "work.dot",
    r#"digraph work {
        start -> dig -> fill -> exit
        dig [type=act, counts=holes, spends=3]
        fill [type=act, failing=1, max_retries=1, retry_initial_delay=1s]
    }"#,
);

/// A sub-pipeline, and one that is supervised.
const CHILDREN: Shape = Shape {
    name: "children",
    text: r#"digraph family {
        start -> sub -> watch -> last -> exit
        sub [shape=folder, "subpipeline.file"="work.dot", "subpipeline.outputs"="holes"]
        watch [shape=house, "stack.child_dotfile"="work.dot", "manager.poll_interval"=2s]
        last [type=act]
    }"#,
    children: &[WORK],
    at_once: 2,
};

/// A run that begins anew.
const RESTART: Shape = Shape {
    name: "restart",
    text: r#"digraph restart {
        restart_keep=lives
        start -> live -> look -> again
        again [shape=diamond]
        again -> live [loop_restart=true, condition="context.lives<3"]
        again -> exit [condition="context.lives>=3"]
        live [type=act, counts=lives, spends=5]
        look [type=act, counts=looks, keeps=look]
    }"#,
    children: &[],
    at_once: 1,
};

/// Thirty nodes: a loop, a fan-out, gates, tools, a model, a child, waits.
const LONG: Shape = Shape {
    name: "long",
    text: r#"digraph long {
        goal="everything at once"
        start -> plan -> fetch -> unpack -> write -> test -> enough
        enough [shape=diamond]
        enough -> write [condition="context.turns<4"]
        enough -> fan [condition="context.turns>=4"]
        fan [shape=component, max_parallel=3]
        fan -> lint
        fan -> check
        fan -> measure
        lint -> lint_more -> join
        check -> check_more -> check_last -> join
        measure -> join
        join [shape=tripleoctagon]
        join -> silent
        silent [shape=hexagon, label="Anybody?", timeout=9s, "human.default_choice"=Go]
        silent -> approve [label="[G] Go"]
        silent -> stop [label="[S] Stop"]
        approve [shape=hexagon, label="Ship it?"]
        approve -> pack [label="[Y] Yes"]
        approve -> stop [label="[N] No"]
        stop [type=act, end=fail]
        pack -> sub -> sign -> upload -> announce -> thank -> tidy -> polish -> count -> sweep -> rest -> exit
        plan [type=act, spends=100, keeps=plan]
        fetch [type=act, failing=2, max_retries=2, retry_initial_delay=2s]
        unpack [shape=parallelogram, tool_command="echo unpacked"]
        write [prompt="Write, $goal"]
        test [type=act, counts=turns, lazy=2, spends=10]
        lint [type=act, lazy=4]
        lint_more [shape=parallelogram, tool_command="echo linted"]
        check [type=act, lazy=2]
        check_more [type=act, lazy=7, spends=1]
        check_last [type=act]
        measure [type=act, lazy=9, failing=1, max_retries=1, retry_initial_delay=1s]
        pack [shape=parallelogram, tool_command="cat; echo packed"]
        sub [shape=folder, "subpipeline.file"="work.dot", "subpipeline.outputs"="holes"]
        sign [type=act, keeps=signature]
        upload [type=act, lazy=3, spends=2]
        announce [prompt="Tell everybody"]
        thank [type=act]
        tidy [type=act, goal_gate=true]
        polish [type=act, lazy=1]
        count [type=act, counts=turns]
        sweep [type=act]
        rest [type=act]
    }"#,
    children: &[WORK],
    at_once: 3,
};

/// A stage that waits, between others.
const WAITING: Shape = Shape {
    name: "waiting",
    text: r#"digraph waiting {
        start -> first -> stuck -> last -> exit
        first [type=act, keeps=first]
        stuck [type=act, holds=true, waits=true]
        last [type=act]
    }"#,
    children: &[],
    at_once: 1,
};

/// Stages whose records are large.
const BULKY: Shape = Shape {
    name: "bulky",
    text: r#"digraph bulky {
        node [type=act, bulk=3000]
        start [type=start]
        exit [type=exit]
        start -> one -> two -> three -> four -> five -> six -> exit
    }"#,
    children: &[],
    at_once: 1,
};

/// A run that fails when its journal has just outgrown its checkpoint.
const BULKY_END: Shape = Shape {
    name: "bulky_end",
    text: r#"digraph bulky_end {
        start -> one -> stop
        one -> exit [condition="context.never=1"]
        one [type=act]
        stop [type=act, bulk=70000, end=fail]
    }"#,
    children: &[],
    at_once: 1,
};

/// Stages that note what they have done, one after the other and side by side.
const NOTES: Shape = Shape {
    name: "notes",
    text: r#"digraph notes {
        start -> draft -> fan
        fan [shape=component]
        fan -> left -> join
        fan -> right -> join
        join [shape=tripleoctagon]
        join -> exit
        draft [type=act, notes=5, spends=3]
        left [type=act, notes=3, lazy=2]
        right [type=act, notes=2]
    }"#,
    children: &[],
    at_once: 2,
};

/// The shapes that are killed at each step.
pub const SHAPES: [Shape; 7] = [CHAIN, RETRIES, PARALLEL, GATES, CHILDREN, RESTART, NOTES];

/// The shape of a name.
///
/// # Panics
/// There is none.
pub fn shape(name: &str) -> Shape {
    let all = SHAPES.into_iter().chain([LONG, WAITING, BULKY, BULKY_END]);
    let mut found = all.filter(|shape| shape.name == name);
    found.next().unwrap_or_else(|| panic!("no shape `{name}`"))
}

impl Shape {
    /// The pipeline.
    pub fn pipeline(&self) -> Pipeline {
        pipeline(self.text, self.children)
    }
}

/// A pipeline of a text, and those that its stages run.
///
/// # Panics
/// The text is none.
pub fn pipeline(text: &str, children: &[(impl AsRef<str>, impl AsRef<str>)]) -> Pipeline {
    let read = |path: &str, _: u64| {
        let mut found = children.iter().filter(|(name, _)| name.as_ref() == path);
        let found = found.next().map(|(_, text)| text.as_ref().as_bytes().to_vec());
        found.ok_or(ReadError::Missing)
    };
    let options = LoadOptions {
        children: Some(&read),
        ..LoadOptions::default()
    };
    let loaded = load(Source::new("crash.dot", text), &options);
    loaded.pipeline().unwrap_or_else(|| {
        let faults: Vec<String> = loaded
            .report
            .errors()
            .map(|fault| fault.message.clone())
            .collect();
        panic!("{faults:#?}\n{text}")
    })
}
