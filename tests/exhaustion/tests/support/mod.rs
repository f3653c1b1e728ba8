//! A project under a limit, and the program called there.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

pub(crate) mod limit;
pub(crate) mod table;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use orchestra_crash_tests::compare::readable;
use orchestra_crash_tests::processes::survivors;
use orchestra_engine::RunFolder;
use serde_json::Value;

use limit::{Kind, Limit};

/// How long a call may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The name of the run.
pub(crate) const RUN: &str = "r";

/// Tools in a repository, a model and a gate.
const FULL: &str = r#"digraph full {
    start -> make -> ask -> gate -> last -> exit
    make [shape=parallelogram, tool_command="echo make >> $LIMIT_LOG; echo made > made.txt"]
    ask  [backend=direct, prompt="Say something."]
    gate [shape=hexagon, label="Go on?"]
    last [shape=parallelogram, tool_command="echo last >> $LIMIT_LOG; echo last > last.txt"]
    gate -> last [label="[Y] Yes"]
}
"#;

/// A gate alone: a run that pauses at once, and writes its checkpoint.
const GATE: &str = r#"digraph gate {
    start -> gate -> exit
    gate [shape=hexagon, label="Go on?"]
    gate -> exit [label="[Y] Yes"]
}
"#;

/// What the program is asked to do under the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// To run the whole pipeline.
    Run,
    /// To run to a gate, and pause.
    Pause,
    /// To go on with a run that paused at the gate.
    Resume,
    /// To answer the gate of a run that waits.
    Answer,
}

pub(crate) const CALLS: [Call; 4] = [Call::Run, Call::Pause, Call::Resume, Call::Answer];

/// What a call did.
pub(crate) struct Done {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Done {
    /// The objects on standard output.
    pub(crate) fn objects(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// The last object: the result, or the error.
    pub(crate) fn last(&self) -> Value {
        self.objects().pop().unwrap_or_default()
    }
}

/// A folder with the pipelines, a repository and a configuration.
pub(crate) struct Project {
    pub(crate) folder: PathBuf,
    pub(crate) kind: Kind,
    /// What holds the disk of a limited size, where that is the limit.
    disk: Option<limit::Disk>,
    program: PathBuf,
}

/// Makes the project that others are copied from.
pub(crate) fn template(folder: &Path, model: &str) {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("full.dot", FULL);
    write("gate.dot", GATE);
    write("app/readme.txt", "An application.\n");
    let provider = format!(
        "providers:\n  anthropic:\n    api_base: {model}\n    models: {{smart: claude-sonnet-4-5}}\n"
    );
    write(
        "orchestra.yaml",
        &format!("{provider}workspace:\n  repos:\n    app: {{path: app}}\n"),
    );
    // Without a repository, so that the checkpoint is what needs most.
    write("plain/gate.dot", GATE);
    write("plain/orchestra.yaml", &provider);
    for words in [
        &["init", "-q", "-b", "main"][..],
        &["add", "-A"],
        &["commit", "-q", "-m", "First version"],
    ] {
        let mut git = Command::new("git");
        git.arg("-C")
            .arg(folder.join("app"))
            .args(["-c", "user.name=me", "-c", "user.email=me@localhost"]);
        plain(&mut git);
        assert!(git.args(words).status().unwrap().success());
    }
}

fn plain(command: &mut Command) -> &mut Command {
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
}

impl Project {
    /// Copies the template into a folder, which belongs to whoever runs under the limit; `extra` are the bytes that a disk
    /// of a limited size has beyond those of the copy.
    pub(crate) fn copy(template: &Path, folder: PathBuf, program: &Path, limit: Limit) -> Project {
        std::fs::create_dir_all(&folder).unwrap();
        let disk = (limit.kind == Kind::Disk).then(|| limit::Disk::mount(&folder));
        let at = disk
            .as_ref()
            .map_or(folder.clone(), |disk| disk.seen_from_here(&folder));
        let copied = Command::new("cp")
            .arg("-a")
            .arg(template.join("."))
            .arg(&at)
            .status();
        assert!(copied.unwrap().success());
        if let Some(user) = limit.kind.user() {
            let owner = format!("{user}:{user}");
            let owned = Command::new("chown").args(["-R", &owner]).arg(&folder).status();
            assert!(owned.unwrap().success());
        }
        Project {
            folder,
            kind: limit.kind,
            disk,
            program: program.to_owned(),
        }
    }

