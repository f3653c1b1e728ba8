//! Text of pipelines, tools, models, people and files cannot command the terminal on which it is shown, and does not
//! change the output for programs.

#![cfg(unix)]

use crate::agents_support;

use std::process::Command;

use agents_support::{Done, Project, done};
use orchestra_model_server_tests::Answer;
use serde_json::Value;

/// Every control character that an argument can contain, links and the clipboard (OSC 8 and 52), bidirectional text,
/// and zero-width characters.
fn hostile() -> String {
    let mut text =
        "H\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\ \x1b]52;c;ZXZpbA==\x07 \x1b[2J\r\x1b[8m".to_owned();
    text.extend(('\u{1}'..='\u{1f}').filter(|c| *c != '\n'));
    text.extend('\u{7f}'..='\u{9f}');
    text.extend(UNSEEN);
    text.extend('\u{202a}'..='\u{202e}');
    text.extend('\u{2066}'..='\u{2069}');
    text + "T"
}

/// Characters that have no width, end a line, mark the direction of text, or mark styles in the program.
const UNSEEN: [char; 11] = [
    '\u{61c}',
    '\u{200b}',
    '\u{200e}',
    '\u{200f}',
    '\u{2028}',
    '\u{2029}',
    '\u{2060}',
    '\u{feff}',
    '\u{fdd1}',
    '\u{fddf}',
    '\u{e0041}',
];

/// Returns whether a terminal may act on a character. The list is independent of that of the program.
fn acts(character: char) -> bool {
    let directs = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (character.is_control() && !matches!(character, '\n' | '\t')) || directs || UNSEEN.contains(&character)
}

/// Asserts that the output contains nothing on which a terminal would act. Returns both streams.
#[track_caller]
fn harmless(what: &str, done: &Done) -> String {
    for (stream, text) in [("stdout", &done.stdout), ("stderr", &done.stderr)] {
        let found = text.char_indices().find(|(_, c)| acts(*c));
        if let Some((at, c)) = found {
            let around: String = text[..at].chars().rev().take(60).collect();
            let around: String = around.chars().rev().collect();
            panic!("{what}: {c:?} on {stream} behind {around:?}");
        }
    }
    done.stdout.clone() + &done.stderr
}

/// The same for output that shows the hostile text.
#[track_caller]
fn shown(what: &str, done: &Done) {
    let text = harmless(what, done);
    assert!(
        text.contains("␛]8;;http://evil") || text.contains("\\u001b]8;;http"),
        "{what}: {text}"
    );
}

/// Returns the text as a DOT string.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn project() -> Project {
    let project = Project::new("");
    let text = quoted(&hostile());
    project.scratch.write("hostile.txt", hostile());
    project.scratch.write(
        "a.dot",
        format!(
            "digraph {text} {{\n  label={text}; goal={text}\n  start -> write -> ask\n  \
             start [label={text}]\n  write [label={text}, prompt={text}, max_retries=0]\n  \
             ask [shape=hexagon, label={text}]\n  ask -> work [label={text}]\n  ask -> exit [label=\"[N] No\"]\n  \
             work [shape=parallelogram, label={text}, max_retries=0, \
             tool_command=\"cat hostile.txt; cat hostile.txt >&2; exit 3\"]\n  \
             work -> exit [condition=\"outcome=success\", label={text}]\n}}\n"
        ),
    );
    project
}

#[test]
fn a_run_shows_no_control_characters_of_others() {
    let project = project();
    let text = hostile();
    for json in [false, true] {
        let with = |args: &[&str]| -> Vec<String> {
            let json = json.then_some("--json");
            args.iter().copied().chain(json).map(str::to_owned).collect()
        };
        let call = |args: &[&str]| {
            let args = with(args);
            project.call(&args.iter().map(String::as_str).collect::<Vec<_>>())
        };
        project.server.push(Answer::text(&text));
        let paused = call(&["run", "a.dot", "--set", &format!("given={text}")]).exits(5);
        shown("the run", &paused);
        if json {
            // JSON output contains the original text.
            let started = paused.reported("PipelineStarted", "goal");
            assert_eq!(started, [Value::from(text.clone())]);
        }
        for args in [&["status"][..], &["status", "last"], &["attach", "last"]] {
            shown(&format!("{args:?}"), &call(args).clone_with_any_exit());
        }
        harmless("checkpoints", &call(&["checkpoints", "last"]));
        harmless("a comparison", &call(&["compare", "last", "last"]));
        shown(
            "a wrong answer",
            &call(&["answer", "last", "ask", &format!("{text}x")]),
        );
        shown("a wrong gate", &call(&["answer", "last", &text, "N"]));
        shown(
            "an answer given beforehand",
            &call(&["resume", "last", "--answer", &format!("ask={text}x")]),
        );
        harmless("the answer", &call(&["answer", "last", "ask", &text]).exits(0));
        let failed = call(&["resume", "last"]).exits(1);
        shown("the failure", &failed);
        shown("the status of the failure", &call(&["status", "last"]));
        harmless("the replay", &call(&["replay", "last", "--checkpoint", &text]));
        project.server.push(Answer::text(&text));
        call(&["run", "a.dot"]).exits(5);
        shown(
            "the reason",
            &call(&["cancel", "last", "--reason", &text]).then(|| call(&["status", "last"])),
        );
        harmless("cleanup", &call(&["cleanup", "--older-than", "0s", "--dry-run"]));
    }
}

