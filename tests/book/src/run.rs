//! Runs the fences of a page.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use orchestra_model_server_tests::{Answer, ModelServer, Wire};
use tempfile::TempDir;

use crate::{Fence, Page, Shell, matches, yaml};

/// The folder with the program `orchestra`.
///
/// ```
/// use orchestra_book_tests::{Page, Programs, run};
/// let programs = Programs::with("/bin/true").unwrap();
/// let page = Page::new("page.md", "```console\n$ echo Hello\nGood bye\n```\n");
/// assert!(run(&page, &programs)[0].contains("page.md:2: `echo Hello` writes"));
/// ```
#[derive(Debug)]
pub struct Programs {
    folder: TempDir,
}

impl Programs {
    /// Creates a folder in which a program is named `orchestra`.
    ///
    /// # Errors
    /// Fails if the folder or the link in it cannot be created.
    pub fn with(program: impl AsRef<Path>) -> std::io::Result<Programs> {
        let folder = tempfile::tempdir()?;
        std::os::unix::fs::symlink(program, folder.path().join("orchestra"))?;
        Ok(Programs { folder })
    }

    /// Returns whether this machine has a program.
    fn has(&self, program: &str) -> bool {
        std::env::split_paths(&self.path()).any(|folder| folder.join(program).is_file())
    }

    fn path(&self) -> OsString {
        let mut path = self.folder.path().as_os_str().to_owned();
        if let Some(rest) = std::env::var_os("PATH") {
            path.push(":");
            path.push(rest);
        }
        path
    }
}

/// Runs the fences of a page in a new folder, in their order. Returns the problems that it finds, each with its position.
/// Fences in Rust are left to [`doctests`](../src/doctests.rs).
///
/// ```
/// use orchestra_book_tests::{Page, Programs, run};
/// let programs = Programs::with("/bin/true").unwrap();
/// let page = Page::new("page.md", "Save this as `a`:\n\n```text,file=a\nText.\n```\n\n```console\n$ cat a\nText.\n```\n");
/// assert!(run(&page, &programs).is_empty());
/// ```
pub fn run(page: &Page, programs: &Programs) -> Vec<String> {
    let fences = match Fence::all(page) {
        Ok(fences) => fences,
        Err(problems) => return problems,
    };
    let mut runner = match Runner::start(programs) {
        Ok(runner) => runner,
        Err(problem) => return vec![format!("{}: {problem}", page.name)],
    };
    let mut problems = Vec::new();
    for fence in &fences {
        if let Some(program) = fence.value("needs").filter(|program| !programs.has(program)) {
            let position = page.position(fence.line);
            orchestra_installed_tests::skip_test(
                &position,
                &format!("the program `{program}` is not installed"),
            );
            break;
        }
        if let Err(found) = runner.fence(page, fence) {
            problems.push(found);
            // Later commands need what this one did not do.
            if fence.language == "console" {
                break;
            }
        }
    }
    problems
}

struct Runner {
    // Ends before its folder is removed.
    shell: Shell,
    folder: TempDir,
    variables: Vec<(OsString, OsString)>,
    model: Option<ModelServer>,
}