    /// A path of the project as this process sees it.
    pub(crate) fn seen(&self, name: &str) -> PathBuf {
        let folder = match &self.disk {
            Some(disk) => disk.seen_from_here(&self.folder),
            None => self.folder.clone(),
        };
        folder.join(name)
    }

    fn at(&self, call: Call) -> PathBuf {
        match call {
            Call::Pause | Call::Answer => self.folder.join("plain"),
            _ => self.folder.clone(),
        }
    }

    /// A call of the program, under the limit where one is given.
    fn command(&self, call: Call, arguments: &[&str], limit: Option<Limit>) -> Command {
        let folder = self.at(call);
        let mut words: Vec<String> = Vec::new();
        if let Some(disk) = &self.disk {
            words.extend(disk.enter(&folder));
            if let Some(limit) = limit {
                disk.resize(limit.value);
            } else {
                disk.grow();
            }
        }
        words.extend(self.kind.wrap(limit.map(|limit| limit.value)));
        words.push(self.program.to_string_lossy().into_owned());
        words.extend(arguments.iter().map(|word| (*word).to_owned()));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        if self.disk.is_none() {
            command.current_dir(&folder);
        }
        plain(&mut command)
            .stdin(Stdio::null())
            .env("HOME", self.folder.join("home"))
            .env("TMPDIR", "/tmp")
            .env("ORCHESTRA_DUMPABLE", "1")
            .env("ANTHROPIC_API_KEY", "key-of-the-limits-0123456789")
            .env("LIMIT_LOG", self.folder.join("limit.log"))
            .env("LIMIT_PROJECT", self.mark());
        command
    }

    fn mark(&self) -> String {
        self.folder.to_string_lossy().into_owned()
    }

    /// Calls the program, and waits for its end.
    pub(crate) fn call(&self, call: Call, arguments: &[&str], limit: Option<Limit>) -> Done {
        let child = self.start(call, arguments, limit);
        self.wait(child)
    }

    pub(crate) fn start(&self, call: Call, arguments: &[&str], limit: Option<Limit>) -> Child {
        let mut command = self.command(call, arguments, limit);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Waits for the end of a process, which must come in time.
    pub(crate) fn wait(&self, child: Child) -> Done {
        let pid = child.id().to_string();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(child.wait_with_output()));
        let output = receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            let _ = Command::new("kill").args(["-KILL", &pid]).status();
            panic!(
                "{}: the program did not end within {PATIENCE:?}",
                self.folder.display()
            )
        });
        let output = output.unwrap();
        Done {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The run folder as this process sees it.
    pub(crate) fn run_folder(&self, call: Call) -> PathBuf {
        let runs = Path::new(".orchestra/runs").join(RUN);
        match call {
            Call::Pause | Call::Answer => self.seen("plain").join(runs),
            _ => self.seen("").join(runs),
        }
    }

    /// Without the limit: the files can be read, nothing of it is left running, and the run comes to its end.
    ///
    /// # Errors
    /// What does not hold.
    pub(crate) fn recovers(&self, call: Call) -> Result<(), String> {
        let left = survivors(
            &self.folder,
            &format!("LIMIT_PROJECT={}", self.mark()),
            Duration::from_secs(20),
        );
        if !left.is_empty() {
            return Err(format!("processes are left: {left:?}"));
        }
        let folder = self.run_folder(call);
        if RunFolder::is_one(&folder) {
            readable(&folder, &[])?;
            let reported = self.call(call, &["status", RUN, "--json"], None);
            if !reported.status.success() {
                return Err(format!("`status` fails: {}", reported.stderr));
            }
        } else {
            let _ = std::fs::remove_dir_all(&folder);
        }
        // A run that failed is retried, one that stopped is resumed; a stage may have failed once more than once.
        let mut last = String::new();
        for _ in 0..4 {
            let status = RunFolder::open(&folder)
                .ok()
                .and_then(|run| run.checkpoint().ok().flatten())
                .map(|checkpoint| checkpoint.status);
            let arguments: &[&str] = match status.as_deref() {
                Some("success") => return self.ended(call),
                Some("fail") => &["resume", RUN, "--retry", "--answer", "gate=Y", "--json"],
                _ if RunFolder::is_one(&folder) => &["resume", RUN, "--answer", "gate=Y", "--json"],
                _ => &[
                    "run",
                    self.pipeline(call),
                    "--run-dir",
                    ".orchestra/runs/r",
                    "--answer",
                    "gate=Y",
                    "--json",
                ],
            };
            let done = self.call(call, arguments, None);
            last = format!("{arguments:?}: {}: {}", done.status, done.stderr);
        }
        Err(format!("the run does not come to its end: {last}"))
    }

    pub(crate) fn pipeline(&self, call: Call) -> &'static str {
        match call {
            Call::Pause | Call::Answer => "gate.dot",
            _ => "full.dot",
        }
    }

