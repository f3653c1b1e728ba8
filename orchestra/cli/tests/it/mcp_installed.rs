//! Servers and clients of others, which npm installs: `server-everything`, `server-filesystem` and `inspector`.

#![cfg(unix)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use orchestra_installed_tests::{find, skip};
use orchestra_model_server_tests::Answer;
use serde_json::Value;

use crate::agents_support::{Done, Project, done, reports};
use crate::mcp_support::results;
use crate::support::Scratch;

const PACKAGES: &[&str] = &[
    "@modelcontextprotocol/inspector@0.15.0",
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
];

/// Returns the folder of the installed programs. Without one, says that the test is skipped.
#[track_caller]
fn programs() -> Option<PathBuf> {
    static PROGRAMS: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match PROGRAMS.get_or_init(install) {
        Ok(folder) => Some(folder.clone()),
        Err(reason) => {
            skip(reason);
            None
        }
    }
}

/// Installs the programs, unless they are installed. Waits for other processes that do so.
fn install() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcp-peers");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let lock = File::create(folder.join("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    let (installed, wanted) = (folder.join("installed"), PACKAGES.join("\n"));
    let programs = folder.join("node_modules/.bin");
    if fs::read_to_string(&installed).is_ok_and(|before| before == wanted) {
        return Ok(programs);
    }
    if find("npm").is_none() || find("node").is_none() {
        return Err("npm is not installed".to_owned());
    }
    let options = [
        "install",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--fetch-retries=1",
        "--prefix",
    ];
    let mut npm = Command::new("npm");
    let npm = npm.args(options).arg(&folder).args(PACKAGES).current_dir(&folder);
    let output = npm
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!(
            "`npm install` failed: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    fs::write(&installed, wanted).map_err(|error| error.to_string())?;
    Ok(programs)
}

/// Runs a pipeline whose model calls tools of a server, each with its arguments.
fn drive(server: &str, tools: &str, calls: &[(&str, &str)], options: &[&str]) -> (Project, Done) {
    let first = tools.split(',').next().unwrap_or_default();
    let project = Project::new(&format!(
        "backend: agent\nmcp_servers:\n  peer: {{command: [{server}], tools: [{tools}]}}\nagents:\n  worker: {{only_tools: \
         [\"peer:{first}\"], tools: [{}]}}\n",
        tools
            .split(',')
            .map(|tool| format!("\"peer:{}\"", tool.trim()))
            .collect::<Vec<_>>()
            .join(", ")
    ));
    project.scratch.write("poem.txt", "Roses are red.\n");
    project.scratch.write(
        "a.dot",
        "digraph a { start -> work -> exit; work [prompt=\"Do it.\", agent=worker] }",
    );
    project.call(&["mcp", "lock"]).exits(0);
    for (tool, arguments) in calls {
        project
            .server
            .push(Answer::call(format!("peer__{tool}"), *arguments));
    }
    project.server.push(reports("Done."));
    let run = project.call(&[&["run", "a.dot"], options].concat());
    (project, run)
}

#[test]
fn a_model_works_with_the_server_of_files() {
    let Some(programs) = programs() else { return };
    let server = format!("{}, .", programs.join("mcp-server-filesystem").display());
    let calls = [
        ("read_text_file", r#"{"path": "poem.txt"}"#),
        (
            "write_file",
            r#"{"path": "new.txt", "content": "Violets are blue.\n"}"#,
        ),
        ("read_text_file", r#"{"path": "/etc/hostname"}"#),
    ];
    let (project, run) = drive(&server, "read_text_file, write_file", &calls, &[]);
    run.exits(0);
    let results = results(&project);
    assert_eq!(results[0].trim(), "Roses are red.");
    assert_eq!(project.scratch.read("new.txt"), "Violets are blue.\n");
    assert!(results[2].contains("Access denied"), "{results:?}");
}

#[test]
fn a_model_works_with_the_server_of_everything_which_asks_a_person() {
    let Some(programs) = programs() else { return };
    let server = programs.join("mcp-server-everything").display().to_string();
    let calls = [
        ("echo", r#"{"message": "hello"}"#),
        ("get_sum", r#"{"a": 2, "b": 3}"#),
        ("get_tiny_image", "{}"),
        ("trigger_elicitation_request", "{}"),
    ];
    let tools = "echo, get-sum, get-tiny-image, trigger-elicitation-request";
    let (project, run) = drive(&server, tools, &calls, &["--answer", r#"work={"name": "Ada"}"#]);
    run.exits(0);
    let results = results(&project);
    assert!(results[0].contains("hello"), "{results:?}");
    assert!(results[1].contains('5'), "{results:?}");
    assert!(results[2].contains("[image image/png"), "{results:?}");
    assert!(results[3].contains("Ada"), "{results:?}");
    let (project, run) = drive(&server, tools, &calls[3..], &["--answer", "work=decline"]);
    run.exits(0);
    let declined = self::results(&project);
    assert!(declined[0].contains("declined"), "{declined:?}");
}

#[test]
fn the_inspector_calls_a_pipeline_and_answers_its_gate() {
    let Some(programs) = programs() else { return };
    let scratch = Scratch::new();
    let release = "digraph release { inputs=\"version: text\"; start -> ask; ask [shape=hexagon, label=\"Ship?\"]; \
                   ask -> exit [label=\"[Y] Yes\"]; ask -> start2 [label=\"[N] No\"]; start2 [shape=parallelogram, \
                   tool_command=\"true\"]; start2 -> exit }";
    scratch.write("release.dot", release);
    let inspect = |tool: &str, arguments: &[String]| -> Value {
        let mut command = Command::new(programs.join("mcp-inspector"));
        let server = [env!("CARGO_BIN_EXE_orchestra"), "mcp", "serve", "release.dot"];
        command
            .arg("--cli")
            .args(server)
            .args(["--method", "tools/call", "--tool-name", tool]);
        for argument in arguments {
            command.args(["--tool-arg", argument]);
        }
        let output = command
            .current_dir(scratch.path(""))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = done(output).exits(0).stdout;
        let result: Value = serde_json::from_str(&said).unwrap();
        serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
    };
    let report = inspect("pipeline_release", &["version=one".to_owned()]);
    assert_eq!(report["status"], "paused");
    let run = format!("run={}", report["run"].as_str().unwrap());
    let state = inspect("run_status", std::slice::from_ref(&run));
    assert_eq!(state["questions"][0]["gate"], "ask");
    let report = inspect("answer", &[run, "gate=ask".to_owned(), "choice=Y".to_owned()]);
    assert_eq!(report["status"], "success");
}
