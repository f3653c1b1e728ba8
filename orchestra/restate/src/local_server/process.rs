//! The process of a local server.

use std::io;
use std::sync::{Arc, OnceLock};

use orchestra_engine::process::{Exit, ShellCommand};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The number of lines of the log that are stored with the end.
const LAST_LINES: usize = 10;

/// A process of the server, which is killed on drop.
#[derive(Debug)]
pub(super) struct ServerProcess {
    /// Ends the process with TERM, and with KILL after the grace period.
    pub(super) stop: CancellationToken,
    /// The process id and the handle, once the process runs.
    pub(super) started: Arc<OnceLock<(u32, Option<handle::Handle>)>>,
    end: watch::Receiver<Option<Arc<End>>>,
}

/// The end of a process.
#[derive(Debug)]
pub(super) struct End {
    pub(super) how: String,
    pub(super) last_lines: String,
}

impl ServerProcess {
    pub(super) fn start(command: ShellCommand) -> io::Result<ServerProcess> {
        let stop = CancellationToken::new();
        let started = Arc::new(OnceLock::new());
        let (sender, end) = watch::channel(None);
        let first_line = Arc::clone(&started);
        let command = command.cancel(stop.clone()).on_line(move |_, line| {
            if first_line.get().is_none()
                && let Ok(id) = line.trim().parse()
            {
                // The process id is not reused as long as this function runs.
                let _ = first_line.set((id, handle::open(id)));
            }
        });
        // The server outlives the runtime that starts it, such as that of one test.
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        std::thread::Builder::new()
            .name("orchestra-restate-server".to_owned())
            .spawn(move || {
                let end = match runtime.block_on(command.run()) {
                    Ok(output) => End {
                        how: describe(output.exit),
                        last_lines: last_lines(&output.stdout),
                    },
                    Err(error) => End {
                        how: error.to_string(),
                        last_lines: String::new(),
                    },
                };
                sender.send_replace(Some(Arc::new(end)));
            })?;
        Ok(ServerProcess { stop, started, end })
    }

    pub(super) fn kill(&self) {
        let handle = self.started.get().and_then(|(_, handle)| handle.as_ref());
        let is_killed = handle.is_some_and(|handle| self.end().is_none() && handle::kill(handle));
        if !is_killed {
            // It has not begun, or the system provides no handles.
            self.stop.cancel();
        }
    }

    pub(super) fn end(&self) -> Option<Arc<End>> {
        self.end.borrow().clone()
    }

    pub(super) async fn wait(&self) -> Arc<End> {
        let mut end = self.end.clone();
        let ended = end.wait_for(Option::is_some).await;
        let ended = ended.ok().and_then(|end| end.clone());
        ended.unwrap_or_else(|| {
            Arc::new(End {
                how: "the loss of its thread".to_owned(),
                last_lines: String::new(),
            })
        })
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Handles of processes. On Linux they never refer to another process than the one they were opened for.
mod handle {
    #[cfg(target_os = "linux")]
    pub(super) type Handle = std::os::fd::OwnedFd;
    #[cfg(not(target_os = "linux"))]
    pub(super) type Handle = u32;

    pub(super) fn open(id: u32) -> Option<Handle> {
        #[cfg(target_os = "linux")]
        {
            use rustix::process::{Pid, PidfdFlags, pidfd_open};
            let id = Pid::from_raw(id.try_into().ok()?)?;
            pidfd_open(id, PidfdFlags::empty()).ok()
        }
        #[cfg(not(target_os = "linux"))]
        Some(id)
    }

    /// Sends KILL. Returns whether it was sent.
    pub(super) fn kill(handle: &Handle) -> bool {
        #[cfg(target_os = "linux")]
        return rustix::process::pidfd_send_signal(handle, rustix::process::Signal::KILL).is_ok();
        #[cfg(all(unix, not(target_os = "linux")))]
        {
            use rustix::process::{Pid, Signal, kill_process};
            let id = i32::try_from(*handle).ok().and_then(Pid::from_raw);
            id.is_some_and(|id| kill_process(id, Signal::KILL).is_ok())
        }
        #[cfg(not(unix))]
        {
            let _ = handle;
            false
        }
    }
}

fn describe(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
        _ => "a request to stop".to_owned(),
    }
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let start = lines.len().saturating_sub(LAST_LINES);
    lines.get(start..).unwrap_or_default().join("\n")
}
