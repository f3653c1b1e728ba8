//! Commands that execute no run, through the program.

use crate::support;

use support::{Scratch, tools};

#[test]
fn check_prints_a_diagnostic_with_place_reason_and_help() {
    let scratch = Scratch::new();
    scratch.write("a.dot", "digraph a {\n    start [shape=Mdiamond]\n    exit [shape=Msquare]\n    Build [prompt=\"Build\"]\n    start -> Build -> exit\n    Build -> Buidl\n}\n");
    let check = scratch.call(&["check", "a.dot"]).exits(3);
    for part in [
        "error[edge_target_exists]",
        "a.dot:6:14",
        "Build -> Buidl",
        "^^^^^",
        "did you mean `Build`?",
    ] {
        assert!(
            check.stderr.contains(part),
            "{part} is missing in\n{}",
            check.stderr
        );
    }
    assert!(
        check.stderr.contains("invalid: 1 file checked, 1 error"),
        "{}",
        check.stderr
    );
    let concise = scratch.call(&["check", "a.dot", "--format", "concise"]).exits(3);
    assert!(
        concise
            .stderr
            .starts_with("a.dot:6:14: error[edge_target_exists]: "),
        "{}",
        concise.stderr
    );
}

/// A proof must not look like an assertion that nobody has read.
#[test]
fn check_counts_the_assertions_that_hold() {
    let scratch = Scratch::new();
    let pipeline = |assert: &str| {
        format!("digraph a {{ assert=\"{assert}\"; work [prompt=Work]; start -> work -> exit }}")
    };
    scratch.write("a.dot", pipeline("requires(exit, work); requires(work, start)"));
    scratch.write("b.dot", pipeline("requires(exit, work)"));
    scratch.write("c.dot", pipeline("requires(work, exit)"));
    let summary = |args: &[&str], exit| {
        scratch
            .call(args)
            .exits(exit)
            .stderr
            .lines()
            .last()
            .map(str::to_owned)
    };
    for (files, exit, expected) in [
        (
            ["check", "a.dot", "a.dot"],
            0,
            "ok: 1 file checked, 2 assertions hold, no problems found",
        ),
        (
            ["check", "a.dot", "b.dot"],
            0,
            "ok: 2 files checked, 3 assertions hold, no problems found",
        ),
        (
            ["check", "b.dot", "b.dot"],
            0,
            "ok: 1 file checked, 1 assertion holds, no problems found",
        ),
        (
            ["check", "c.dot", "b.dot"],
            3,
            "invalid: 2 files checked, 1 assertion holds, 1 error",
        ),
    ] {
        assert_eq!(summary(&files, exit).as_deref(), Some(expected));
    }
    let objects = scratch.call(&["check", "a.dot", "--json"]).exits(0).objects();
    assert_eq!(objects.last().unwrap()["assertions"], 2);
}

#[test]
fn check_gives_json_lines_and_a_summary() {
    let scratch = Scratch::new();
    scratch.write("a.dot", "digraph a { start -> work -> exit; work -> lost }");
    let objects = scratch.call(&["check", "a.dot", "--json"]).exits(3).objects();
    assert_eq!(objects[0]["schema"], "orchestra.diagnostic/1");
    let (summary, diagnostics) = objects.split_last().unwrap();
    assert_eq!(summary["schema"], "orchestra.check/1");
    let found = diagnostics
        .iter()
        .find(|object| object["code"] == "edge_target_exists")
        .unwrap();
    assert_eq!(
        (found["line"].as_u64(), found["column"].as_u64()),
        (Some(1), Some(44))
    );
    assert_eq!(found["severity"], "error");
}

