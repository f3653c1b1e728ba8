//! The action for GitHub: each of its scripts, in the environment that a runner gives it.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use orchestra_config::yaml_words;
use orchestra_installed_tests::{find, skip};

use crate::support::{Done, Scratch, copy_program, done, tools};

/// The steps of the action, each with its texts by their paths, such as `env/VERSION`.
fn steps() -> Vec<BTreeMap<String, String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../action.yml");
    let text = std::fs::read(path).expect("the action");
    let mut steps: Vec<BTreeMap<String, String>> = Vec::new();
    for word in yaml_words(&text) {
        let [runs, list, at, keys @ ..] = word.path.as_slice() else {
            continue;
        };
        if word.is_key || (runs.as_str(), list.as_str()) != ("runs", "steps") {
            continue;
        }
        let at: usize = at.parse().expect("an index");
        steps.resize(steps.len().max(at + 1), BTreeMap::new());
        steps[at].insert(keys.join("/"), word.text);
    }
    steps
}

/// A runner in a repository with two commits.
struct Runner {
    scratch: Scratch,
    /// The values of expressions, such as `inputs.version`.
    values: BTreeMap<String, String>,
    /// The folder with the program.
    programs: PathBuf,
}

impl Runner {
    /// Returns `None` if the machine lacks a program that the action needs.
    fn new() -> Option<Runner> {
        for program in ["bash", "git", "curl", "tar", "sha256sum"] {
            if find(program).is_none() {
                skip(&format!("there is no `{program}`"));
                return None;
            }
        }
        let scratch = Scratch::new();
        for folder in ["work", "temp", "programs"] {
            std::fs::create_dir(scratch.path(folder)).unwrap();
        }
        let programs = scratch.path("programs");
        copy_program(env!("CARGO_BIN_EXE_orchestra"), programs.join("orchestra"));
        let runner = Runner {
            scratch,
            values: BTreeMap::from([
                ("inputs.pipelines".to_owned(), "**/*.dot".to_owned()),
                ("inputs.all".to_owned(), "false".to_owned()),
            ]),
            programs,
        };
        runner.write("flows/good.dot", tools(false));
        runner.write("flows/old.dot", "digraph old { start -> ");
        runner.git(&["init", "-q", "-b", "main"]);
        runner.commit();
        Some(runner)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        self.scratch.write(&format!("work/{name}"), text);
    }

    fn set(mut self, name: &str, value: &str) -> Runner {
        self.values.insert(name.to_owned(), value.to_owned());
        self
    }

    fn git(&self, args: &[&str]) -> String {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
            .args(args)
            .current_dir(self.scratch.path("work"));
        done(git.output().unwrap()).exits(0).stdout.trim().to_owned()
    }

    /// Commits all files. Returns the commit.
    fn commit(&self) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "change"]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Replaces the expressions in a text.
    fn expanded(&self, text: &str) -> String {
        let mut parts = text.split("${{");
        let mut expanded = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (expression, rest) = part.split_once("}}").expect("the end of an expression");
            let mut names = expression.split("||");
            let value = names.find_map(|name| self.values.get(name.trim()));
            expanded += value.map_or("", String::as_str);
            expanded += rest;
        }
        expanded
    }

    /// Runs a step as a runner does, and stores its outputs.
    fn step(&mut self, id: &str) -> Done {
        let steps = steps();
        let step = steps
            .iter()
            .find(|step| step.get("id").is_some_and(|own| own == id));
        let step = step.expect("a step");
        assert_eq!(step["shell"], "bash");
        assert!(
            !step["run"].contains("${{"),
            "an input is never a part of a script"
        );
        let script = self.scratch.path("temp/script.sh");
        std::fs::write(&script, &step["run"]).unwrap();
        let (output, path) = (self.scratch.path("temp/output"), self.scratch.path("temp/path"));
        std::fs::write(&output, "").unwrap();
        let mut shell = Command::new("bash");
        shell
            .args(["--noprofile", "--norc", "-e", "-o", "pipefail"])
            .arg(&script)
            .current_dir(self.scratch.path("temp"))
            .env(
                "PATH",
                format!("{}:{}", self.programs.display(), std::env::var("PATH").unwrap()),
            )
            .env("RUNNER_TEMP", self.scratch.path("temp"))
            .env("RUNNER_OS", "Linux")
            .env("RUNNER_ARCH", "X64")
            .env("GITHUB_WORKSPACE", self.scratch.path("work"))
            .env(
                "GITHUB_SERVER_URL",
                format!("file://{}", self.scratch.path("releases").display()),
            )
            .env("GITHUB_OUTPUT", &output)
            .env("GITHUB_PATH", &path)
            .env("GITHUB_STEP_SUMMARY", self.scratch.path("temp/summary"))
            .env_remove("NO_COLOR")
            .stdin(Stdio::null());
        for (key, value) in step {
            if let Some(variable) = key.strip_prefix("env/") {
                shell.env(variable, self.expanded(value));
            }
        }
        let ended = done(shell.output().unwrap());
        for line in std::fs::read_to_string(&output).unwrap().lines() {
            let (name, value) = line.split_once('=').expect("an output");
            self.values
                .insert(format!("steps.{id}.outputs.{name}"), value.to_owned());
        }
        ended
    }

    fn output(&self, name: &str) -> &str {
        self.values
            .get(&format!("steps.{name}"))
            .map_or("", String::as_str)
    }

    fn summary(&self) -> String {
        std::fs::read_to_string(self.scratch.path("temp/summary")).unwrap_or_default()
    }
}

