//! A scenario at work: its files in a folder of its own, its model on loopback, and the program to call there.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr
)]

mod program;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use orchestra_model_server_tests::{ModelServer, Script, Wire};
use serde_json::Value;

#[allow(unused_imports, reason = "only the test with a real provider needs it")]
pub use program::finish_within;
pub use program::{Done, Running, finish};

/// The most that a scenario waits for anything.
pub const PATIENCE: Duration = Duration::from_secs(40);

/// Files of a scenario that are no files of its project.
pub const OWN: [&str; 3] = ["scenario.rs", "model.yaml", "expected.txt"];

/// Where the folders of the scenarios are.
pub fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A scenario: a copy of its folder, and the model that its script plays.
pub struct Scenario {
    name: &'static str,
    folder: tempfile::TempDir,
    pub server: ModelServer,
    pub model: Arc<Script>,
}

impl Scenario {
    /// Copies the folder of a scenario and starts its model. `MODEL_SERVER` in its `orchestra.yaml` is the model's address.
    #[track_caller]
    pub fn open(name: &'static str) -> Scenario {
        let source = home().join(name);
        let read = |file: &str| std::fs::read_to_string(source.join(file));
        let rules = read("model.yaml").unwrap_or_else(|error| panic!("{name}/model.yaml: {error}"));
        let model =
            Arc::new(Script::parse(&rules).unwrap_or_else(|error| panic!("{name}/model.yaml: {error}")));
        let server = ModelServer::start();
        server.play(&model);
        let scenario = Scenario {
            name,
            folder: tempfile::tempdir().expect("a temporary folder"),
            server,
            model,
        };
        copy_project(name, scenario.folder.path());
        if let Ok(configuration) = read("orchestra.yaml") {
            let base = scenario.server.base(Wire::Anthropic);
            scenario.write("orchestra.yaml", configuration.replace("MODEL_SERVER", &base));
        }
        scenario
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[track_caller]
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// A command of the program in this folder, with keys of the model.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(self.folder.path(), arguments);
        command
            .env("ANTHROPIC_API_KEY", "key-of-the-scenarios-0123456789")
            .env("OPENROUTER_API_KEY", "key-of-the-scenarios-9876543210");
        command
    }

    /// Calls the program.
    #[track_caller]
    pub fn call(&self, arguments: &[&str]) -> Done {
        finish(self.command(arguments), None)
    }

    /// Calls the program with lines of standard input from a pipe.
    #[track_caller]
    pub fn call_with(&self, arguments: &[&str], input: &str) -> Done {
        finish(self.command(arguments), Some(input))
    }

    /// Starts the program with `--json`, and goes on while it runs.
    pub fn start(&self, arguments: &[&str]) -> Running {
        Running::start(self.command(arguments))
    }

    /// Asserts that a run printed what `expected.txt` holds, that a rule fitted every request of the model, and that every
    /// rule was needed.
    #[track_caller]
    pub fn ends_as_expected(&self, done: &Done) {
        let expected = std::fs::read_to_string(home().join(self.name).join("expected.txt")).unwrap();
        assert_eq!(
            done.stdout,
            expected,
            "{}\nthe model: {:#?}",
            done.stderr,
            self.model.played()
        );
        self.model_was_understood();
    }

    /// Asserts that a rule fitted every request of the model, and that every rule was needed.
    #[track_caller]
    pub fn model_was_understood(&self) {
        let unmatched = self.model.unmatched();
        assert!(unmatched.is_empty(), "requests that no rule fits: {unmatched:#?}");
        let unused = self.model.unused();
        assert!(
            unused.is_empty(),
            "rules that answered nothing: {unused:?}, played: {:?}",
            self.model.played()
        );
    }

    /// What `status --json` says of the latest run.
    #[track_caller]
    pub fn status(&self) -> Value {
        let done = self.call(&["status", "last", "--json"]).exits(0);
        serde_json::from_str(done.stdout.lines().next().unwrap()).unwrap()
    }

    /// A file in the folder of the latest run.
    #[track_caller]
    pub fn run_file(&self, name: &str) -> String {
        let run = self.latest_run();
        self.read(&format!(".orchestra/runs/{run}/{name}"))
    }

    /// The id of the latest run.
    #[track_caller]
    pub fn latest_run(&self) -> String {
        let mut runs = self.runs();
        assert!(!runs.is_empty(), "there is no run");
        runs.remove(0)
    }

    /// The ids of the runs, the latest first.
    #[track_caller]
    pub fn runs(&self) -> Vec<String> {
        let listed = self.call(&["status", "--json"]).exits(0).objects();
        let id = |session: &Value| session["run"].as_str().unwrap().to_owned();
        listed.iter().map(id).collect()
    }

    /// Waits until something is so.
    #[track_caller]
    pub fn until(&self, what: &str, is: impl Fn(&Scenario) -> bool) {
        let begun = Instant::now();
        while !is(self) {
            assert!(begun.elapsed() < PATIENCE, "it never came to it: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// How many requests of the model a rule has answered.
    pub fn played(&self, rule: &str) -> usize {
        let played = self.model.played();
        played.iter().filter(|name| *name == rule).count()
    }

    /// What git says in a repository of the scenario.
    #[track_caller]
    pub fn git(&self, repository: &str, words: &[&str]) -> String {
        git(&self.path(repository), words)
    }

    /// Makes a folder of the scenario a repository with one commit of all that is in it.
    #[track_caller]
    pub fn commit_all(&self, repository: &str) {
        commit_all(&self.path(repository));
    }
}

/// A scenario that failed shows what its model was sent in vain: most often a text did not reach it.
impl Drop for Scenario {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for request in self.model.unmatched() {
                eprintln!(
                    "a request that no rule fits, {} bytes:\n{request}\n",
                    request.len()
                );
            }
        }
    }
}

/// A command of the program in a folder, with nobody's own configuration.
pub fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orchestra-scenario-program"));
    command
        // The commands that it prints are those of `orchestra`.
        .arg0("orchestra")
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .env("HOME", folder.join("home"))
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE");
    command
}

/// What git says in a folder.
#[track_caller]
fn git(folder: &Path, words: &[&str]) -> String {
    let said = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["-c", "user.name=me", "-c", "user.email=me@localhost"])
        .args(words)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8(said.stdout).unwrap()
}

/// Makes a folder a repository with one commit of all that is in it.
#[track_caller]
pub fn commit_all(folder: &Path) {
    git(folder, &["init", "-q", "-b", "main"]);
    git(folder, &["add", "-A"]);
    git(folder, &["commit", "-q", "-m", "First version"]);
}

/// Copies the project of a scenario into a folder.
pub fn copy_project(name: &str, to: &Path) {
    copy(&home().join(name), to);
    for own in OWN {
        let _ = std::fs::remove_file(to.join(own));
    }
}

/// Copies what is in a folder.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