#[test]
fn warnings_can_be_denied_and_allowed() {
    let scratch = Scratch::new();
    scratch.write(
        "a.dot",
        "digraph a { start -> work -> exit; work [prompt=\"Do\" label=\"Work\"] }",
    );
    let check = scratch.call(&["check", "a.dot"]).exits(0);
    assert!(
        check.stderr.contains("warning[attr_separator]"),
        "{}",
        check.stderr
    );
    scratch.call(&["check", "a.dot", "--deny", "warnings"]).exits(3);
    scratch
        .call(&["check", "a.dot", "--deny", "attr_separator"])
        .exits(3);
    let allowed = scratch
        .call(&["check", "a.dot", "--allow", "attr_separator"])
        .exits(0);
    assert!(!allowed.stderr.contains("attr_separator"), "{}", allowed.stderr);
    let unknown = scratch
        .call(&["check", "a.dot", "--deny", "attr_seperator"])
        .exits(2);
    assert!(
        unknown.stderr.contains("did you mean `attr_separator`?"),
        "{}",
        unknown.stderr
    );
}

#[test]
fn check_takes_many_files_and_hostile_ones() {
    let scratch = Scratch::new();
    scratch
        .write("good.dot", tools(false))
        .write("nul.dot", b"digraph \0 {".as_slice())
        .write("utf8.dot", b"\xff\xfe".as_slice());
    scratch
        .call(&["check", "good.dot", "nul.dot", "utf8.dot"])
        .exits(3);
    scratch.call(&["check", "missing.dot"]).exits(2);
    scratch.call(&["check", "."]).exits(2);
}

#[test]
fn compile_prints_handlers_and_routes() {
    let scratch = Scratch::new();
    scratch.write("a.dot", tools(false));
    let text = scratch.call(&["compile", "a.dot"]).exits(0).stdout;
    assert!(text.contains("second  tool"), "{text}");
    assert!(text.contains("-> mend if outcome=fail"), "{text}");
    let object = scratch
        .call(&["compile", "a.dot", "--json"])
        .exits(0)
        .objects()
        .pop()
        .unwrap();
    assert_eq!(object["schema"], "orchestra.compile/1");
    assert_eq!(object["nodes"][2]["handler"], "tool");
    scratch.write("bad.dot", "digraph bad { a -> b }");
    scratch.call(&["compile", "bad.dot"]).exits(3);
}

#[test]
fn graph_draws_every_form() {
    let scratch = Scratch::new();
    scratch.write("a.dot", tools(false));
    for (format, mark) in [
        ("svg", "<svg"),
        ("dot", "digraph"),
        ("mermaid", "flowchart"),
        ("text", "second"),
    ] {
        let graph = scratch.call(&["graph", "a.dot", "--format", format]).exits(0);
        assert!(graph.stdout.contains(mark), "{format}: {}", graph.stdout);
    }
    scratch.call(&["graph", "a.dot", "-o", "a.svg"]).exits(0);
    assert!(scratch.read("a.svg").contains("<svg"));
    let odd = scratch.call(&["graph", "a.dot", "-o", "a.png"]).exits(2);
    assert!(
        odd.stderr.contains("`.svg`") && !scratch.path("a.png").exists(),
        "{}",
        odd.stderr
    );
    let object = scratch
        .call(&["graph", "a.dot", "--format", "dot", "--json"])
        .exits(0)
        .objects()
        .pop()
        .unwrap();
    assert!(object["picture"].as_str().unwrap().contains("digraph"));
}

#[test]
fn explain_shows_the_page_of_a_code() {
    let scratch = Scratch::new();
    let page = scratch.call(&["explain", "edge_target_exists"]).exits(0).stdout;
    assert!(page.contains("```dot"), "{page}");
    assert_eq!(
        scratch
            .call(&["explain", "error[edge_target_exists]"])
            .exits(0)
            .stdout,
        page
    );
    let unknown = scratch.call(&["explain", "edge_target_exist"]).exits(2);
    assert!(
        unknown.stderr.contains("did you mean `edge_target_exists`?"),
        "{}",
        unknown.stderr
    );
    assert!(scratch.call(&["explain"]).exits(0).stdout.lines().count() > 40);
}