/// Access to results whatever the exit code is.
trait Any {
    fn clone_with_any_exit(self) -> Done;
    fn then(self, next: impl FnOnce() -> Done) -> Done;
}

impl Any for Done {
    fn clone_with_any_exit(self) -> Done {
        self
    }

    fn then(self, next: impl FnOnce() -> Done) -> Done {
        harmless("before", &self);
        next()
    }
}

#[test]
fn arguments_names_and_diagnostics_show_no_control_characters() {
    let project = project();
    let text = hostile();
    let name = text.replace('/', "|") + ".dot";
    let file = |content: String| project.scratch.write(&name, content);
    // A file with an invalid name, node, attribute, value, condition and line.
    file(format!(
        "digraph {{ start -> {n} -> exit; {n} [{n}={n}, shape={n}, max_retries={n}]\n  {n} -> start [condition={n}]\n \
         {text} }}",
        n = quoted(&text)
    ));
    for json in [false, true] {
        let call = |args: &[&str]| {
            let json = json.then_some("--json");
            done(
                project
                    .command(&args.iter().copied().chain(json).collect::<Vec<_>>())
                    .output()
                    .unwrap(),
            )
        };
        for command in ["check", "run", "compile", "graph", "fmt"] {
            shown(command, &call(&[command, &name]));
        }
        shown("concise", &call(&["check", "--format", "concise", &name]));
        for command in ["check", "run", "compile", "fmt"] {
            shown(command, &call(&[command, &format!("none{text}")]));
        }
        for args in [
            &["explain", &*text][..],
            &["status", &text],
            &["status", "--runs", &text],
            &["resume", &text],
            &["attach", &text],
            &["checkpoints", &text],
            &["pause", &text],
            &[&text],
            &["run", "a.dot", &format!("--{text}")],
            &["run", "a.dot", "--seed", &text],
            &["run", "a.dot", "--set", &text.replace('=', "")],
            &["run", "a.dot", "--set", &format!("x=@{text}")],
            &["run", "a.dot", "--answer", &text],
            &["run", "a.dot", "--answer", &format!("{text}=x")],
            &["run", "a.dot", "--simulate", "--outcome", &format!("{text}=fail")],
            &["run", "a.dot", "--simulate", &text],
            &["run", "a.dot", "--max-time", &text],
            &["run", "a.dot", "--config", &text],
            &["init", &text],
            &["cleanup", "--older-than", &text],
        ] {
            let reported = call(args);
            assert_ne!(reported.code, 101, "{args:?}: {}", reported.stderr);
            harmless(&format!("{args:?}"), &reported);
        }
        for command in ["compile", "graph"] {
            harmless(command, &call(&[command, "a.dot"]));
        }
        harmless("a picture", &call(&["graph", "a.dot", "--format", "text"]));
    }
    project.scratch.write(
        "bad.yaml",
        format!(
            "{t}: {t}\nproviders: {t}\n",
            t = serde_json::to_string(&text).unwrap()
        ),
    );
    harmless(
        "a configuration",
        &project.call(&["compile", "a.dot", "--config", "bad.yaml"]),
    );
    project.scratch.write(
        "bad.yaml",
        format!("{t}: [fail]\n", t = serde_json::to_string(&text).unwrap()),
    );
    harmless(
        "a script",
        &project.call(&["run", "a.dot", "--simulate", "bad.yaml"]),
    );
}

/// The formatter writes the exact file to another program.
#[test]
fn a_formatted_file_is_exact() {
    let project = project();
    let mut command: Command = project.command(&["fmt", "-"]);
    let source = "digraph {\n    start -> exit // \u{202a}\u{7f}\n}\n";
    project.scratch.write("b.dot", source);
    let formatted = command
        .stdin(std::fs::File::open(project.scratch.path("b.dot")).unwrap())
        .output()
        .unwrap();
    assert!(
        String::from_utf8(formatted.stdout)
            .unwrap()
            .contains("// \u{202a}\u{7f}")
    );
}
