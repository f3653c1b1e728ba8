//! The limits, and how a call is put under one.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::{Call, Done};

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Open files of a process.
    Descriptors,
    /// Processes and threads of a user.
    Processes,
    /// Bytes of a file.
    FileSize,
    /// Bytes of the address space.
    Memory,
    /// Bytes of the disk that the project lies on.
    Disk,
    /// Instances of inotify.
    Watches,
}

pub(crate) const KINDS: [Kind; 6] = [
    Kind::Descriptors,
    Kind::Processes,
    Kind::FileSize,
    Kind::Memory,
    Kind::Disk,
    Kind::Watches,
];

/// A limit, in the unit of its kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) kind: Kind,
    pub(crate) value: u64,
}

/// Another user where this one is root, whom the number of processes does not bind. Nobody else has processes under it.
const USER: u32 = 61_183;

impl Kind {
    /// What it is called in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Descriptors => "descriptors (`RLIMIT_NOFILE`)",
            Kind::Processes => "processes and threads (`RLIMIT_NPROC`)",
            Kind::FileSize => "size of a file (`RLIMIT_FSIZE`)",
            Kind::Memory => "memory (`RLIMIT_AS`)",
            Kind::Disk => "disk (`tmpfs` of a size)",
            Kind::Watches => "watches (`max_inotify_instances`)",
        }
    }

    /// The limits that are tried on a call, from tight to loose; in the suite some of them.
    pub(crate) fn values(self, call: Call, all: bool) -> Vec<u64> {
        const KIB: usize = 1 << 10;
        const MIB: usize = 1 << 20;
        let every = |from: usize, to: usize, step: usize| -> Vec<u64> {
            (from..=to).step_by(step).map(|value| value as u64).collect()
        };
        if !all {
            return match (self, call) {
                (Kind::Descriptors, Call::Run) => vec![6, 16, 25],
                (Kind::Descriptors, Call::Pause) => vec![8, 14],
                (Kind::Descriptors, _) => vec![9],
                (Kind::Processes, Call::Run) => vec![1, 4],
                (Kind::FileSize, Call::Pause) => vec![0, 700],
                (Kind::Memory, Call::Pause) => every(48 * MIB, 48 * MIB, 1),
                (Kind::Disk, Call::Pause) => every(40 * KIB, 40 * KIB, 1),
                (Kind::Watches, Call::Pause) => vec![0],
                _ => Vec::new(),
            };
        }
        let long = call == Call::Run;
        match self {
            Kind::Descriptors => every(3, if long { 34 } else { 24 }, 1),
            Kind::Processes => every(1, if long { 16 } else { 6 }, 1),
            Kind::FileSize => {
                let step = if long { 3 * KIB } else { 9 * KIB };
                [every(0, 2 * KIB, 256), every(3 * KIB, 48 * KIB, step)].concat()
            }
            Kind::Memory => every(16 * MIB, 320 * MIB, if long { 16 * MIB } else { 48 * MIB }),
            Kind::Disk => every(0, 320 * KIB, if long { 16 * KIB } else { 48 * KIB }),
            Kind::Watches => vec![0],
        }
    }

    /// The words of which a message must have one: the limit, or how it is raised.
    pub(crate) fn names(self) -> &'static [&'static str] {
        match self {
            Kind::Descriptors => &["ulimit -n"],
            // The stack of a thread, or a process, may be what there is no room for.
            Kind::Processes => &["ulimit -u"],
            Kind::FileSize => &["ulimit -f"],
            Kind::Memory => &["ulimit -v", "ulimit -u"],
            Kind::Disk => &["make room on the disk"],
            Kind::Watches => &["inotify"],
        }
    }

    /// The user to whom the limit applies, where it must be another one.
    pub(crate) fn user(self) -> Option<u32> {
        (self == Kind::Processes && is_root()).then_some(USER)
    }

    /// What stands before a command that is put under the limit; without a value, under none.
    pub(crate) fn wrap(self, value: Option<u64>) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let mut add = |text: &str| words.extend(text.split(' ').map(str::to_owned));
        if let Some(user) = self.user() {
            add(&format!("setpriv --reuid={user} --regid={user} --clear-groups"));
        }
        match (self, value) {
            (_, None) | (Kind::Disk, _) => {}
            (Kind::Descriptors, Some(value)) => add(&format!("prlimit --nofile={value}")),
            (Kind::FileSize, Some(value)) => add(&format!("prlimit --fsize={value}")),
            (Kind::Memory, Some(value)) => add(&format!("prlimit --as={value}")),
            (Kind::Processes, Some(value)) => {
                if self.user().is_none() {
                    // In a namespace of its own a user's processes are counted from none.
                    add("unshare --user --map-current-user");
                }
                add(&format!("prlimit --nproc={value}"));
            }
            (Kind::Watches, Some(value)) => {
                add("unshare --user --map-root-user sh -ec");
                words.push(format!(
                    "echo {value} > /proc/sys/user/max_inotify_instances; exec \"$@\""
                ));
                words.push("sh".into());
            }
        }
        words
    }

    /// Why this machine does not permit it; `None` where it does.
    pub(crate) fn missing(self) -> Option<String> {
        let works = |words: &[String]| {
            let tried = Command::new(&words[0]).args(&words[1..]).output();
            tried.is_ok_and(|tried| tried.status.success())
        };
        let mut words = match self {
            Kind::Disk => "unshare --user --map-root-user --mount mount -t tmpfs none /mnt"
                .split(' ')
                .map(str::to_owned)
                .collect(),
            kind => kind.wrap(Some(100)),
        };
        if self != Kind::Disk {
            words.push("true".to_owned());
        }
        if self == Kind::Memory {
            // A hundred bytes are too few for anything.
            words = "prlimit --as=1000000000 true"
                .split(' ')
                .map(str::to_owned)
                .collect();
        }
        (!works(&words)).then(|| format!("`{}` does not work here", words.join(" ")))
    }
}