impl Runner {
    fn start(programs: &Programs) -> Result<Runner, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let home = folder.path().join("home");
        let project = folder.path().join("project");
        for folder in [&home, &project] {
            std::fs::create_dir(folder).map_err(|error| error.to_string())?;
        }
        let mut variables: Vec<(OsString, OsString)> = vec![
            ("PATH".into(), programs.path()),
            ("HOME".into(), home.into()),
            ("LANG".into(), "C.UTF-8".into()),
            ("TERM".into(), "dumb".into()),
            ("ANTHROPIC_API_KEY".into(), "a-key-of-the-test".into()),
        ];
        for role in ["AUTHOR", "COMMITTER"] {
            variables.push((format!("GIT_{role}_NAME").into(), "Reader".into()));
            variables.push((format!("GIT_{role}_EMAIL").into(), "reader@example.org".into()));
        }
        Ok(Runner {
            shell: Shell::start(&project, &variables)?,
            folder,
            variables,
            model: None,
        })
    }

    /// Returns the path of a file of the page.
    fn path(&self, name: &str) -> PathBuf {
        match name.strip_prefix("~/") {
            Some(name) => self.folder.path().join("home").join(name),
            None => self.folder.path().join("project").join(name),
        }
    }

    fn fence(&mut self, page: &Page, fence: &Fence) -> Result<(), String> {
        let position = page.position(fence.line);
        let problem = |text: String| format!("{position}: {text}");
        let file = fence.value("file");
        if let Some(name) = file {
            if !names(page, fence, name) {
                return Err(problem(format!(
                    "a reader cannot see `file=`: name `{name}` in the text before the fence"
                )));
            }
            let text = self.text(fence);
            self.write(name, &text).map_err(problem)?;
        }
        if fence.has("ignore") {
            return Ok(());
        }
        match fence.language.as_str() {
            "console" => self.console(page, fence),
            "dot" => self.check(fence).map_err(problem),
            "json" => json(&fence.text).map_err(problem),
            "yaml" if fence.has("script") => yaml::script(&fence.text).map_err(problem),
            "yaml" if fence.has("layer") => self.layer(file).map_err(problem),
            "yaml" => yaml::configuration(&fence.text).map_err(problem),
            _ => Ok(()),
        }
    }

    /// Returns the text of a file. With the word `model`, the providers of a configuration are a server on loopback.
    fn text(&mut self, fence: &Fence) -> String {
        if !fence.has("model") {
            return fence.text.clone();
        }
        let server = self.model.get_or_insert_with(|| {
            let server = ModelServer::start();
            server.respond_with(|_| Answer::text("Three lines about the notes.").tokens(1200, 40));
            server
        });
        let base = server.base(Wire::Anthropic);
        fence
            .text
            .replace("  anthropic:\n", &format!("  anthropic:\n    api_base: {base}\n"))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let path = self.path(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| format!("{name}: {error}"))?;
        }
        std::fs::write(path, text).map_err(|error| format!("{name}: {error}"))
    }

    fn layer(&self, file: Option<&str>) -> Result<(), String> {
        let file = file.ok_or("`layer` needs `file=`, whose folder says what it is")?;
        let pipeline = yaml::user_of(file)?;
        self.write("uses-a-layer.dot", &pipeline)?;
        self.checked("uses-a-layer.dot", None)
    }

    fn check(&self, fence: &Fence) -> Result<(), String> {
        let name = match fence.value("file") {
            Some(name) => name.to_owned(),
            None => {
                let name = format!("fence-{}.dot", fence.line);
                self.write(&name, &fence.text)?;
                name
            }
        };
        self.checked(&name, fence.value("bad"))
    }

    /// Checks a pipeline with the program.
    fn checked(&self, name: &str, bad: Option<&str>) -> Result<(), String> {
        let output = Command::new("orchestra")
            .args(["check", name])
            .current_dir(self.folder.path().join("project"))
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .output()
            .map_err(|error| format!("cannot start `orchestra`: {error}"))?;
        let reported = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        match bad {
            Some(code) if !reported.contains(&format!("[{code}]")) => Err(format!(
                "`orchestra check` does not report `{code}`, but:\n{reported}"
            )),
            None if !output.status.success() || reported.contains("warning[") => {
                Err(format!("`orchestra check` reports:\n{reported}"))
            }
            _ => Ok(()),
        }
    }

    fn console(&mut self, page: &Page, fence: &Fence) -> Result<(), String> {
        let calls = calls(fence).map_err(|problem| format!("{}: {problem}", page.position(fence.line)))?;
        let last = calls.len().saturating_sub(1);
        let exit = fence.value("exit").unwrap_or("0");
        for (at, call) in calls.iter().enumerate() {
            let position = page.position(fence.line + 1 + call.line);
            let command = &call.command;
            let ended = self
                .shell
                .run(command)
                .map_err(|problem| format!("{position}: `{command}`: {problem}"))?;
            let text = || format!("{}{}", ended.output, ended.errors);
            let code = if at == last { exit } else { "0" };
            if ended.code.to_string() != code {
                let actual = ended.code;
                let text = text();
                return Err(format!(
                    "{position}: `{command}` exits with {actual} instead of {code}; it wrote:\n{text}"
                ));
            }
            if !call.expected.is_empty() && !matches(&call.expected, &ended.output, &ended.errors) {
                let text = text();
                return Err(format!(
                    "{position}: `{command}` writes something else than the page shows:\n{text}"
                ));
            }
        }
        Ok(())
    }
}

/// Returns whether the text before a fence, or its first line, names its file. A reader does not see the info string.
fn names(page: &Page, fence: &Fence, file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    let before = page.lines.get(..fence.line.saturating_sub(1)).unwrap_or_default();
    before.iter().any(|line| line.contains(name))
        || fence.text.lines().next().is_some_and(|line| line.contains(name))
}

/// A command of a fence and the output that the page shows.
struct Call<'a> {
    /// The number of the line in the fence, from 0.
    line: usize,
    command: String,
    expected: Vec<&'a str>,
}

fn calls(fence: &Fence) -> Result<Vec<Call<'_>>, String> {
    let mut calls: Vec<Call<'_>> = Vec::new();
    for (line, text) in fence.text.lines().enumerate() {
        match (text.strip_prefix("$ "), calls.last_mut()) {
            (Some(command), _) => calls.push(Call {
                line,
                command: command.to_owned(),
                expected: Vec::new(),
            }),
            (None, None) => return Err("`console` begins with a command: `$ COMMAND`".to_owned()),
            (None, Some(call)) => match text.strip_prefix("> ") {
                Some(more) if call.expected.is_empty() => {
                    call.command.push('\n');
                    call.command.push_str(more);
                }
                _ => call.expected.push(text),
            },
        }
    }
    if calls.is_empty() {
        return Err("`console` has no command: `$ COMMAND`".to_owned());
    }
    Ok(calls)
}

/// Returns an error unless a text or each line of it is JSON.
fn json(text: &str) -> Result<(), String> {
    let whole = match serde_json::from_str::<serde_json::Value>(text) {
        Ok(_) => return Ok(()),
        Err(error) => error,
    };
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    let values = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
    if lines().count() > 1 && values.into_iter().all(|value| value.is_ok()) {
        return Ok(());
    }
    Err(format!("not JSON: {whole}"))
}
