//! `run --set`: literals, files and standard input, through the program.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod support;

use serde_json::{Value, json};
use support::{Done, Place};

/// A tool that counts its calls.
const TOOL: &str =
    r#"digraph set { start -> work -> exit; work [shape=parallelogram, tool_command="echo ran >> ran"] }"#;

fn place() -> Place {
    let place = Place::new();
    place.write("a.dot", TOOL);
    place
}

/// The context in which a run ended that was kept in `out`.
fn context(place: &Place) -> Value {
    let checkpoint: Value = serde_json::from_str(&place.read("out/checkpoint.json")).unwrap();
    checkpoint["context"].clone()
}

fn set(place: &Place, pairs: &[&str], input: &str) -> Done {
    let mut args = vec!["run", "a.dot", "--run-dir", "out"];
    args.extend(pairs.iter().flat_map(|pair| ["--set", pair]));
    place.call_with(&args, input)
}

#[test]
fn a_diff_of_200_kilobytes_is_a_value() {
    let place = place();
    // More than a command line may hold on many systems.
    let diff: String = (0..5_000)
        .map(|line| format!("+ line {line} of a change, \"quoted\" → ✓\n"))
        .collect();
    assert!(diff.len() > 200_000);
    place.write("big.diff", &diff);
    set(&place, &["diff=@big.diff"], "").exits(0);
    assert_eq!(context(&place)["diff"], json!(diff));
}

#[test]
fn standard_input_is_a_value_and_the_text_of_a_file_is_never_json() {
    let place = place();
    place.write("version", "2.10\n");
    let pairs = [
        "issue=@-",
        "version=@version",
        "count=3",
        "handle=@@octocat",
        "mail=a@b",
    ];
    set(&place, &pairs, "It breaks.\n  Always.\n").exits(0);
    let context = context(&place);
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
    let place = place();
    place.write("binary", b"first\nsecond \xff\n");
    std::fs::create_dir(place.path("folder")).unwrap();
    let huge = std::fs::File::create(place.path("huge")).unwrap();
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
        let run = set(&place, pairs, "text").exits(2);
        assert!(run.stderr.contains(message), "{pairs:?}: {}", run.stderr);
    }
    assert!(!place.path("out").exists() && !place.path("ran").exists());
}

#[test]
fn a_gate_behind_a_value_of_standard_input_has_nobody_to_ask() {
    let place = Place::new();
    place.write(
        "a.dot",
        "digraph a { start -> ask; ask [shape=hexagon]; ask -> exit [label=Ship] }",
    );
    let run = set(&place, &["issue=@-"], "Ship\n").exits(5);
    assert!(run.stderr.contains("standard input is closed"), "{}", run.stderr);
}
