//! What becomes of a run that goes on under a changed pipeline: a verdict for each kind of edit (rule D6). They are
//! listed in `edits.md`; `UPDATE=1` writes it anew.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::fmt::Write as _;
use std::path::Path;

use orchestra_engine::{Engine, Outcome, RunStatus, StartError};
use orchestra_graph::{LoadOptions, Pipeline, ReadFault, Source, load};
use support::Acts;

/// The run stands at `here`, and within a block at `left`.
const LINE: &str = r#"digraph edits {
    graph [goal="ship", default_max_retries=1, model_stylesheet="* { llm_model: small; }"]
    node [type=act]
    start [shape=Mdiamond, type=start]
    exit [shape=Msquare, type=exit]
    done [prompt="Build.", timeout=5m]
    here [prompt="Test."]
    ahead [prompt="Ship."]
    sub [shape=folder, type=subpipeline, "subpipeline.file"="child.dot"]
    start -> done -> here
    here -> ahead [condition="outcome=success"]
    here -> done [condition="outcome=fail"]
    ahead -> sub -> exit
}"#;

const BLOCK: &str = r#"digraph edits {
    node [type=act]
    start [shape=Mdiamond, type=start]
    exit [shape=Msquare, type=exit]
    fan [shape=component, type=parallel]
    join [shape=tripleoctagon, type="parallel.fan_in"]
    after [prompt="After."]
    start -> fan
    fan -> left -> join
    fan -> right -> join
    join -> after -> exit
}"#;

const CHILD: &str = "digraph child { node [type=act]; start [shape=Mdiamond, type=start]
    exit [shape=Msquare, type=exit]; start -> inner -> exit }";

/// What is edited, in which pipeline: each `(old, new)` is replaced.
struct Edit {
    what: &'static str,
    of: &'static str,
    replace: &'static [(&'static str, &'static str)],
    child: &'static [(&'static str, &'static str)],
}

const fn edit(
    what: &'static str,
    of: &'static str,
    replace: &'static [(&'static str, &'static str)],
) -> Edit {
    Edit {
        what,
        of,
        replace,
        child: &[],
    }
}

const EDITS: &[Edit] = &[
    edit(
        "a comment, and another formatting",
        LINE,
        &[(
            "    start -> done -> here",
            "    // The way.\n    start->done; done->here",
        )],
    ),
    edit(
        "attributes in another order",
        LINE,
        &[("prompt=\"Build.\", timeout=5m", "timeout=5m, prompt=\"Build.\"")],
    ),
    edit("a prompt ahead", LINE, &[("Ship.", "Ship it.")]),
    edit(
        "a prompt of a stage that is done",
        LINE,
        &[("Build.", "Build it.")],
    ),
    edit("the prompt where the run stands", LINE, &[("Test.", "Test it.")]),
    edit(
        "a new node ahead",
        LINE,
        &[("ahead -> sub -> exit", "ahead -> lint -> sub -> exit")],
    ),
    edit(
        "a node ahead is gone",
        LINE,
        &[
            ("ahead -> sub -> exit", "ahead -> exit"),
            (
                "    sub [shape=folder, type=subpipeline, \"subpipeline.file\"=\"child.dot\"]\n",
                "",
            ),
        ],
    ),
    edit(
        "a node that is done is gone",
        LINE,
        &[
            ("start -> done -> here", "start -> here"),
            (
                "    here -> done [condition=\"outcome=fail\"]\n",
                "    here -> ahead [condition=\"outcome=fail\"]\n",
            ),
            ("    done [prompt=\"Build.\", timeout=5m]\n", ""),
        ],
    ),
    edit(
        "the node where the run stands is gone",
        LINE,
        &[
            ("start -> done -> here", "start -> done -> ahead"),
            (
                "    here -> ahead [condition=\"outcome=success\"]\n    here -> done [condition=\"outcome=fail\"]\n",
                "",
            ),
            ("    here [prompt=\"Test.\"]\n", ""),
        ],
    ),
    edit(
        "the node where the run stands is a gate now",
        LINE,
        &[
            (
                "here [prompt=\"Test.\"]",
                "here [shape=hexagon, type=\"wait.human\"]",
            ),
            ("[condition=\"outcome=success\"]", "[label=Yes]"),
            ("[condition=\"outcome=fail\"]", "[label=No]"),
        ],
    ),
    edit(
        "the condition of an edge ahead",
        LINE,
        &[(
            "condition=\"outcome=success\"",
            "condition=\"outcome=success && context.done=1\"",
        )],
    ),
    edit(
        "another edge",
        LINE,
        &[(
            "ahead -> sub -> exit",
            "ahead -> sub -> exit\n    ahead -> exit [condition=\"outcome=fail\"]",
        )],
    ),
    edit(
        "more retries, and a shorter time-out",
        LINE,
        &[
            ("default_max_retries=1", "default_max_retries=3"),
            ("timeout=5m", "timeout=1m"),
        ],
    ),
    edit("the goal", LINE, &[("goal=\"ship\"", "goal=\"ship faster\"")]),
    edit(
        "the model stylesheet",
        LINE,
        &[("llm_model: small", "llm_model: large")],
    ),
    edit(
        "another exit",
        LINE,
        &[
            (
                "exit [shape=Msquare, type=exit]",
                "finish [shape=Msquare, type=exit]",
            ),
            ("sub -> exit", "sub -> finish"),
        ],
    ),
    Edit {
        what: "the child pipeline",
        of: LINE,
        replace: &[],
        child: &[("start -> inner -> exit", "start -> inner -> more -> exit")],
    },
    edit(
        "another branch of an open block",
        BLOCK,
        &[(
            "    fan -> right -> join",
            "    fan -> right -> join\n    fan -> third -> join",
        )],
    ),
    edit(
        "a branch of an open block is gone",
        BLOCK,
        &[("    fan -> right -> join\n", "")],
    ),
    edit(
        "a stage in a branch of an open block",
        BLOCK,
        &[("fan -> right -> join", "fan -> right -> check -> join")],
    ),
    edit(
        "an open block joins elsewhere",
        BLOCK,
        &[
            (
                "-> join\n    fan -> right -> join\n    join -> after -> exit",
                "-> meet\n    fan -> right -> meet\n    meet -> after -> exit",
            ),
            ("    join [shape", "    meet [shape"),
        ],
    ),
    edit(
        "the branches of an open block in another order",
        BLOCK,
        &[(
            "    fan -> left -> join\n    fan -> right -> join",
            "    fan -> right -> join\n    fan -> left -> join",
        )],
    ),
    edit(
        "a stage behind an open block",
        BLOCK,
        &[("join -> after -> exit", "join -> after -> last -> exit")],
    ),
];

