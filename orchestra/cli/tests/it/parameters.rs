//! `run --set`: literals, files and standard input, through the program.

#![cfg(unix)]

use crate::support;

use serde_json::{Value, json};
use support::{Done, Scratch};

/// A tool that counts its calls.
const TOOL: &str =
    r#"digraph set { start -> work -> exit; work [shape=parallelogram, tool_command="echo ran >> ran"] }"#;

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("a.dot", TOOL);
    scratch
}

/// Returns the final context of the run in the folder `out`.
fn context(scratch: &Scratch) -> Value {
    let checkpoint: Value = serde_json::from_str(&scratch.read("out/checkpoint.json")).unwrap();
    checkpoint["context"].clone()
}

fn set(scratch: &Scratch, pairs: &[&str], input: &str) -> Done {
    let mut args = vec!["run", "a.dot", "--run-dir", "out"];
    args.extend(pairs.iter().flat_map(|pair| ["--set", pair]));
    scratch.call_with(&args, input)
}

#[test]
fn a_diff_of_200_kilobytes_is_a_value() {
    let scratch = scratch();
    // Larger than the command line limit of many systems.
    let diff: String = (0..5_000)
        .map(|line| format!("+ line {line} of a change, \"quoted\" → ✓\n"))
        .collect();
    assert!(diff.len() > 200_000);
    scratch.write("big.diff", &diff);
    set(&scratch, &["diff=@big.diff"], "").exits(0);
    assert_eq!(context(&scratch)["diff"], json!(diff));
}

#[test]
fn standard_input_is_a_value_and_the_text_of_a_file_is_never_json() {
    let scratch = scratch();
    scratch.write("version", "2.10\n");
    let pairs = [
        "issue=@-",
        "version=@version",
        "count=3",
        "handle=@@octocat",
        "mail=a@b",
    ];
    set(&scratch, &pairs, "It breaks.\n  Always.\n").exits(0);
    let context = context(&scratch);
    for (key, value) in [
        ("issue", json!("It breaks.\n  Always.\n")),
        ("version", json!("2.10\n")),
        ("count", json!(3)),
        ("handle", json!("@octocat")),
        ("mail", json!("a@b")),
    ] {
        assert_eq!(context[key], value, "{key}");
    }
}

#[test]
fn what_cannot_be_a_value_is_wrong_usage_and_runs_nothing() {
    let scratch = scratch();
    scratch.write("binary", b"first\nsecond \xff\n");
    std::fs::create_dir(scratch.path("folder")).unwrap();
    let huge = std::fs::File::create(scratch.path("huge")).unwrap();
    huge.set_len((16 << 20) + 1).unwrap();
    let cases: [(&[&str], &str); 8] = [
        (
            &["a=@missing.diff"],
            "`--set a=@missing.diff`: cannot read `missing.diff`: No such file",
        ),
        (
            &["a=@missing"],
            "help: a value that begins with `@` is written `a=@@missing`",
        ),
        (&["a=@folder"], "cannot read `folder`"),
        (&["a=@binary"], "`binary` is not UTF-8 text (line 2, byte 13)"),
        (&["a=@huge"], "`huge` is larger than 16 MiB"),
        (&["a=@"], "names no file behind the `@`"),
        (&["a=@-", "b=@-"], "standard input was read for `a` already"),
        (&["=@binary"], "not of the form KEY=VALUE"),
    ];
    for (pairs, message) in cases {
        let run = set(&scratch, pairs, "text").exits(2);
        assert!(run.stderr.contains(message), "{pairs:?}: {}", run.stderr);
    }
    assert!(!scratch.path("out").exists() && !scratch.path("ran").exists());
}

#[test]
fn a_gate_behind_a_value_of_standard_input_has_nobody_to_ask() {
    let scratch = Scratch::new();
    scratch.write(
        "a.dot",
        "digraph a { start -> ask; ask [shape=hexagon]; ask -> exit [label=Ship] }",
    );
    let run = set(&scratch, &["issue=@-"], "Ship\n").exits(5);
    assert!(run.stderr.contains("standard input is closed"), "{}", run.stderr);
}
