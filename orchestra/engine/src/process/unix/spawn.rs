//! The start of a program on Linux, at a cost that does not grow with the memory of this process.
//!
//! `fork` copies the page tables of this process, which takes milliseconds if it is large, and each page that it writes
//! afterwards. The standard library avoids that by `posix_spawn`, which cannot set the limits and signals that a tool
//! needs. Therefore the child is created like `posix_spawn` does it: it shares the memory of this process, on a stack of
//! its own, and the thread that starts it is suspended until the child executes its program or exits.
//!
//! In the meantime the child must not change anything that other threads see. It only makes system calls: it neither
//! allocates nor takes a lock, and blocks signals until no handler of this process is left in it.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicI32, Ordering};

use libc::{c_char, c_int, c_void};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, chdir, getpid, getppid, set_parent_process_death_signal, setpgid};

use super::{Conditions, ORIGINAL_FILE_LIMIT, have_names, set_soft_limit};
use crate::process::program::{Input, Pipes, Program};

/// The size of the child's stack in bytes.
const STACK: usize = 64 << 10;
/// The folders that are searched for a program if there is no `PATH`.
const FOLDERS: &str = "/bin:/usr/bin";
/// The highest number of a signal.
const LAST_SIGNAL: c_int = 64;

/// Starts a program in a process group of its own. Returns its process id.
///
/// # Errors
/// Fails with the error of the step of the child that failed, such as the change of its working directory.
pub(in crate::process) fn spawn(program: &Program, conditions: &Conditions<'_>) -> io::Result<(i32, Pipes)> {
    let (stdin, our_stdin) = match &program.input {
        Input::Empty => (File::open("/dev/null")?.into(), None),
        Input::File(file) => (file.try_clone()?.into(), None),
        Input::Pipe => {
            let (reader, writer) = io::pipe()?;
            (reader.into(), Some(writer))
        }
    };
    let (our_stdout, stdout) = io::pipe()?;
    let (our_stderr, stderr) = io::pipe()?;
    let streams = [
        above_streams(stdin)?,
        above_streams(stdout.into())?,
        above_streams(stderr.into())?,
    ];
    let programs = candidates(program)?;
    let mut arguments = vec![text(&program.path)?];
    for argument in &program.arguments {
        arguments.push(text(argument)?);
    }
    let mut environment = Vec::with_capacity(program.environment.len());
    for (name, value) in &program.environment {
        let mut variable = name.clone();
        variable.push("=");
        variable.push(value);
        environment.push(text(&variable)?);
    }
    let directory = program
        .directory
        .as_ref()
        .map(|path| text(path.as_os_str()))
        .transpose()?;
    let plan = Plan {
        programs: &programs,
        arguments: &pointers(&arguments),
        environment: &pointers(&environment),
        directory: directory.as_deref(),
        streams: [&streams[0], &streams[1], &streams[2]].map(|stream| stream.as_raw_fd()),
        engine: getpid().as_raw_pid(),
        conditions,
        files: ORIGINAL_FILE_LIMIT.get().copied(),
        error: AtomicI32::new(0),
    };
    let pid = plan.start()?;
    let pipes = Pipes {
        stdin: our_stdin,
        stdout: our_stdout,
        stderr: our_stderr,
    };
    Ok((pid, pipes))
}

/// Returns the descriptor, or a copy of it, that does not have the number of a standard stream. Otherwise one stream of
/// the child could replace the source of another.
fn above_streams(descriptor: OwnedFd) -> io::Result<OwnedFd> {
    if descriptor.as_raw_fd() > libc::STDERR_FILENO {
        return Ok(descriptor);
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(
        &descriptor,
        libc::STDERR_FILENO + 1,
    )?)
}

fn text(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a text contains a zero byte"))
}

/// Returns the files that may be the program, in the order of the search.
fn candidates(program: &Program) -> io::Result<Vec<CString>> {
    if program.path.as_bytes().contains(&b'/') {
        return Ok(vec![text(&program.path)?]);
    }
    let folders = program.environment.get(OsStr::new("PATH"));
    let folders = folders.map_or(OsStr::new(FOLDERS), |folders| folders.as_os_str());
    std::env::split_paths(folders)
        .map(|folder| text(&folder.join(&program.path).into_os_string()))
        .collect()
}

/// Returns the addresses of the texts, with a null pointer at the end.
fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    let addresses = texts.iter().map(|text| text.as_ptr());
    addresses.chain([std::ptr::null()]).collect()
}

/// What the child does, prepared such that it needs no memory.
struct Plan<'p> {
    programs: &'p [CString],
    arguments: &'p [*const c_char],
    environment: &'p [*const c_char],
    directory: Option<&'p CStr>,
    streams: [RawFd; 3],
    /// The process id of this process.
    engine: i32,
    conditions: &'p Conditions<'p>,
    /// The limit on open files that this process has raised for itself only.
    files: Option<u64>,
    /// The error of the child, if it could not execute the program.
    error: AtomicI32,
}

