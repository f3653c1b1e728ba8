//! What the system knows of processes: how much they use, and which are still there. It is read from `/proc`, so it is
//! known on Linux alone.

use std::path::Path;
use std::time::{Duration, Instant};

/// How much a process uses, or the most that several did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Resident memory in KiB.
    pub memory: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Threads.
    pub threads: u64,
}

impl Use {
    /// Returns what a process uses now; `None` where it is gone, or the system does not tell.
    pub fn of_process(pid: u32) -> Option<Use> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_ascii_whitespace().next()?.parse().ok()
        };
        Some(Use {
            memory: number("VmRSS:")?,
            descriptors: std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64,
            threads: number("Threads:")?,
        })
    }

    /// Takes the larger of both, figure by figure.
    pub fn raise(&mut self, other: Use) {
        self.memory = self.memory.max(other.memory);
        self.descriptors = self.descriptors.max(other.descriptors);
        self.threads = self.threads.max(other.threads);
    }
}

/// Returns the processes that work in a folder or bear a mark in their environment, each with its command line.
pub fn processes(folder: &Path, mark: &str) -> Vec<(i32, String)> {
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(pid) = name.parse::<i32>() else { continue };
        if name == own {
            continue;
        }
        let works_here =
            std::fs::read_link(entry.path().join("cwd")).is_ok_and(|working| working.starts_with(folder));
        let environment = || std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if works_here || contains(&environment(), mark.as_bytes()) {
            let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            found.push((pid, command));
        }
    }
    found
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Waits until no process works in a folder or bears a mark; gives those that stay.
pub fn survivors(folder: &Path, mark: &str, patience: Duration) -> Vec<(i32, String)> {
    let begun = Instant::now();
    loop {
        let found = processes(folder, mark);
        if found.is_empty() || begun.elapsed() > patience {
            return found;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
