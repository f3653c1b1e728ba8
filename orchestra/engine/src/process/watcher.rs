//! The watcher: one small process per engine process that outlives it and cleans up.
//!
//! An engine that is killed with signal 9 cannot end its tools. The parent-death signal ends the
//! leader of each command, but not what the leader started. So the first command also starts a shell,
//! in a session of its own, whose input is a socket that only the engine holds. However the engine
//! ends, the system closes the socket, the shell reads the end and kills the groups that were still
//! running, and then on Linux everything that bears the engine's marks, until nothing is left.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::mark::Engine;
use super::{MARK_VARIABLE, SHELL, unix};

/// `$1` is the engine's name in the variable, `$2` its number in the limit, `$3` the variable.
///
/// Zombies and kernel threads have no `exe` that can be seen. The limits of all processes are read in
/// one go; the environments one by one, since not every `grep` can read lines that end in NUL. A process
/// that keeps starting itself anew can slip through one pass, so several must find nothing.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM TSTP
live=' '
while read -r change group; do
  case "$change$live" in
    +*) live="$live$group " ;;
    -*" $group "*) live="${live%% $group *} ${live#* $group }" ;;
  esac
done
for group in $live; do kill -s KILL -- "-$group"; done
[ -r /proc/self/environ ] || exit 0
strike() {
  [ -e "/proc/$1/exe" ] && kill -s KILL "$1" && clean=0
}
passes=0 clean=0
while [ "$clean" -lt 5 ] && [ "$passes" -lt 500 ]; do
  passes=$((passes + 1)) clean=$((clean + 1))
  for file in $(grep -l "^Max file locks  *$2[0-9][0-9]* " /proc/[0-9]*/limits); do
    file=${file#/proc/}
    strike "${file%/limits}"
  done
  [ "$clean" -eq 3 ] || continue
  for folder in /proc/[0-9]*; do
    [ -e "$folder/exe" ] || continue
    tr '\n\0' ' \n' <"$folder/environ" | grep -q "^$3=[0-9a-f.:]*:$1[.]" && strike "${folder#/proc/}"
  done
done
"#;

static WATCHER: Mutex<Watcher> = Mutex::new(Watcher {
    process: None,
    groups: BTreeSet::new(),
});

struct Watcher {
    process: Option<(Child, UnixStream)>,
    groups: BTreeSet<i32>,
}

fn watcher() -> MutexGuard<'static, Watcher> {
    WATCHER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes sure that the watcher runs; one that somebody killed is replaced.
pub(super) fn ensure() -> io::Result<()> {
    let mut watcher = watcher();
    if watcher.is_alive() {
        return Ok(());
    }
    watcher.process = Some(start()?);
    for group in watcher.groups.clone() {
        watcher.tell('+', group);
    }
    Ok(())
}

/// Tells the watcher of a new group.
pub(super) fn add(group: i32) {
    let mut watcher = watcher();
    watcher.groups.insert(group);
    watcher.tell('+', group);
}

/// Tells the watcher that a group has ended; to be called while its number is still taken.
pub(super) fn remove(group: i32) {
    let mut watcher = watcher();
    watcher.groups.remove(&group);
    watcher.tell('-', group);
}

impl Watcher {
    fn is_alive(&mut self) -> bool {
        self.process
            .as_mut()
            .is_some_and(|(child, _)| matches!(child.try_wait(), Ok(None)))
    }

    fn tell(&mut self, change: char, group: i32) {
        // Asked first: a write to a closed socket can raise a signal that ends the program.
        if self.is_alive()
            && let Some((_, socket)) = &mut self.process
            && let Err(fault) = socket.write_all(format!("{change} {group}\n").as_bytes())
        {
            tracing::warn!(%fault, "the watcher of tool processes cannot be reached");
        }
    }
}

fn start() -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    // A watcher that somebody stopped must not stop the engine.
    ours.set_nonblocking(true)?;
    let engine = Engine::this();
    let mut command = Command::new(SHELL);
    command.args([
        "-c",
        SCRIPT,
        SHELL,
        engine.name(),
        &engine.number().to_string(),
        MARK_VARIABLE,
    ]);
    // A bare environment: no secrets, and no mark of an engine around us, which may be about to kill us.
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin:/usr/local/bin")
        .env("LC_ALL", "C")
        .current_dir("/");
    command
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    unix::prepare_watcher(&mut command);
    Ok((command.spawn()?, ours))
}
