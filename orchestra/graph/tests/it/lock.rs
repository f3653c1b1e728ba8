//! The lock file, and each row of the table of changes in the reference.

use orchestra_graph::{
    ChangeClass, Compatibility, LoadOptions, Loaded, LockFile, LockedVersion, ReadError, Source, load,
};

const HEAD: &str = "start [shape=Mdiamond]; exit [shape=Msquare]\n";

fn loaded(body: &str) -> Loaded {
    let loaded = load(
        Source::new("a.dot", format!("digraph a {{ {HEAD}{body} }}")),
        &Default::default(),
    );
    assert!(
        !loaded.report.has_errors(),
        "{body}\n{}",
        orchestra_graph::render::concise(&loaded.report)
    );
    loaded
}

/// Returns the class of a change, and the messages of the changes of this class.
fn class(old: &str, new: &str) -> (ChangeClass, Vec<String>) {
    let found = Compatibility::between(&loaded(old), &loaded(new)).unwrap();
    let class = found.class();
    let own = found.changes.iter().filter(|change| change.class == class);
    (class, own.map(ToString::to_string).collect())
}

fn breaks(old: &str, new: &str) -> Vec<String> {
    let (class, messages) = class(old, new);
    assert_eq!(class, ChangeClass::Breaks, "{old}\n{new}\n{messages:?}");
    messages
}

fn compatible(old: &str, new: &str) -> Vec<String> {
    let (class, messages) = class(old, new);
    assert_eq!(class, ChangeClass::Compatible, "{old}\n{new}\n{messages:?}");
    messages
}

/// Returns the codes and messages of the errors.
fn errors(old: &str, new: &str) -> Vec<(&'static str, String)> {
    let (old, new) = (loaded(old), loaded(new));
    let found = Compatibility::between(&old, &new).unwrap();
    let reports = found.reports(&old, &new, 1);
    let errors = reports.iter().flat_map(|report| &report.diagnostics);
    errors.map(|error| (error.code, error.message.clone())).collect()
}

const GATE: &str = "build [type=build]; ask [shape=hexagon]; start -> build -> ask; ask -> exit [label=Ship]";

#[test]
fn equal_canonical_texts_are_the_same() {
    let other = "build [ type = build ]; ask [shape=hexagon, color=red]; start -> build; build -> ask // go\n ask -> exit [label=Ship]";
    assert_eq!(class(GATE, other), (ChangeClass::Same, vec![]));
}

#[test]
fn additions_and_changed_values_are_compatible() {
    assert_eq!(
        compatible(
            GATE,
            &format!("{GATE}; more [type=more]; build -> more [condition=\"outcome=fail\"]; more -> exit")
        ),
        [
            "`more` was added",
            "the edge `build -> more` (outcome=fail) was added",
            "the edge `more -> exit` was added"
        ]
    );
    assert_eq!(
        compatible(GATE, &GATE.replace("type=build", "type=build, timeout=5m")),
        ["`timeout` of `build` changed"]
    );
    let condition = |text: &str| {
        format!("a [type=a]; b [type=b]; start -> a; a -> b [condition=\"{text}\"]; a -> exit; b -> exit")
    };
    assert_eq!(
        compatible(&condition("context.x=1"), &condition("context.x=2")),
        ["`condition` of the edge `a -> b` (context.x=1) changed"]
    );
    // A stage in flight runs again, with the handler of today.
    assert_eq!(
        compatible(GATE, &GATE.replace("type=build", "type=make")),
        ["`kind` of `build` changed"]
    );
}

#[test]
fn nodes_at_which_no_run_waits_may_be_removed() {
    let routed = "a [type=a]; choose [shape=diamond]; start -> a -> choose; choose -> exit";
    let messages = compatible(routed, "a [type=a]; start -> a -> exit");
    assert_eq!(messages[0], "`choose` was removed; no run waits there");
    let load_plain = |text: &str| {
        load(
            Source::new("a.dot", format!("digraph {{ {text} }}")),
            &Default::default(),
        )
    };
    let old = load_plain("begin [shape=Mdiamond]; done [shape=Msquare]; begin -> a -> done; a [type=a]");
    let new = load_plain("start [shape=Mdiamond]; exit [shape=Msquare]; start -> a -> exit; a [type=a]");
    let found = Compatibility::between(&old, &new).unwrap();
    assert_eq!(found.class(), ChangeClass::Compatible);
    // The run enters it never, because no condition leads there.
    let never = "a [type=a]; never [type=b]; start -> a -> exit; a -> never [condition=\"outcome=fail && outcome=success\"]; never -> exit";
    assert_eq!(
        class(never, "a [type=a]; start -> a -> exit").0,
        ChangeClass::Compatible
    );
}