#[test]
fn fmt_is_idempotent_keeps_comments_and_refuses_what_it_cannot_read() {
    let scratch = Scratch::new();
    scratch.write(
        "a.dot",
        "digraph a { // why\nstart->work[label=\"x\" weight=2];work->exit }\n",
    );
    scratch.call(&["fmt", "a.dot", "--check"]).exits(1);
    scratch.call(&["fmt", "a.dot"]).exits(0);
    let once = scratch.read("a.dot");
    assert!(
        once.contains("// why") && once.contains("label=\"x\", weight=2"),
        "{once}"
    );
    scratch.call(&["fmt", "a.dot", "--check"]).exits(0);
    scratch.write("bad.dot", "digraph a { start -> ");
    scratch.call(&["fmt", "bad.dot"]).exits(3);
    assert_eq!(scratch.read("bad.dot"), "digraph a { start -> ");
}

#[test]
fn completions_exist_for_every_shell() {
    let scratch = Scratch::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(
            scratch
                .call(&["completions", shell])
                .exits(0)
                .stdout
                .contains("orchestra"),
            "{shell}"
        );
    }
}

#[test]
fn manual_pages_exist_for_every_command() {
    let scratch = Scratch::new();
    let page = scratch.call(&["man"]).exits(0).stdout;
    assert!(
        page.contains(".TH orchestra 1") && page.contains("Exit codes"),
        "{page}"
    );
    let page = scratch.call(&["man", "stations", "list"]).exits(0).stdout;
    assert!(page.contains(".TH orchestra-stations-list 1"), "{page}");
    assert!(
        page.contains(concat!("\"orchestra ", env!("CARGO_PKG_VERSION"))),
        "{page}"
    );

    let written = scratch
        .call(&["man", "--output", "share/man1", "--json"])
        .exits(0);
    let object: serde_json::Value = serde_json::from_str(written.stdout.trim()).unwrap();
    let files = object["files"].as_array().unwrap();
    assert!(files.len() > 20, "{object}");
    for file in files {
        let text = scratch.read(&format!("share/man1/{}", file.as_str().unwrap()));
        assert!(text.contains(".SH SYNOPSIS"), "{file}: {text}");
    }
    let help = scratch.call(&["--help"]).exits(0).stdout;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands: Vec<&str> = commands
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(commands.len() > 20, "{help}");
    for name in commands {
        assert!(
            files.iter().any(|file| *file == format!("orchestra-{name}.1")),
            "{name}"
        );
    }

    let unknown = scratch.call(&["man", "rn"]).exits(2);
    assert!(
        unknown.stderr.contains("did you mean `run`?"),
        "{}",
        unknown.stderr
    );
    scratch.write("file", "text");
    let refused = scratch.call(&["man", "--output", "file"]).exits(2);
    assert!(
        refused.stderr.contains("cannot write `file`"),
        "{}",
        refused.stderr
    );
}

#[test]
fn help_and_version_go_to_standard_output() {
    let scratch = Scratch::new();
    let help = scratch.call(&["--help"]).exits(0);
    assert!(help.stdout.contains("Exit codes") && help.stderr.is_empty());
    assert!(
        scratch
            .call(&["--version"])
            .exits(0)
            .stdout
            .starts_with("orchestra ")
    );
    scratch.call(&[]).exits(2);
}

#[test]
fn init_makes_a_project_and_never_overwrites_one() {
    let scratch = Scratch::new();
    scratch.call(&["init", "my-flow", "--template", "tools"]).exits(0);
    assert!(
        scratch
            .read("my-flow/src/main.rs")
            .contains("orchestra::main!(my_flow)")
    );
    scratch
        .call(&["check", "my-flow/pipelines/my_flow.dot", "--deny", "warnings"])
        .exits(0);
    scratch.call(&["init", "my-flow"]).exits(2);
    scratch.call(&["init", "9lives"]).exits(2);
    scratch.call(&["init", "tokio"]).exits(2);
    let keyword = scratch.call(&["init", "type"]).exits(2);
    assert!(
        keyword.stderr.contains("such as `type-flow`"),
        "{}",
        keyword.stderr
    );
}