    /// The end is that of a run without any limit.
    fn ended(&self, call: Call) -> Result<(), String> {
        let run = RunFolder::open(self.run_folder(call)).map_err(|error| error.to_string())?;
        let checkpoint = run.checkpoint().map_err(|error| error.to_string())?;
        let written = serde_json::to_value(&checkpoint).map_err(|error| error.to_string())?;
        let expected: &[&str] = match call {
            Call::Pause | Call::Answer => &["start", "gate", "exit"],
            _ => &["start", "make", "ask", "gate", "last", "exit"],
        };
        let nodes = written["completed_nodes"].as_array().cloned().unwrap_or_default();
        let mut path: Vec<&str> = nodes.iter().filter_map(Value::as_str).collect();
        // A stage that failed for the limit was retried.
        path.dedup();
        if path != expected {
            return Err(format!("it ended by {}", written["completed_nodes"]));
        }
        if matches!(call, Call::Pause | Call::Answer) {
            return Ok(());
        }
        let git = |words: &[&str]| {
            let app = self.folder.join("app");
            let around = match &self.disk {
                Some(disk) => disk.enter(&app),
                None => vec!["env".to_owned()],
            };
            let mut git = Command::new(&around[0]);
            git.args(&around[1..]).arg("git").arg("-C").arg(&app).args(words);
            // It may belong to another user.
            git.env("GIT_CONFIG_COUNT", "1");
            git.env("GIT_CONFIG_KEY_0", "safe.directory")
                .env("GIT_CONFIG_VALUE_0", "*");
            let said = plain(&mut git).output().map_err(|error| error.to_string())?;
            Ok::<String, String>(String::from_utf8_lossy(&said.stdout).into_owned())
        };
        let branch = git(&["for-each-ref", "--format=%(refname)", "refs/heads/orchestra"])?;
        let files = git(&["ls-tree", "--name-only", branch.trim()])?;
        if files != "last.txt\nmade.txt\nreadme.txt\n" {
            return Err(format!("the branch {branch} has {files:?}"));
        }
        // A stage that had succeeded is not executed again: each tool once, and once more where it failed itself.
        let log = std::fs::read_to_string(self.seen("limit.log")).unwrap_or_default();
        for tool in ["make", "last"] {
            let count = log.lines().filter(|line| *line == tool).count();
            if !(1..=2).contains(&count) {
                return Err(format!("`{tool}` was executed {count} times"));
            }
        }
        Ok(())
    }
}

/// What does not hold of the failure of a call.
pub(crate) fn untyped(kind: Kind, done: &Done) -> Option<String> {
    let reported = format!("{}: {}\n{}", done.status, done.stderr, done.last());
    if done.stderr.contains("panicked at") {
        return Some(format!("it panicked: {reported}"));
    }
    if limit::inevitable(kind, done).is_some() {
        return None;
    }
    let Some(code) = done.status.code() else {
        return Some(format!("signal {:?}: {reported}", done.status.signal()));
    };
    // A run that cannot begin in its repositories is refused with 3.
    if ![1, 3].contains(&code) {
        return Some(format!("exit code {code}: {reported}"));
    }
    let last = done.last();
    let typed = last["code"].is_string() || last["failure"].is_object();
    // Where not even the object could be written, the message must be there.
    if !typed && !done.stderr.contains("error[") {
        return Some(format!("no code: {reported}"));
    }
    // The process that was asked has failed meanwhile, and its limit is not known to the one that asked.
    if last["code"] == "control_unclear" {
        return None;
    }
    // Git does not always say why it cannot write.
    if kind == Kind::Disk && reported.contains("couldn't write '") {
        return None;
    }
    let names = kind.names();
    if !names.iter().any(|name| reported.contains(name)) {
        return Some(format!("the limit ({names:?}) is not named: {reported}"));
    }
    None
}

/// Waits until something is so.
pub(crate) fn until(is: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !is() {
        if begun.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Lets everybody into a folder, since a limit may hold for another user.
pub(crate) fn open_to_all(folder: &Path) {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Copies a program. A child process does it: a program that this process has open for writing cannot be started, and
/// children that other threads start at that moment inherit the open file.
pub(crate) fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let copied = Command::new("cp").arg(from.as_ref()).arg(to.as_ref()).status();
    assert!(copied.unwrap().success());
}