impl Plan<'_> {
    /// Starts the child. Returns its process id when it has executed the program.
    fn start(&self) -> io::Result<i32> {
        let mut stack: Vec<MaybeUninit<u128>> = Vec::with_capacity(STACK / size_of::<u128>());
        let plan = std::ptr::from_ref(self).cast_mut().cast::<c_void>();
        // SAFETY: the signal sets are live and writable, and all zeroes is a valid value. The stack is unused memory of
        // the given size that lives until the child no longer uses it: `CLONE_VFORK` suspends this thread until then.
        // The same holds for the plan, which the child only reads, apart from an atomic. See the module for what the
        // child may do. Blocked signals keep handlers of this process from running in it.
        let (pid, error) = unsafe {
            let top = stack.as_mut_ptr().add(stack.capacity());
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
            let pid = libc::clone(run, top.cast(), flags, plan);
            let error = io::Error::last_os_error();
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
            (pid, error)
        };
        if pid < 0 {
            return Err(error);
        }
        match self.error.load(Ordering::Relaxed) {
            0 => Ok(pid),
            error => {
                // The child has exited, so this does not block.
                let reaped = super::wait(pid);
                tracing::trace!(?reaped, "a program was not executed");
                Err(io::Error::from_raw_os_error(error))
            }
        }
    }

    /// Executes the program. Returns only if that fails.
    fn execute(&self) -> io::Error {
        match self.prepare() {
            Ok(()) => self.replace(),
            Err(error) => error,
        }
    }

    fn prepare(&self) -> io::Result<()> {
        reset_signals();
        setpgid(None, None)?;
        for (number, stream) in (0..).zip(self.streams) {
            // SAFETY: a plain system call with numbers. This is the child's own table of descriptors.
            if unsafe { libc::dup2(stream, number) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        if let Some(directory) = self.directory {
            chdir(directory)?;
        }
        // Where this is not allowed, the watcher alone ends the program.
        let _ = set_parent_process_death_signal(Some(self.conditions.at_death));
        // The engine may have died before the line above took effect.
        if getppid().map(Pid::as_raw_pid) != Some(self.engine) {
            return Err(Errno::SRCH.into());
        }
        set_soft_limit(Resource::Locks, self.conditions.mark);
        if let Some(files) = self.files {
            set_soft_limit(Resource::Nofile, files);
        }
        have_names(self.conditions.locks)
    }

    /// Tries to execute each of the programs.
    fn replace(&self) -> io::Error {
        let mut denied = false;
        for program in self.programs {
            // SAFETY: the program is a text, and both arrays of texts end with a null pointer.
            unsafe {
                libc::execve(
                    program.as_ptr(),
                    self.arguments.as_ptr(),
                    self.environment.as_ptr(),
                )
            };
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EACCES) => denied = true,
                Some(libc::ENOENT | libc::ENOTDIR) => {}
                _ => return error,
            }
        }
        io::Error::from_raw_os_error(if denied { libc::EACCES } else { libc::ENOENT })
    }
}