#[test]
fn the_scripts_are_sound() {
    let scripts: Vec<String> = steps()
        .iter()
        .filter_map(|step| step.get("run").cloned())
        .collect();
    assert_eq!(scripts.len(), 3);
    if find("bash").is_none() {
        skip("there is no `bash`");
        return;
    }
    for script in scripts {
        let parsed = done(Command::new("bash").args(["-n", "-c", &script]).output().unwrap());
        assert_eq!(parsed.exits(0).stderr, "");
    }
}

#[test]
fn changed_pipelines_are_checked_and_their_faults_annotated() {
    let Some(runner) = Runner::new() else { return };
    let first = runner.git(&["rev-parse", "HEAD"]);
    runner.write(
        "flows/bad one.dot",
        "digraph bad {\n    start -> build\n    build [shape=parallelogram]\n}\n",
    );
    runner.write("notes.txt", "digraph");
    runner.commit();
    let mut runner = runner.set("github.event.before", &first);
    let checked = runner.step("check").exits(3);
    let annotations: Vec<&str> = checked
        .stdout
        .lines()
        .filter(|line| line.starts_with("::error"))
        .collect();
    assert!(!annotations.is_empty(), "{}", checked.stdout);
    for line in &annotations {
        assert!(line.starts_with("::error file=flows/bad one.dot,line="), "{line}");
    }
    assert_eq!(
        runner.output("check.outputs.checked"),
        "1",
        "the old fault is not of this change"
    );
    // The pipelines in a folder that the input names.
    let mut runner = runner.set("inputs.pipelines", "other/*.dot\n*.dot");
    let none = runner.step("check").exits(0);
    assert!(none.stdout.contains("no pipeline has changed"), "{}", none.stdout);
    let mut runner = runner.set("inputs.pipelines", "");
    runner.step("check").exits(1);
    // A request to merge names its base.
    runner.git(&["rm", "-q", "-f", "flows/bad one.dot", "flows/old.dot"]);
    let removed = runner.commit();
    let mut runner = runner
        .set("inputs.pipelines", "**/*.dot")
        .set("github.event.before", "")
        .set("github.event.pull_request.base.sha", &first);
    runner.values.remove("github.event.before");
    let none = runner.step("check").exits(0);
    assert!(none.stdout.contains("no pipeline has changed"), "{}", none.stdout);
    // What pipelines share has changed.
    runner.write("orchestra.yaml", "backend: simulation\n");
    runner.commit();
    let mut runner = runner.set("github.event.pull_request.base.sha", &removed);
    runner.step("check").exits(0);
    assert_eq!(runner.output("check.outputs.checked"), "1");
    // A new branch has no commit before it, and one that is not here cannot be compared.
    for (base, notice) in [("0".repeat(40), false), ("1".repeat(40), true)] {
        let mut again = runner.set("github.event.pull_request.base.sha", &base);
        let all = again.step("check").exits(0);
        assert_eq!(all.stdout.contains("::notice::"), notice, "{}", all.stdout);
        assert_eq!(again.output("check.outputs.checked"), "1");
        runner = again;
    }
}

