//! A shell that runs the commands of a page.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// What ends the output of each command.
const MARK: &str = "\u{1e}orchestra-book-end ";

/// How long a command of a page may take.
const LIMIT: Duration = Duration::from_secs(120);

/// How a command ended.
///
/// ```
/// use orchestra_book_tests::Shell;
/// let folder = tempfile::tempdir().unwrap();
/// let mut shell = Shell::start(folder.path(), &[]).unwrap();
/// let ended = shell.run("echo out; echo err >&2; exit_code() { return 3; }; exit_code").unwrap();
/// assert_eq!((ended.code, ended.output.as_str(), ended.errors.as_str()), (3, "out\n", "err\n"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The exit code.
    pub code: i32,
    /// The text on standard output.
    pub output: String,
    /// The text on standard error.
    pub errors: String,
}

/// A shell whose folder, variables and functions stay from one command to the next. Processes that a command leaves in
/// the background end with it.
///
/// ```
/// use orchestra_book_tests::Shell;
/// let folder = tempfile::tempdir().unwrap();
/// let mut shell = Shell::start(folder.path(), &[]).unwrap();
/// shell.run("NAME=Ada").unwrap();
/// assert_eq!(shell.run("echo $NAME").unwrap().output, "Ada\n");
/// ```
#[derive(Debug)]
pub struct Shell {
    child: Child,
    commands: ChildStdin,
    output: Stream,
    errors: Stream,
}

impl Shell {
    /// Starts a shell in a folder, with only these variables.
    ///
    /// # Errors
    /// Fails if the shell cannot be started.
    pub fn start(folder: &Path, variables: &[(OsString, OsString)]) -> Result<Shell, String> {
        let mut child = Command::new("sh")
            .current_dir(folder)
            .env_clear()
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("cannot start `sh`: {error}"))?;
        match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
            (Some(commands), Some(output), Some(errors)) => Ok(Shell {
                child,
                commands,
                output: Stream::new(output),
                errors: Stream::new(errors),
            }),
            _ => Err("the shell has no pipes".to_owned()),
        }
    }

    /// Runs a command.
    ///
    /// # Errors
    /// Fails if the command takes more than two minutes, or ends the shell.
    pub fn run(&mut self, command: &str) -> Result<Ended, String> {
        let script = format!(
            "{{ {command}\n}} </dev/null\nset -- $?\nprintf '\\n{MARK}%s\\n' $1\nprintf '\\n{MARK}%s\\n' $1 >&2\n"
        );
        self.commands
            .write_all(script.as_bytes())
            .map_err(|error| format!("the shell has ended: {error}"))?;
        let deadline = Instant::now() + LIMIT;
        let (output, code) = self.output.until_mark(deadline)?;
        let (errors, _) = self.errors.until_mark(deadline)?;
        Ok(Ended { code, output, errors })
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.child.wait();
    }
}

/// An output of the shell, read on a thread of its own.
#[derive(Debug)]
struct Stream {
    pieces: Receiver<Vec<u8>>,
    text: Vec<u8>,
}

impl Stream {
    fn new(mut from: impl Read + Send + 'static) -> Stream {
        let (sender, pieces) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                let piece = buffer.get(..length).unwrap_or_default();
                if sender.send(piece.to_vec()).is_err() {
                    return;
                }
            }
        });
        Stream {
            pieces,
            text: Vec::new(),
        }
    }

    /// Returns the text before the next mark, and the exit code in the mark.
    fn until_mark(&mut self, deadline: Instant) -> Result<(String, i32), String> {
        loop {
            let text = String::from_utf8_lossy(&self.text).into_owned();
            if let Some((before, after)) = text.split_once(&format!("\n{MARK}"))
                && let Some((code, rest)) = after.split_once('\n')
            {
                let code = code.parse().map_err(|_| format!("no exit code: `{code}`"))?;
                let result = (before.to_owned(), code);
                self.text = rest.as_bytes().to_vec();
                return Ok(result);
            }
            match self
                .pieces
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(piece) => self.text.extend(piece),
                Err(RecvTimeoutError::Timeout) => {
                    let limit = LIMIT.as_secs();
                    return Err(format!(
                        "the command takes more than {limit} s; so far it wrote:\n{text}"
                    ));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("the command ended the shell; it wrote:\n{text}"));
                }
            }
        }
    }
}
