//! Nodes whose ids are too long for folder names run like all others.

#![cfg(unix)]

use crate::support;

use support::Scratch;

#[test]
fn nodes_of_long_ids_that_begin_alike_run_in_folders_of_their_own() {
    let scratch = Scratch::new();
    let long = "a_long_id_".repeat(500);
    let (one, two) = (format!("{long}1"), format!("{long}2"));
    let tool = |id: &str, says: &str| {
        format!("{id} [shape=parallelogram, tool_command=\"echo {says}; test -f go\"]\n")
    };
    let text = format!(
        "digraph long {{\n start -> fan\n fan [shape=component]\n fan -> {one}\n fan -> {two}\n {one} -> join\n {two} -> join\n \
         join [shape=tripleoctagon]\n join -> last_{one}\n last_{one} -> exit\n {}{}{}}}\n",
        tool(&one, "first"),
        tool(&two, "second"),
        tool(&format!("last_{one}"), "third"),
    );
    scratch.write("a.dot", text).write("go", "");
    scratch.call(&["check", "a.dot"]).exits(0);
    scratch.call(&["run", "a.dot", "--runs", "runs"]).exits(0);
    let id = scratch.call(&["status", "--runs", "runs", "--json"]).exits(0);
    assert!(id.stdout.contains("success"), "{}", id.stdout);
    let mut outputs = Vec::new();
    let mut ahead = vec![scratch.path("runs")];
    while let Some(folder) = ahead.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.path().is_dir() {
                ahead.push(entry.path());
            } else if entry.file_name() == "tool_output.txt" {
                outputs.push(std::fs::read_to_string(entry.path()).unwrap());
            }
        }
    }
    outputs.sort();
    assert_eq!(outputs, ["first\n", "second\n", "third\n"]);
    scratch.call(&["status", "last", "--runs", "runs"]).exits(0);
}