#[test]
fn a_run_leaves_a_summary_and_a_picture() {
    let Some(runner) = Runner::new() else { return };
    runner.write(
        "flows/greet.dot",
        "digraph greet { inputs=\"who: text\"; start -> greet -> exit\n\
         greet [shape=parallelogram, tool_command=\"echo \\\"hello $WHO\\\" > greeting\", tool_env_from.WHO=who] }\n",
    );
    let mut runner = runner
        .set("inputs.run", "flows/greet.dot")
        .set("inputs.arguments", "--set\nwho=you; touch canary\n");
    runner.step("run").exits(0);
    assert_eq!(runner.scratch.read("work/greeting"), "hello you; touch canary\n");
    assert!(!runner.scratch.path("work/canary").exists() && !runner.scratch.path("temp/canary").exists());
    assert_eq!(runner.output("run.outputs.status"), "success");
    let summary = runner.summary();
    let run = runner.output("run.outputs.run");
    for part in [
        "## greet: success",
        "| greet | success |",
        &format!("| Run | `{run}` |"),
        "```mermaid",
    ] {
        assert!(summary.contains(part), "{part}: {summary}");
    }
    let folder = PathBuf::from(runner.output("run.outputs.folder"));
    let picture = std::fs::read_to_string(folder.join("run.svg")).expect("a picture");
    assert!(
        picture.starts_with("<svg") || picture.contains("<svg"),
        "{picture}"
    );
    assert!(folder.join("events.jsonl").is_file());
    // The last step uploads both.
    let upload = steps().pop().expect("a step");
    assert_eq!(upload["if"], "${{ !cancelled() && steps.run.outputs.run != '' }}");
    let paths = runner.expanded(&upload["with/path"]);
    assert!(paths.lines().all(|path| Path::new(path).is_file()), "{paths}");
}

#[test]
fn a_run_that_fails_fails_the_step_after_its_summary() {
    let Some(runner) = Runner::new() else { return };
    runner.write("flows/broken.dot", tools(true));
    let mut runner = runner.set("inputs.run", "flows/broken.dot");
    runner.step("run").exits(1);
    assert_eq!(runner.output("run.outputs.status"), "fail");
    let summary = runner.summary();
    for part in [
        "## tools: fail",
        "### Failed attempts",
        "```text\nexit code 3",
        "on the wall",
        "| second | failed |",
    ] {
        assert!(summary.contains(part), "{part}: {summary}");
    }
    // One that does not start has no folder of a run.
    let mut runner = runner.set("inputs.run", "flows/old.dot");
    runner.step("run").exits(3);
    assert!(runner.summary().contains("## The run did not start"));
}

/// Writes an archive as a release has it. Returns its folder.
fn release(runner: &Runner) -> PathBuf {
    let name = "orchestra-cli-x86_64-unknown-linux-musl";
    let folder = runner
        .scratch
        .path("releases/owner/orchestra/releases/download/v1.2.3");
    std::fs::create_dir_all(folder.join(name)).unwrap();
    // The archive of a debug build would take long.
    let program = folder.join(name).join("orchestra");
    std::fs::write(&program, "#!/bin/sh\necho orchestra 1.2.3\n").unwrap();
    assert!(
        Command::new("chmod")
            .arg("+x")
            .arg(&program)
            .status()
            .unwrap()
            .success()
    );
    let archive = format!("{name}.tar.gz");
    let packed = Command::new("tar")
        .args(["-czf", &archive, name])
        .current_dir(&folder)
        .status();
    assert!(packed.unwrap().success());
    let sum = done(
        Command::new("sha256sum")
            .arg(&archive)
            .current_dir(&folder)
            .output()
            .unwrap(),
    );
    std::fs::write(
        folder.join(format!("{archive}.sha256")),
        sum.stdout.replace("  ", " *"),
    )
    .unwrap();
    folder
}

#[test]
fn the_program_is_that_of_an_earlier_step_or_of_a_release() {
    let Some(mut runner) = Runner::new() else { return };
    let found = runner.step("install").exits(0);
    assert!(found.stdout.starts_with("orchestra "), "{}", found.stdout);
    std::fs::remove_file(runner.programs.join("orchestra")).unwrap();
    if find("orchestra").is_none() {
        let missing = runner.step("install").exits(1);
        assert!(
            missing.stdout.contains("::error::there is no program"),
            "{}",
            missing.stdout
        );
    }
    let folder = release(&runner);
    let mut runner = runner
        .set("inputs.version", "1.2.3")
        .set("github.action_repository", "owner/orchestra")
        .set("github.action_ref", "v9.9.9");
    let installed = runner.step("install").exits(0);
    assert!(installed.stdout.starts_with("orchestra "), "{}", installed.stdout);
    let path = runner.scratch.read("temp/path");
    assert!(Path::new(path.trim()).join("orchestra").is_file(), "{path}");
    // The archive is another one than the release says.
    let sum = folder.join("orchestra-cli-x86_64-unknown-linux-musl.tar.gz.sha256");
    std::fs::write(&sum, format!("{} *archive\n", "0".repeat(64))).unwrap();
    let refused = runner.step("install").exits(1);
    assert!(refused.stdout.contains("checksum"), "{}", refused.stdout);
}
