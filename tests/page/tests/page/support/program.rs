//! `orchestra serve` in a process of its own, which can be killed.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use super::Api;

pub(crate) struct Program {
    child: Child,
    pub(crate) api: Api,
}

impl Program {
    /// Serves a folder at an address. The token stays the same in each start.
    #[track_caller]
    pub(crate) fn start(folder: &Path, address: &str) -> Program {
        let mut child = Command::new(env!("CARGO_BIN_EXE_orchestra-page-program"))
            .args(["serve", "--listen", address, "--token-file", "token"])
            .current_dir(folder)
            .env("ANTHROPIC_API_KEY", "key-of-the-page-0123456789")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("the program");
        let mut line = String::new();
        let output = child.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).unwrap();
        let link = line
            .trim()
            .strip_prefix("open ")
            .unwrap_or_else(|| panic!("no link: {line}"));
        Program {
            api: Api::new(link),
            child,
        }
    }

    /// Kills the program and its tools, as a loss of power would.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}
