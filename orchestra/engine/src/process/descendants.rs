//! The search for the processes that a command started.

#[cfg(target_os = "linux")]
pub(super) use linux::Descendants;
#[cfg(target_os = "linux")]
pub(crate) use linux::end_tools;
#[cfg(target_os = "linux")]
pub use linux::is_own_process;

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashMap;
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    use rustix::io::Errno;

    use super::super::handle::Handle;
    use super::super::mark::{Engine, Mark, RunMark, ticks_since_boot};
    use super::super::procfs::{self, Reading, Stat};
    use super::super::{reaper, unix};

    /// Maximum number of ancestors that are followed.
    const GENERATIONS: usize = 10_000;

    /// Returns whether a live process was started by this engine process, directly or indirectly.
    ///
    /// This is the case if the process or one of its ancestors has a mark of this engine, or if its ancestry leads to
    /// this process. If this process adopts orphans (see [`super::super::run_as_subreaper`]), the latter holds for
    /// every descendant, even one that removed its marks. A child that is older than the first run of this process does
    /// not count: it was started by the program that this process executed before, such as a shell. Returns `None` if
    /// the process has ended or cannot be inspected.
    ///
    /// Process ids are reused. The caller must open a handle of the process first, and check afterwards that it is
    /// alive.
    pub fn is_own_process(pid: u32) -> Option<bool> {
        let own = i32::try_from(std::process::id()).ok()?;
        let (pattern, began) = (Engine::this().pattern(), Engine::this().began());
        let mut pid = i32::try_from(pid).ok()?;
        let mut stat = Stat::read(pid).ok()?.filter(|stat| !stat.ended)?;
        for _ in 0..GENERATIONS {
            if (stat.parent == own && stat.started >= began) || pattern.fits(pid).ok()? {
                return Some(true);
            }
            if stat.parent <= 1 || stat.parent == own {
                return Some(false);
            }
            match Stat::read(stat.parent).ok()? {
                Some(next) => (pid, stat) = (stat.parent, next),
                // The parent has just ended, so the children already have another one.
                None => stat = Stat::read(pid).ok()??,
            }
        }
        None
    }

    /// The live processes that descend from one command.
    pub(in super::super) struct Descendants {
        mark: Mark,
        /// The process group, as long as its leader is not reaped and the id cannot be reused.
        group: Option<i32>,
        /// The time before the start of the command in clock ticks since boot. Older processes cannot be descendants.
        since: u64,
        /// The leader, and a time before its start.
        started: (Option<i32>, Instant),
    }

    /// A process that was found, and its group at that time.
    struct Found {
        handle: Handle,
        group: i32,
    }

    /// The number of process ids that are tested one by one. Beyond it, listing all processes is faster.
    const TESTED: i32 = 256;

    /// Maximum number of handles in one search. The next search finds further processes.
    const AT_ONCE: usize = 256;

    /// The result of a search.
    #[derive(Default)]
    struct Search {
        found: Vec<Found>,
        /// `true` if there may be more: a process could not be inspected, or there were too many.
        incomplete: bool,
    }

    impl Search {
        fn is_empty(&self) -> bool {
            self.found.is_empty() && !self.incomplete
        }
    }

    impl Descendants {
        /// Describes the processes of a command that is not started yet.
        pub(in super::super) fn new(mark: Mark) -> Self {
            Self {
                mark,
                group: None,
                since: ticks_since_boot(),
                started: (None, Instant::now()),
            }
        }

        /// Sets the leader, whose process id is also that of the group.
        pub(in super::super) fn set_leader(&mut self, leader: i32) {
            self.group = Some(leader);
            self.started.0 = Some(leader);
        }

        /// Forgets the process group. Call it before the leader is reaped, because the id may be reused from then on.
        pub(in super::super) fn forget_group(&mut self) {
            self.group = None;
        }

        /// Returns `true` if no process is left.
        pub(in super::super) fn are_gone(&self) -> bool {
            self.find().is_empty()
        }

        /// Sends a signal once to the processes that have left the group.
        pub(in super::super) fn signal_escaped(&self, signal: i32) {
            for found in self.find().found {
                if Some(found.group) != self.group {
                    found.handle.signal(signal);
                }
            }
        }

        /// Kills until no process is left or the time limit is reached. Returns whether no process is left.
        pub(in super::super) fn kill_all(&self, limit: Duration) -> bool {
            kill_until_gone(limit, || self.find())
        }

        /// Finds the live processes of the command: those that have its mark or are in its group, their descendants,
        /// and orphans that only this command can have left.
        ///
        /// Each process is checked again after its handle was opened; see [`Handle`].
        fn find(&self) -> Search {
            let mut search = Search::default();
            // The processes that are not known to belong to the command, by their parents.
            let mut others: HashMap<i32, Vec<i32>> = HashMap::new();
            let mut next = Vec::new();
            let listed = self.each_candidate(|pid| {
                let mut seen = None;
                let marked = || {
                    seen = self.possible(pid)?;
                    Ok(match seen {
                        Some(stat) if self.is_marked(pid, &stat)? => Some(stat),
                        _ => None,
                    })
                };
                match (search.take(pid, marked), seen) {
                    (Ok(Some(found)), _) => next.push(found),
                    (Ok(None), Some(stat)) => others.entry(stat.parent).or_default().push(pid),
                    (Ok(None), None) => {}
                    (Err(_), _) => search.incomplete = true,
                }
            });
            search.incomplete |= listed.is_err();
            for orphan in reaper::strays() {
                let still = || {
                    Ok(self
                        .possible(orphan)?
                        .filter(|_| reaper::strays().contains(&orphan)))
                };
                match search.take(orphan, still) {
                    Ok(found) => next.extend(found),
                    Err(_) => search.incomplete = true,
                }
            }
            while let Some(parent) = next.pop() {
                for child in others.remove(&parent).unwrap_or_default() {
                    let still = || Ok(self.possible(child)?.filter(|stat| stat.parent == parent));
                    match search.take(child, still) {
                        // The parent must still be the process that was found.
                        Ok(Some(child)) if search.holds(parent) => next.push(child),
                        Ok(Some(_)) => drop(search.found.pop()),
                        Ok(None) => {}
                        Err(_) => search.incomplete = true,
                    }
                }
            }
            search
        }

        /// Calls a function with the ids of all processes that may be descendants of the leader.
        fn each_candidate(&self, mut visit: impl FnMut(i32)) -> Result<(), Errno> {
            let (Some(leader), start) = self.started else {
                return procfs::each_process(visit);
            };
            let mut next = leader;
            // The system cannot start a process in less than a microsecond, so it cannot have used all ids since.
            while start.elapsed().as_micros() < count_of_ids() {
                match procfs::latest_id()? {
                    // A process may have started another one before it was visited.
                    Some(latest) if next <= latest && latest - leader < TESTED => {
                        (next..=latest).for_each(&mut visit);
                        next = latest + 1;
                    }
                    Some(latest) if next == latest + 1 => return Ok(()),
                    Some(latest) if next <= latest => {
                        return procfs::each_process(|pid| {
                            if pid >= leader {
                                visit(pid);
                            }
                        });
                    }
                    // The ids have begun again at the lowest one, or this system does not publish the latest.
                    _ => break,
                }
            }
            procfs::each_process(visit)
        }

        /// Reads the state of a process. Returns `None` if it has ended or is older than the command.
        fn possible(&self, pid: i32) -> Reading<Stat> {
            let possible = |stat: &Stat| !stat.ended && stat.started >= self.since;
            Ok(Stat::read(pid)?.filter(possible))
        }

        fn is_marked(&self, pid: i32, stat: &Stat) -> Result<bool, Errno> {
            Ok(Some(stat.group) == self.group || self.mark.pattern.fits(pid)?)
        }
    }

    /// Returns the number of process ids of the system, or 0 if it is not known.
    fn count_of_ids() -> u128 {
        static COUNT: OnceLock<u128> = OnceLock::new();
        *COUNT.get_or_init(|| {
            let count = procfs::count_of_ids().ok().flatten();
            count
                .and_then(|count| u128::try_from(count).ok())
                .unwrap_or_default()
        })
    }

    /// Kills the processes that `find` returns until it finds none or the time limit is reached. Returns whether none
    /// is left.
    fn kill_until_gone(limit: Duration, find: impl Fn() -> Search) -> bool {
        let end = Instant::now() + limit;
        let mut pause = Duration::from_micros(250);
        let mut clean = 0;
        let mut found_some = false;
        loop {
            let search = find();
            clean = if search.is_empty() { clean + 1 } else { 0 };
            found_some |= !search.is_empty();
            // A process that forks and ends can slip through one pass, but hardly through two.
            if clean > usize::from(found_some) {
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            for found in search.found {
                found.handle.signal(unix::KILL);
            }
            // A killed process needs a moment to release its resources.
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(8));
        }
    }

    /// Kills the commands of a run of another engine process, with all that they started. Returns whether none is left.
    ///
    /// Spares this process and its ancestors, so that a tool can take over the run that it belongs to.
    pub(crate) fn end_tools(mark: &RunMark, limit: Duration) -> bool {
        let Some(pattern) = mark.pattern() else {
            return true;
        };
        let ancestors = ancestors();
        kill_until_gone(limit, || {
            let mut search = Search::default();
            let listed = procfs::each_process(|pid| {
                let marked = || {
                    let alive = Stat::read(pid)?.filter(|stat| !stat.ended);
                    match alive {
                        Some(stat) if !ancestors.contains(&pid) && pattern.fits(pid)? => Ok(Some(stat)),
                        _ => Ok(None),
                    }
                };
                search.incomplete |= search.take(pid, marked).is_err();
            });
            search.incomplete |= listed.is_err();
            search
        })
    }

    /// Returns the ids of this process and its ancestors.
    fn ancestors() -> Vec<i32> {
        let mut above = Vec::new();
        let mut next = i32::try_from(std::process::id()).ok();
        while let Some(pid) = next.filter(|pid| *pid > 1 && above.len() < GENERATIONS) {
            above.push(pid);
            next = Stat::read(pid).ok().flatten().map(|stat| stat.parent);
        }
        above
    }

    impl Search {
        /// Adds a process if it passes the check before and after its handle was opened. Returns its id if it was
        /// added.
        fn take(&mut self, pid: i32, look: impl FnMut() -> Reading<Stat>) -> Reading<i32> {
            if self.found.len() >= AT_ONCE {
                return Err(Errno::MFILE);
            }
            Ok(Handle::verified(pid, look)?.map(|(handle, stat)| {
                self.found.push(Found {
                    handle,
                    group: stat.group,
                });
                pid
            }))
        }

        /// Returns whether a process id still belongs to a process that was found.
        fn holds(&self, pid: i32) -> bool {
            let mut found = self.found.iter().map(|found| &found.handle);
            found.any(|handle| handle.pid() == pid && handle.is_current())
        }
    }
}

/// Other systems cannot find processes by their marks.
#[cfg(all(unix, not(target_os = "linux")))]
pub(crate) fn end_tools(_mark: &super::mark::RunMark, _limit: std::time::Duration) -> bool {
    false
}

/// On systems that cannot inspect processes, only the group is killed.
#[cfg(all(unix, not(target_os = "linux")))]
pub(super) struct Descendants;

#[cfg(all(unix, not(target_os = "linux")))]
impl Descendants {
    pub(super) fn new(_mark: super::mark::Mark) -> Self {
        Self
    }

    pub(super) fn set_leader(&mut self, _leader: i32) {}

    pub(super) fn forget_group(&mut self) {}

    pub(super) fn are_gone(&self) -> bool {
        true
    }

    pub(super) fn signal_escaped(&self, _signal: i32) {}

    pub(super) fn kill_all(&self, _limit: std::time::Duration) -> bool {
        true
    }
}