#[test]
fn nodes_at_which_a_run_waits_must_stay() {
    assert_eq!(
        breaks(GATE, "build [type=build]; start -> build -> exit"),
        ["`ask` was removed; a run that waits there cannot go on"]
    );
    assert_eq!(
        breaks(
            GATE,
            "ask [shape=hexagon]; start -> ask; ask -> exit [label=Ship]"
        ),
        ["`build` was removed; a run that waits there cannot go on"]
    );
    assert_eq!(
        breaks(GATE, &GATE.replace("shape=hexagon", "type=ask")),
        ["`ask` was `wait.human` and is `ask` now; a run that waits there cannot go on"]
    );
    let errors = errors(GATE, &GATE.replace("ask", "approve"));
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].0, "resume_breaks");
}

#[test]
fn a_rename_is_recognized_but_not_followed() {
    let (old, new) = (loaded(GATE), loaded(&GATE.replace("ask", "approve")));
    let found = Compatibility::between(&old, &new).unwrap();
    let change = found.breaking().next().unwrap();
    assert!(
        change.notes[1].starts_with("`approve` has its values and neighbours"),
        "{:?}",
        change.notes
    );
    // The nearest node of today is the one before the gate.
    assert_eq!((change.position.line, change.position.column), (2, 1));
}

const BLOCK: &str =
    "fan [shape=component]; a [type=a]; b [type=b]; join [shape=tripleoctagon]; after [type=c]
    start -> fan; fan -> a; fan -> b; a -> join; b -> join; join -> after -> exit";

#[test]
fn open_blocks_keep_their_join_and_their_branches() {
    assert_eq!(
        breaks(BLOCK, &BLOCK.replace("join", "meet")),
        [
            "the branches of `fan` joined at `join` and join at `meet` now; a run with open branches cannot go on",
            "`join` was removed; a run that waits there cannot go on"
        ]
    );
    assert_eq!(
        breaks(
            BLOCK,
            &BLOCK.replace("fan -> a; fan -> b;", "fan -> b; fan -> a;")
        ),
        ["the branch `fan -> b` is in another order now; a run with open branches cannot go on"]
    );
    let other = BLOCK
        .replace("fan -> b;", "fan -> c; c -> b;")
        .replace("a [type=a]", "a [type=a]; c [type=c]");
    assert_eq!(
        breaks(BLOCK, &other),
        ["the branch `fan -> b` was removed; a run with open branches cannot go on"]
    );
    let more = BLOCK.replace("fan -> b;", "fan -> c; fan -> b; c [type=d]; c -> join;");
    compatible(BLOCK, &more);
    // Without a stage in a branch, the block is never open.
    let empty = "fan [shape=component]; r [shape=diamond]; join [shape=tripleoctagon]; start -> fan; fan -> r; r -> join; fan -> join; join -> exit";
    let reordered = empty.replace(
        "fan -> r; r -> join; fan -> join;",
        "fan -> join; fan -> r; r -> join;",
    );
    compatible(empty, &reordered);
}

#[test]
fn contracts_stay_within_their_types() {
    let of = |inputs: &str, outputs: &str| {
        format!(
            "graph [inputs=\"{inputs}\"]; a [type=a, outputs=\"{outputs}\"]; b [type=b]; start -> a -> b -> exit"
        )
    };
    let old = of("pr: text", "score: int");
    assert_eq!(
        breaks(&old, &of("pr: text, tag: text", "score: int")),
        ["the input `tag: text` is required now; a run that was started without it cannot go on"]
    );
    compatible(&old, &of("pr: text, tag: text?", "score: int"));
    compatible(&of("pr: text, tag: text", "score: int"), &old);
    breaks(
        &of("pr: text, tag: text?", "score: int"),
        &of("pr: text, tag: text", "score: int"),
    );
    assert_eq!(
        breaks(&old, &of("pr: text", "score: text")),
        ["`score` was `int` and is `text` now; a run that has a value of it cannot go on"]
    );
    compatible(&old, &of("pr: text", "score: number"));
    assert_eq!(breaks(&old, &of("pr: int", "score: int")).len(), 1);
    // No run has a score while it waits.
    let last = |outputs: &str| format!("a [type=a, outputs=\"{outputs}\"]; start -> a -> exit");
    compatible(&last("score: int"), &last("score: text"));
}