/// The function of the child.
extern "C" fn run(plan: *mut c_void) -> c_int {
    // SAFETY: `Plan::start` passes a plan that lives as long as the child runs in this memory.
    let plan = unsafe { &*plan.cast::<Plan<'_>>() };
    let error = plan.execute().raw_os_error().unwrap_or(libc::EINVAL);
    plan.error.store(error, Ordering::Relaxed);
    // SAFETY: ends the child without running anything else.
    unsafe { libc::_exit(127) }
}

/// Replaces all handlers of this process by the default action, and then allows all signals. Signals that are ignored
/// stay ignored, except SIGPIPE, which the standard library ignores in every Rust program.
fn reset_signals() {
    // SAFETY: the values are live and writable, and all zeroes is a valid value for them. The handlers of a process are
    // its own, even if it shares its memory.
    unsafe {
        let mut default: libc::sigaction = std::mem::zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        for signal in 1..=LAST_SIGNAL {
            let mut current: libc::sigaction = std::mem::zeroed();
            let known = libc::sigaction(signal, std::ptr::null(), &raw mut current) == 0;
            let kept = current.sa_sigaction == libc::SIG_DFL
                || current.sa_sigaction == libc::SIG_IGN && signal != libc::SIGPIPE;
            if known && !kept {
                libc::sigaction(signal, &raw const default, std::ptr::null_mut());
            }
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::process::{Command, ExitStatus};

    use rustix::process::Signal;

    use super::*;

    const HELPER: &str = "process::unix::spawn::tests::helper_without_streams";
    const INSIDE: &str = "HELPER_WITHOUT_STREAMS";

    fn start(program: &Program) -> io::Result<(i32, Pipes)> {
        let conditions = Conditions {
            mark: 1 << 60,
            at_death: Signal::KILL,
            locks: &[],
        };
        spawn(program, &conditions)
    }

    /// Runs a program. Returns its output, its error output and its exit status.
    fn run(program: &Program) -> io::Result<(String, String, ExitStatus)> {
        let (pid, mut pipes) = start(program)?;
        if let Some(mut stdin) = pipes.stdin.take() {
            stdin.write_all(b"given\n")?;
        }
        let (mut output, mut errors) = (String::new(), String::new());
        pipes.stdout.read_to_string(&mut output)?;
        pipes.stderr.read_to_string(&mut errors)?;
        Ok((output, errors, super::super::wait(pid)?))
    }

    fn shell(text: &str) -> Program {
        let mut program = Program::new("/bin/sh");
        program.args(["-c", text]);
        program
    }

    fn write_script(path: &Path, mode: u32) {
        fs::write(path, "#!/bin/sh\necho found\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_program_is_searched_for_in_its_own_path() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        fs::create_dir(&first).unwrap();
        fs::create_dir(&second).unwrap();
        let mut program = Program::new("searched-for");
        program.env("PATH", std::env::join_paths([&first, &second]).unwrap());
        let refused = |program| run(program).unwrap_err().kind();
        assert_eq!(refused(&program), io::ErrorKind::NotFound);
        // Not executable.
        write_script(&first.join("searched-for"), 0o600);
        assert_eq!(refused(&program), io::ErrorKind::PermissionDenied);
        write_script(&second.join("searched-for"), 0o700);
        let (output, errors, status) = run(&program).unwrap();
        assert!(status.success(), "{errors}");
        assert_eq!(output, "found\n");
    }

    #[test]
    fn the_error_of_a_step_of_the_child_is_returned() {
        let mut program = shell("true");
        program.directory("/no/such/folder");
        assert_eq!(start(&program).err().unwrap().kind(), io::ErrorKind::NotFound);
        program.directory("/dev/null");
        assert_eq!(
            start(&program).err().unwrap().kind(),
            io::ErrorKind::NotADirectory
        );
        let mut program = shell("true");
        program.arg("a\0b");
        assert_eq!(start(&program).err().unwrap().kind(), io::ErrorKind::InvalidInput);
        // A lock without a name.
        let lock = tempfile::tempfile().unwrap();
        let conditions = Conditions {
            mark: 1 << 60,
            at_death: Signal::KILL,
            locks: &[lock.as_raw_fd()],
        };
        let error = spawn(&shell("true"), &conditions).err().unwrap();
        assert_eq!(error.raw_os_error(), Some(libc::ESTALE));
    }

    #[test]
    fn a_program_starts_with_default_signals_a_group_and_a_mark() {
        // As in a thread that writes the input of a command.
        super::super::ignore_closed_pipes().unwrap();
        let mut program = Program::new("cat");
        program.args(["/proc/self/status", "/proc/self/stat", "/proc/self/limits"]);
        let (output, errors, status) = run(&program).unwrap();
        assert!(status.success(), "{errors}");
        let own = fs::read_to_string("/proc/self/status").unwrap();
        let set = |status: &str, name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap()
        };
        assert_eq!((set(&output, "SigBlk:"), set(&output, "SigCgt:")), (0, 0));
        // Whoever started this process may want it and its children to ignore some signals.
        let pipe = 1 << (libc::SIGPIPE - 1);
        assert_eq!(set(&output, "SigIgn:"), set(&own, "SigIgn:") & !pipe);
        let stat = output.lines().find(|line| line.contains(" (cat) ")).unwrap();
        let fields: Vec<&str> = stat.split(' ').collect();
        assert_eq!(fields[0], fields[4], "the program leads its group: {stat}");
        let mark = output
            .lines()
            .find(|line| line.starts_with("Max file locks"))
            .unwrap();
        assert!(mark.contains(&(1_u64 << 60).to_string()), "{mark}");
        assert_eq!(output.matches("Max open files").count(), 1);
    }

    #[test]
    fn all_streams_arrive_where_this_process_has_none() {
        let done = tempfile::tempdir().unwrap();
        let done = done.path().join("done");
        let mut helper = Command::new(std::env::current_exe().unwrap());
        helper.args(["--ignored", "--exact", HELPER]).env(INSIDE, &done);
        let output = helper.output().unwrap();
        assert_eq!(
            fs::read_to_string(&done).ok().as_deref(),
            Some("given\n|no\n"),
            "{output:?}"
        );
    }

    /// The part of the test above that closes its own streams.
    #[test]
    #[ignore = "a part of another test"]
    fn helper_without_streams() {
        let Some(done) = std::env::var_os(INSIDE) else {
            return;
        };
        for number in 0..=2 {
            // SAFETY: this process does nothing else, and nothing owns its standard streams.
            assert_eq!(unsafe { libc::close(number) }, 0);
        }
        let mut program = shell("cat; echo no >&2");
        program.input(Input::Pipe);
        let (output, errors, _) = run(&program).unwrap();
        fs::write(done, format!("{output}|{errors}")).unwrap();
    }
}