fn is_root() -> bool {
    let reported = Command::new("id").arg("-u").output();
    reported.is_ok_and(|reported| reported.stdout.trim_ascii() == b"0")
}

/// Whether a process ended before the program began, or as one ends that gets no memory: the loader ends a process for whose
/// libraries there is no room, and Rust one whose allocation fails. Neither leaves another way.
pub(crate) fn inevitable(kind: Kind, done: &Done) -> Option<&'static str> {
    let reported = &done.stderr;
    if reported.contains("error while loading shared libraries") {
        return Some("not loaded");
    }
    let out_of_memory = reported.contains("memory allocation of")
        || reported.contains("Fatal glibc error")
        || reported.contains("failed to allocate")
        || reported.contains("cannot allocate memory for thread-local data")
        || (reported.is_empty() && done.stdout.is_empty());
    (kind == Kind::Memory && out_of_memory).then_some("aborts")
}

/// A disk of a size, in a mount namespace of its own, which a process holds.
pub(crate) struct Disk {
    holder: Child,
    output: RefCell<ChildStdout>,
    folder: PathBuf,
}

impl Disk {
    /// Mounts it on a folder.
    pub(crate) fn mount(folder: &Path) -> Disk {
        let script = r#"mount -t tmpfs -o size=256m none "$1"; echo ready
            while read -r size; do mount -o "remount,size=$size" "$1" && echo ready || echo again; done"#;
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-ec", script, "sh"]);
        let mut holder = command
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        let mut output = holder.stdout.take().unwrap();
        output.read_exact(&mut ready).unwrap();
        Disk {
            holder,
            output: RefCell::new(output),
            folder: folder.to_owned(),
        }
    }

    /// What stands before a command that works in a folder of it.
    pub(crate) fn enter(&self, folder: &Path) -> Vec<String> {
        let pid = self.holder.id().to_string();
        let mut words: Vec<String> = [
            "nsenter",
            "--user",
            "--mount",
            "--preserve-credentials",
            "--target",
            &pid,
        ]
        .map(str::to_owned)
        .to_vec();
        words.extend(["sh", "-c", "cd \"$0\" && exec \"$@\""].map(str::to_owned));
        words.push(folder.to_string_lossy().into_owned());
        words
    }

    /// A path of it as this process sees it.
    pub(crate) fn seen_from_here(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Leaves so many bytes free.
    pub(crate) fn resize(&self, free: u64) {
        let words = self.enter(&self.folder);
        // A run that waits may write between the look and the change, which then is refused.
        for _ in 0..100 {
            // From outside `df` would take the path for one of this process.
            let mut df = Command::new(&words[0]);
            let df = df.args(&words[1..]).args(["df", "-k", "--output=used", "."]);
            let reported = String::from_utf8_lossy(&df.output().unwrap().stdout).into_owned();
            let used: u64 = reported.lines().next_back().unwrap().trim().parse().unwrap();
            if self.set(&format!("{}k", (used + free / 1024).max(4))) {
                return;
            }
        }
        panic!("the disk cannot be made smaller");
    }

    /// Lifts the limit.
    pub(crate) fn grow(&self) {
        assert!(self.set("256m"));
    }

    /// Sets the size; whether that was possible.
    fn set(&self, size: &str) -> bool {
        let mut input = self.holder.stdin.as_ref().unwrap();
        writeln!(input, "{size}").unwrap();
        let mut reported = [0; 6];
        self.output.borrow_mut().read_exact(&mut reported).unwrap();
        &reported == b"ready\n"
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
