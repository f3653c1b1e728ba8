//! Some pages of the reference are made from the code. `UPDATE=1` writes them.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fmt::Write as _;
use std::process::Command;

use orchestra_book_tests::{book, root};
use serde_json::Value;

#[path = "generated/events.rs"]
mod events;
#[path = "generated/keys.rs"]
mod keys;

/// Compares a page with what the code says, or writes it.
fn compare(name: &str, text: &str) {
    let text = format!("{}\n", text.trim_end());
    let path = book().join("reference").join(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        page == text,
        "{name} is not what the code says; `UPDATE=1 cargo test -p orchestra-book-tests --test generated` writes it"
    );
}

fn orchestra(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_orchestra-book-program"))
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout)
        .unwrap()
        .replace("orchestra-book-program", "orchestra")
}

/// Escapes what ends a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[test]
fn the_command_line() {
    let mut page = "# Command line\n\nMade from the program. `orchestra COMMAND --help` prints the same, and `orchestra man` makes manual \
                    pages of it. `serve-restate`, `export`, `sync` and the options for a Restate server are in programs with the feature \
                    `restate`.\n\n## orchestra\n\n"
        .to_owned();
    let help = orchestra(&["--help"]);
    write!(page, "```text\n{}\n```\n", help.trim_end()).unwrap();
    for command in commands(&help) {
        let help = orchestra(&[&command, "--help"]);
        write!(
            page,
            "\n## orchestra {command}\n\n```text\n{}\n```\n",
            help.trim_end()
        )
        .unwrap();
        if help.contains("\nCommands:\n") {
            for below in commands(&help) {
                let help = orchestra(&[&command, &below, "--help"]);
                write!(
                    page,
                    "\n### orchestra {command} {below}\n\n```text\n{}\n```\n",
                    help.trim_end()
                )
                .unwrap();
            }
        }
    }
    assert!(page.contains("## orchestra resume\n") && page.contains("### orchestra stations list\n"));
    compare("command-line.md", &page);
}

/// Returns the names of the commands in a help text.
fn commands(help: &str) -> Vec<String> {
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let lines = list.lines().take_while(|line| line.starts_with("  "));
    let names = lines
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn the_diagnostics() {
    let mut page = "# Diagnostics\n\nMade from the checks. `orchestra explain CODE` prints the page of a diagnostic: what it means, why it \
                    matters, how to fix it, and a bad and a good example.\n\n| Code | Severity | Meaning |\n|---|---|---|\n"
        .to_owned();
    let mut count = 0;
    for line in orchestra(&["explain", "--json"]).lines() {
        let rule: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| cell(rule[key].as_str().unwrap());
        writeln!(
            page,
            "| `{}` | {} | {} |",
            text("code"),
            text("severity"),
            text("summary")
        )
        .unwrap();
        count += 1;
    }
    assert!(count > 50, "only {count} diagnostics");
    compare("diagnostics.md", &page);
}

#[test]
fn the_variables_of_templates() {
    let mut page = "# Template variables\n\nMade from the table of the checker. [Prompts and templates](prompts.md#task-templates) says where \
                    templates are used, and which other variables a pipeline adds: its inputs, `output_keys` and `outputs` of its \
                    nodes, and `graph.NAME` for the attributes of the graph.\n"
        .to_owned();
    let mut table = |title: &str, prefix: &str, names: &[&str]| {
        write!(page, "\n## {title}\n\n| Name | Content |\n|---|---|\n").unwrap();
        for name in names {
            let description = orchestra_config::variable_description(name).unwrap();
            writeln!(page, "| `{prefix}{name}` | {} |", cell(description)).unwrap();
        }
    };
    table(
        "Variables of every template",
        "",
        orchestra_config::BUILT_IN_VARIABLES,
    );
    table("Fields of a stage", "stages.ID.", orchestra_config::STAGE_FIELDS);
    table("Keys that the engine sets", "", orchestra_config::ENGINE_KEYS);
    let list = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        names.join(", ")
    };
    write!(
        page,
        "\n## Filters and tests\n\nFilters: {}.\n\nTests: {}.\n",
        list(orchestra_config::TEMPLATE_FILTERS),
        list(orchestra_config::TEMPLATE_TESTS)
    )
    .unwrap();
    compare("template-variables.md", &page);
}

#[test]
fn the_keys_of_the_configuration() {
    let schema: Value = serde_json::from_str(orchestra_config::SCHEMA).unwrap();
    let page = format!(
        "# Keys of the configuration\n\nMade from `orchestra.schema.json`, which editors use to complete and check `orchestra.yaml`. \
         [Configuration](configuration.md) has an example with most of these keys.\n{}",
        keys::page(&schema)
    );
    assert!(page.contains("| `agents` | map of [Agent](#agent) |"), "{page}");
    compare("configuration-keys.md", &page);
}

#[test]
fn the_events() {
    let read =
        |file: &str| std::fs::read_to_string(root().join("orchestra/engine/src/event").join(file)).unwrap();
    let page = format!(
        "# Events\n\nMade from the types of the engine. Each line of `events.jsonl`, and of the output of `run --json`, is one object: \
         `schema` (`orchestra.event/1`), `seq` (the number in the run, from 1), `time`, `run` (the id), `event` (the kind), and the \
         fields of the kind. Fields that are marked optional are left out if they are empty. Readers should ignore fields and kinds that \
         they do not know.\n{}",
        events::page(
            &[
                "kind.rs",
                "stage_ref.rs",
                "model_call.rs",
                "../../../core/src/usage.rs"
            ]
            .map(read)
        )
    );
    assert!(
        page.contains("## StageStarted\n") && page.contains("| `duration_ms` |"),
        "{page}"
    );
    compare("events.md", &page);
}

#[test]
fn every_section_of_the_reference_is_in_the_book_once() {
    let reference = std::fs::read_to_string(root().join("REFERENCE.md")).unwrap();
    let mut included = String::new();
    for name in orchestra_book_tests::pages(&book()).unwrap() {
        included += &std::fs::read_to_string(book().join(name)).unwrap();
    }
    let lines: Vec<&str> = reference.lines().filter(|line| !line.is_empty()).collect();
    let mut sections = 0;
    for (at, line) in lines.iter().enumerate() {
        let Some(title) = line.strip_prefix("## ") else {
            continue;
        };
        sections += 1;
        // The anchor is above the heading, or below if the page has the same title.
        let anchor = format!("<!-- ANCHOR: {} -->", orchestra_book_tests::slug(title));
        let marked = lines[at - 1] == anchor || lines[at + 1] == anchor;
        assert!(
            marked,
            "the section `{title}` of REFERENCE.md has no line `{anchor}`"
        );
        let include = format!("REFERENCE.md:{}}}}}", orchestra_book_tests::slug(title));
        let count = included.matches(&include).count();
        assert_eq!(
            count, 1,
            "pages of the book that include the section `{title}` of REFERENCE.md"
        );
    }
    assert!(sections > 20, "only {sections} sections");
}
