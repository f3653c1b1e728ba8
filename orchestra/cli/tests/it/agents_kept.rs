//! The access of models to the run folders of the engine through file tools.

#![cfg(unix)]

use crate::agents_support;

use std::os::unix::fs::symlink;
use std::sync::{Arc, Mutex};

use agents_support::{Project, reports};
use orchestra_model_server_tests::Answer;
use serde_json::{Value, json};

/// Returns the names of the run folders, without drafts and indices.
fn runs(project: &Project, folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(project.scratch.path(folder)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names
        .filter(|name| {
            project
                .scratch
                .path(&format!("{folder}/{name}/manifest.json"))
                .exists()
        })
        .collect();
    names.sort();
    names
}

/// Returns the tool result in the last message.
fn last_result(body: &Value) -> String {
    let last = body["messages"].as_array().unwrap().last().unwrap();
    last["content"].to_string()
}

#[test]
fn models_neither_change_what_the_engine_keeps_nor_read_other_runs() {
    for folder in [".orchestra/runs", "history"] {
        let project = Project::new("");
        project
            .scratch
            .write("other.dot", "digraph other { start -> exit }")
            .write(
                "main.dot",
                "digraph { start -> write -> exit; write [prompt=\"Write it.\"] }",
            )
            .write("sub/mine.txt", "mine\n")
            .write(".orchestra/note.txt", "note\n");
        project.call(&["run", "other.dot", "--runs", folder]).exits(0);
        let other = runs(&project, folder).remove(0);
        symlink(folder, project.scratch.path("link")).unwrap();
        let (at, results) = (Mutex::new(0), Arc::new(Mutex::new(Vec::new())));
        let (scratch, gave) = (project.scratch.path("."), results.clone());
        let of_other = other.clone();
        project.server.respond_with(move |request| {
            let mut at = at.lock().unwrap();
            if *at > 0 {
                gave.lock().unwrap().push(last_result(&request.body));
            }
            let own = std::fs::read_dir(scratch.join(folder))
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .filter(|name| scratch.join(folder).join(name).join("manifest.json").exists())
                .find(|name| *name != of_other)
                .unwrap();
            let write = |path: String| ("write_file", json!({"path": path, "content": "forged"}));
            let read = |path: String| ("read_file", json!({"path": path}));
            let calls = [
                // Rejected.
                write(format!("{folder}/{own}/control-inbox/1.request.json")),
                write(format!("{folder}/{own}/checkpoint.json")),
                write(format!("{folder}/new/manifest.json")),
                write(".orchestra/hooks".to_owned()),
                write(".ORCHESTRA/hooks".to_owned()),
                write("link/new.txt".to_owned()),
                write(format!("sub/../{folder}/{other}/manifest.json", other = of_other)),
                (
                    "edit_file",
                    json!({"path": format!("{folder}/{own}/manifest.json"),
                    "edits": [{"old_text": "run", "new_text": "ran"}]}),
                ),
                read(format!("{folder}/{of_other}/manifest.json")),
                read(format!("link/{of_other}/manifest.json")),
                read(format!("sub/../{folder}/{of_other}/events.jsonl")),
                ("grep", json!({"pattern": "digraph", "path": folder})),
                // Allowed.
                read(format!("{folder}/{own}/manifest.json")),
                ("glob", json!({"pattern": "**/*"})),
                write("sub/mine.txt".to_owned()),
            ];
            *at += 1;
            match calls.get(*at - 1) {
                Some((tool, arguments)) => Answer::call(*tool, arguments.to_string()),
                None => reports("Done."),
            }
        });
        let run = project.call(&["run", "main.dot", "--runs", folder, "--json"]);
        run.exits(0);
        let results = results.lock().unwrap();
        assert_eq!(results.len(), 15, "{results:#?}");
        for refused in &results[..12] {
            assert!(
                refused.contains("belongs to Orchestra itself"),
                "{folder}: {refused}"
            );
        }
        assert!(results[12].contains("orchestra.manifest"), "{}", results[12]);
        assert!(
            results[13].contains("sub/mine.txt") && !results[13].contains(&other),
            "{}",
            results[13]
        );
        assert_eq!(project.scratch.read("sub/mine.txt"), "forged");
        assert!(!project.scratch.path(".orchestra/hooks").exists());
        assert!(!project.scratch.path(&format!("{folder}/new")).exists());
        assert!(!project.scratch.path(&format!("{folder}/new.txt")).exists());
    }
}