#[test]
fn a_value_that_only_new_runs_have_is_reported() {
    let old = "rate [type=rate]; ask [shape=hexagon]; fix [type=fix]; start -> rate -> ask
        ask -> exit [label=Ship]; ask -> fix [label=Fix]; fix -> exit";
    let new = "rate [type=rate, outputs=\"score: int\"]; ask [shape=hexagon]; fix [type=fix]; start -> rate
        rate -> ask [condition=\"outcome=success\"]; rate -> exit; ask -> exit [label=Ship]; ask -> fix [label=Fix]
        fix -> ask [condition=\"context.score != 3\"]; fix -> exit";
    let found = errors(old, new);
    assert_eq!(
        found,
        [(
            "resume_unset",
            "`score` may not be set when this condition reads it".to_owned()
        )]
    );
    let command = "fix [shape=parallelogram, tool_command=\"true\", tool_env_from.SCORE=score]";
    let given = new
        .replace("fix [type=fix]", command)
        .replace("context.score != 3", "outcome=fail");
    assert_eq!(
        errors(old, &given),
        [(
            "resume_unset",
            "`score` may not be set when `fix` reads it".to_owned()
        )]
    );
    let guarded = new.replace("context.score != 3", "context.score >= 3");
    assert_eq!(errors(old, &guarded), []);
    // A run that has declared the value before has it.
    let declared = old
        .replace("type=rate", "type=rate, outputs=\"score: int\"")
        .replace(
            "rate -> ask",
            "rate -> ask [condition=\"outcome=success\"]; rate -> exit",
        );
    assert_eq!(errors(&declared, new), []);
}

#[test]
fn branches_added_to_an_open_block_do_not_begin() {
    let old = BLOCK.to_owned();
    let new = "fan [shape=component]; a [type=a]; b [type=b]; c [type=d]; join [shape=tripleoctagon]; after [type=c]
    first [type=first, outputs=\"score: int\"]; start -> first; first -> fan [condition=\"outcome=success\"]; first -> exit
    fan -> a; fan -> b; fan -> c; a -> join; b -> join; c -> join [condition=\"context.score != 3\"]; c -> join; join -> after -> exit";
    assert_eq!(errors(&old, new), []);
    // The attempt of the block may be repeated, with the new branch.
    let retried = "fan [shape=component, max_retries=1]";
    let (old, new) = (
        old.replace("fan [shape=component]", retried),
        new.replace("fan [shape=component]", retried),
    );
    assert_eq!(errors(&old, &new).len(), 1);
}

#[test]
fn child_pipelines_are_compared_where_runs_wait_in_them() {
    let of = |child: &str| {
        let child = format!("digraph lint {{ {HEAD}{child} }}");
        let files = move |path: &str, _: u64| match path {
            "lint.dot" => Ok(child.clone().into_bytes()),
            _ => Err(ReadError::Missing),
        };
        let options = LoadOptions {
            children: Some(&files),
            ..LoadOptions::default()
        };
        let text = format!(
            "digraph {{ {HEAD} lint [shape=folder, label=L, subpipeline.file=\"lint.dot\"]; start -> lint -> exit }}"
        );
        load(Source::new("a.dot", text), &options)
    };
    let (old, new) = (of(GATE), of("build [type=build]; start -> build -> exit"));
    let found = Compatibility::between(&old, &new).unwrap();
    let change = found.breaking().next().unwrap();
    assert_eq!(
        (&*change.file, &*change.message),
        (
            "lint.dot",
            "`ask` was removed; a run that waits there cannot go on"
        )
    );
    assert_eq!(found.reports(&old, &new, 1)[0].source.name(), "lint.dot");
}

#[test]
fn a_lock_file_is_written_in_one_form() {
    let mut lock = LockFile::default();
    for name in ["b.dot", "a.dot"] {
        let version = LockedVersion {
            version: 1,
            hash: "sha256:00".to_owned(),
            files: [(name.to_owned(), format!("orchestra.lock.d/{name}"))].into(),
            ..LockedVersion::default()
        };
        lock.pipeline_mut(name).versions.push(version);
    }
    let text = lock.to_string();
    assert!(text.starts_with("# The locked versions") && text.ends_with("}\n"));
    assert!(text.find("a.dot").unwrap() < text.find("b.dot").unwrap());
    assert_eq!(LockFile::parse(&text).unwrap().to_string(), text);
    for (bad, message) in [
        (text.replace("lock/1", "lock/9"), "unknown schema"),
        (text.replace("\"hash\"", "\"hush\""), "unknown field `hush`"),
        (text.replace("\"version\": 1", "\"version\": -1"), "invalid value"),
        (String::new(), "EOF"),
        (text.replace("\"a.dot\"", "\"z.dot\""), "order"),
    ] {
        let error = LockFile::parse(&bad).unwrap_err();
        assert!(error.message.contains(message), "{error}");
    }
    let error = LockFile::parse(&text.replace("\"hash\"", "\"hush\"")).unwrap_err();
    assert_eq!(
        text.lines().nth(error.line - 1).map(|line| line.contains("hash")),
        Some(true)
    );
}
