//! Shared parts of the tests of the process runner.
#![allow(dead_code)]

use std::fs;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Time limit after the grace period in which the last process must have ended.
pub(crate) const GONE: Duration = Duration::from_secs(25);

/// Returns digits that no other process on this machine has in its arguments.
pub(crate) fn token() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!(
        "7{:07}{:05}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// Returns the processes, except zombies, with a text in the given file of `/proc`.
pub(crate) fn processes_with(file: &str, text: &str) -> Vec<i32> {
    let own = i32::try_from(std::process::id()).unwrap();
    let pids = fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != own)
        .filter(|pid| {
            let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            bytes.windows(text.len()).any(|part| part == text.as_bytes())
        })
        .collect()
}

/// Waits until a condition holds. Panics at the deadline.
pub(crate) fn eventually(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < end, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asserts that all processes with the token in their arguments end in time.
pub(crate) fn assert_gone(token: &str) {
    let end = Instant::now() + GONE;
    loop {
        let left = processes_with("cmdline", token);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < end, "survivors of {token}: {left:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a test on a runtime with one thread, then on one with several.
pub(crate) fn on_both_runtimes<F: Future<Output = ()>>(test: impl Fn() -> F) {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(test());
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap()
        .block_on(test());
}

/// A tool that resists its end. The script prints `ready` when it is set up.
pub(crate) struct Hostile {
    pub(crate) name: &'static str,
    /// The script. `@` is replaced by a sleep of half an hour with the token in its arguments.
    script: &'static str,
}

impl Hostile {
    pub(crate) fn script(&self, token: &str) -> String {
        self.script.replace('@', &format!("sleep 1800.{token}"))
    }
}

/// All hostile tools, each with a leader that hangs.
pub(crate) const HOSTILE: &[Hostile] = &[
    Hostile {
        name: "sleeps",
        script: "echo ready; @",
    },
    Hostile {
        name: "ignores TERM",
        script: "trap '' TERM; echo ready; @; @",
    },
    Hostile {
        name: "is stopped",
        script: "(@ & kill -STOP $!; echo ready); @",
    },
    Hostile {
        name: "forks in the group",
        script: "@ & (trap '' TERM; @; @) & echo ready; @",
    },
    Hostile {
        name: "opens a session",
        script: "setsid sh -c 'trap \"\" TERM; echo ready; @; @' & @",
    },
    Hostile {
        name: "forks twice",
        script: "(setsid sh -c '(trap \"\" TERM; @; @) & echo ready' &); @",
    },
    Hostile {
        name: "empties its environment",
        script: "(env -i PATH=\"$PATH\" setsid sh -c 'trap \"\" TERM; echo ready; @; @' &); @",
    },
    Hostile {
        name: "restores its limits",
        script: "prlimit --pid $$ --locks=unlimited; (setsid sh -c 'echo ready; @' &); @",
    },
    Hostile {
        name: "closes its output",
        script: "echo ready; exec >&- 2>&-; trap '' TERM; @; @",
    },
    Hostile {
        name: "holds its output open",
        script: "setsid sh -c 'echo ready; @' & setsid sh -c '@' & @",
    },
    Hostile {
        name: "starts itself anew",
        script: "hop='sleep 0.02; setsid sh -c \"$HOP\" hop 1800@ & exit'; export HOP=\"$hop\"; \
                 setsid sh -c \"$HOP\" hop & echo ready; @",
    },
    Hostile {
        name: "waits for input",
        script: "echo ready; cat; @",
    },
    Hostile {
        name: "writes without end",
        script: "echo ready; (setsid yes @ &); yes '@'",
    },
];