fn replaced(text: &str, pairs: &[(&str, &str)]) -> String {
    pairs.iter().fold(text.to_owned(), |text, (old, new)| {
        assert!(text.contains(old), "`{old}` is not in\n{text}");
        text.replace(old, new)
    })
}

fn pipeline(text: &str, child: &str) -> Pipeline {
    let read = |path: &str, _: u64| match path {
        "child.dot" => Ok(child.as_bytes().to_vec()),
        _ => Err(ReadFault::Missing),
    };
    let options = LoadOptions {
        children: Some(&read),
        ..LoadOptions::default()
    };
    let loaded = load(Source::new("edits.dot", text), &options);
    let faults: Vec<String> = loaded
        .report
        .errors()
        .map(|fault| fault.message.clone())
        .collect();
    loaded.pipeline().unwrap_or_else(|| panic!("{faults:?}\n{text}"))
}

/// Where the run is stopped.
const STUCK: [&str; 2] = ["here", "left"];

fn stages(stuck: bool) -> Acts {
    STUCK.iter().fold(Acts::new(), |acts, node| {
        acts.on(node, move |_| async move {
            if stuck {
                std::future::pending::<()>().await;
            }
            Outcome::success().set("done", 1)
        })
    })
}

async fn stopped(engine: &Engine, folder: &Path, text: &str) {
    let run = engine
        .start_loaded(pipeline(text, CHILD), stages(true))
        .run_dir(folder);
    let run = run.await.unwrap();
    let mut events = run.events();
    let block = text == BLOCK;
    while let Some(event) = events.recv().await {
        let line = serde_json::to_value(&*event).unwrap();
        let here = match block {
            // The other branch has ended.
            true => line["event"] == "StageCompleted" && line["node"] == "right",
            false => line["event"] == "StageStarted" && line["node"] == "here",
        };
        if here {
            break;
        }
    }
    run.pause("an edit");
    assert_eq!(run.wait().await.unwrap().status, RunStatus::Paused);
}

/// What becomes of a run after an edit, in words.
async fn verdict(engine: &Engine, place: &Path, edit: &Edit) -> (String, String) {
    let folder = place.join("run");
    stopped(engine, &folder, edit.of).await;
    let changed = || pipeline(&replaced(edit.of, edit.replace), &replaced(CHILD, edit.child));
    let told = match engine.resume_loaded(&folder, changed(), stages(false)).await {
        Ok(run) => {
            let result = run.wait().await.unwrap();
            return ("goes on without a word".to_owned(), result.path.join(" "));
        }
        Err(StartError::Changed(told)) => told.difference.as_ref().unwrap().to_string(),
        Err(other) => panic!("{}: {other}", edit.what),
    };
    assert!(!told.trim().is_empty(), "{}", edit.what);
    let resumed = engine
        .resume_loaded(&folder, changed(), stages(false))
        .accept_changes();
    match resumed.await {
        Ok(run) => {
            let result = run.wait().await.unwrap();
            let end = match result.failure {
                None => result.path.join(" "),
                Some(failure) => format!("{} ({})", result.path.join(" "), failure.code()),
            };
            ("refused; accepted by name".to_owned(), end)
        }
        Err(StartError::Moved { reason, .. }) => ("refused, by name too".to_owned(), reason),
        Err(other) => panic!("{}: {other}", edit.what),
    }
}

#[tokio::test]
async fn each_kind_of_edit_has_a_verdict() {
    let engine = Engine::builder().build().unwrap();
    let mut table = "# A run that goes on under a changed pipeline\n\n\
        The run stands at `here`, or in the branch `left` of an open block whose branch `right` has ended.\n\n\
        | Edit | Verdict | How it ends, or why not |\n|---|---|---|\n"
        .to_owned();
    for edit in EDITS {
        let place = tempfile::tempdir().unwrap();
        let (verdict, end) = verdict(&engine, place.path(), edit).await;
        writeln!(table, "| {} | {verdict} | {end} |", edit.what).unwrap();
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/edits.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, &table).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), table);
}
