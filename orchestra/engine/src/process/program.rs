//! The description of a program to start.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{PipeReader, PipeWriter};
use std::path::{Path, PathBuf};

/// A program to start, with exactly these arguments and variables. Its output and its error output are pipes.
///
/// ```
/// use orchestra_engine::process::Program;
///
/// let mut program = Program::new("git");
/// program.arg("--version").env("LC_ALL", "C");
/// ```
pub struct Program {
    pub(super) path: OsString,
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: BTreeMap<OsString, OsString>,
    pub(super) directory: Option<PathBuf>,
    pub(super) input: Input,
}

/// The standard input of a program.
///
/// ```
/// use std::fs::File;
/// use orchestra_engine::process::{Input, Program};
///
/// let mut program = Program::new("git");
/// program.arg("apply").input(Input::File(File::open("Cargo.toml")?));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Default)]
pub enum Input {
    /// An empty input.
    #[default]
    Empty,
    /// A pipe, which [`ContainedProgram::start`](super::ContainedProgram::start) returns.
    Pipe,
    /// An open file.
    File(File),
}

/// The pipes of a program that was started.
///
/// ```
/// use std::io::{Read as _, Write as _};
/// use orchestra_engine::process::{ContainedProgram, Input, Pipes, Program};
///
/// let mut sort = Program::new("sort");
/// sort.input(Input::Pipe);
/// let (program, pipes) = ContainedProgram::start(sort, None)?;
/// let Pipes { stdin, mut stdout, .. } = pipes;
/// if let Some(mut stdin) = stdin {
///     stdin.write_all(b"pear\napple\n")?;
/// }
/// let mut sorted = String::new();
/// stdout.read_to_string(&mut sorted)?;
/// program.wait(false)?;
/// assert_eq!(sorted, "apple\npear\n");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Pipes {
    /// The pipe to its standard input, if that is a [`Input::Pipe`].
    pub stdin: Option<PipeWriter>,
    /// The pipe from its standard output.
    pub stdout: PipeReader,
    /// The pipe from its standard error.
    pub stderr: PipeReader,
}

#[cfg(not(target_os = "linux"))]
impl Pipes {
    /// Takes the pipes of a child that was started by [`Program::to_std`].
    pub(super) fn of(child: &mut std::process::Child) -> std::io::Result<Pipes> {
        #[cfg(unix)]
        type Descriptor = std::os::fd::OwnedFd;
        #[cfg(windows)]
        type Descriptor = std::os::windows::io::OwnedHandle;
        let missing = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        Ok(Pipes {
            stdin: stdin.map(|pipe| Descriptor::from(pipe).into()),
            stdout: Descriptor::from(stdout.ok_or_else(missing)?).into(),
            stderr: Descriptor::from(stderr.ok_or_else(missing)?).into(),
        })
    }
}

impl Program {
    /// Describes a program with the variables of a tool. A name without a slash is searched for in `PATH`.
    pub fn new(path: impl Into<OsString>) -> Program {
        let variables = std::env::vars_os();
        Program::with_variables(
            path,
            variables.filter(|(name, _)| super::variables::is_inherited(name, false)),
        )
    }

    pub(super) fn with_variables(
        path: impl Into<OsString>,
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> Program {
        Program {
            path: path.into(),
            arguments: Vec::new(),
            environment: variables.collect(),
            directory: None,
            input: Input::Empty,
        }
    }

    /// Adds an argument.
    pub fn arg(&mut self, argument: impl AsRef<OsStr>) -> &mut Program {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args(&mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Program {
        for argument in arguments {
            self.arg(argument);
        }
        self
    }

    /// Sets a variable.
    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Program {
        self.environment
            .insert(name.as_ref().to_owned(), value.as_ref().to_owned());
        self
    }

    /// Removes a variable.
    pub fn env_remove(&mut self, name: impl AsRef<OsStr>) -> &mut Program {
        self.environment.remove(name.as_ref());
        self
    }

    /// Sets the working directory. The default is that of this process.
    pub fn directory(&mut self, path: impl AsRef<Path>) -> &mut Program {
        self.directory = Some(path.as_ref().to_owned());
        self
    }

    /// Sets the standard input. The default is empty.
    pub fn input(&mut self, input: Input) -> &mut Program {
        self.input = input;
        self
    }

    /// Returns the command of the standard library.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn to_std(&self) -> std::io::Result<std::process::Command> {
        use std::process::Stdio;

        let mut command = std::process::Command::new(&self.path);
        command
            .args(&self.arguments)
            .env_clear()
            .envs(&self.environment)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .stdin(match &self.input {
                Input::Empty => Stdio::null(),
                Input::Pipe => Stdio::piped(),
                Input::File(file) => file.try_clone()?.into(),
            });
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        Ok(command)
    }
}
