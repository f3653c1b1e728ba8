//! Operations that fail or are killed at any point: the next process completes them, and nothing is lost.

use crate::common;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use common::{Yard, git, message, read, run, shown, write};
use orchestra_workspace::{
    Favour, Finish, Git, GitCommand, GitError, GitOutput, Repository, Sha, Side, Sweep, SweepMode, SystemGit,
    Tree, UnmergedCommits, plan, resolve, sweep,
};

/// The fault that is injected at the chosen call.
#[derive(Clone, Copy, Debug)]
enum How {
    /// The call is not made.
    Before,
    /// The call is made, but its result is lost.
    After,
    /// The call is killed after this number of microseconds.
    Killed(u64),
}

/// A git that fails at one call and at all later calls.
struct Failing {
    git: Arc<SystemGit>,
    calls: AtomicUsize,
    at: usize,
    how: How,
}

/// Returns whether a command writes. A failing read has the same effect as a failure before the next write.
fn writes(command: &GitCommand) -> bool {
    const READING: &[&str] = &[
        "rev-parse",
        "rev-list",
        "log",
        "merge-base",
        "status",
        "ls-files",
        "ls-tree",
        "cat-file",
        "config",
        "for-each-ref",
        "diff-tree",
    ];
    !READING.contains(&command.name().as_str())
}

impl Git for Failing {
    fn run(&self, command: &GitCommand) -> Result<GitOutput, GitError> {
        let failed = || GitError::TimedOut {
            command: command.name(),
            after: Duration::ZERO,
        };
        if !writes(command) && self.calls.load(Ordering::SeqCst) < self.at {
            return self.git.run(command);
        }
        match (self.calls.fetch_add(1, Ordering::SeqCst) + 1, self.how) {
            (call, _) if call < self.at => self.git.run(command),
            (call, How::After) if call == self.at => {
                self.git.run(command)?;
                Err(failed())
            }
            (call, How::Killed(after)) if call == self.at => {
                // If the command finished in time, it was not killed, and the operation fails at the next call.
                self.git
                    .run(&command.clone().timeout(Duration::from_micros(after)))
            }
            _ => Err(failed()),
        }
    }
}

/// The initial state of an operation.
struct Start {
    yard: Yard,
    base: Sha,
    first: Sha,
    sides: Vec<Side>,
}

impl Start {
    fn tree(&self, repository: &Repository) -> Tree {
        self.yard.tree(repository, "session")
    }

    /// Returns the worktree as a process finds it that resumes the run.
    fn taken_up(&self, repository: &Repository, at: &Sha) -> Tree {
        let tree = self.tree(repository);
        tree.ensure(at, &self.base).unwrap();
        tree
    }
}

/// Returns a repository in which a run has a commit and two conflicting branches, without a worktree.
fn template() -> &'static Start {
    static TEMPLATE: OnceLock<Start> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let yard = Yard::new();
        let (repository, tree, base) = yard.ready();
        write(&tree.root(), "first.txt", "first\n");
        let first = tree.commit(&message("first")).unwrap().unwrap();
        tree.remove().unwrap();
        let sides = ["left", "right"].map(|name| {
            let line = yard.tree(&repository, name);
            line.ensure(&first, &first).unwrap();
            write(&line.root(), "a.txt", &format!("{name}\ntwo\nthree\n"));
            let sha = line.commit(&message(name)).unwrap().unwrap();
            line.remove().unwrap();
            Side {
                name: name.into(),
                sha,
            }
        });
        Start {
            yard,
            base,
            first,
            sides: sides.into(),
        }
    })
}

/// Returns a copy of the template with the worktree of the run.
fn start() -> Start {
    let template = template();
    let yard = template.yard.copy();
    let start = Start {
        yard,
        base: template.base.clone(),
        first: template.first.clone(),
        sides: template.sides.clone(),
    };
    start.taken_up(&start.yard.open(), &start.first);
    start
}

type Operation = fn(&Start, &Repository) -> Result<(), orchestra_workspace::GitWorkspaceError>;
type Check = fn(&Start, &Repository);

/// An operation, the preparation of the worktree, and the check of the result.
struct Case {
    name: &'static str,
    before: fn(&Start, &Path),
    operation: Operation,
    check: Check,
}

fn nothing(_: &Start, _: &Path) {}

fn loose(_: &Start, root: &Path) {
    write(root, "loose.txt", "loose\n");
    write(root, "a.txt", "edited\n");
}

/// Returns all set-aside work as text.
fn kept(start: &Start) -> String {
    let refs = start
        .yard
        .git(&["for-each-ref", "--format=%(objectname)", "refs/orchestra/kept"]);
    let each = refs.lines().map(|sha| start.yard.git(&["ls-tree", "-r", sha]));
    each.collect::<Vec<_>>().join("\n")
}

fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "ensure",
            before: |start, root| {
                run(root, &["switch", "-q", "-c", "elsewhere"]);
                start.tree(&start.yard.open()).remove().unwrap();
            },
            operation: |start, repository| start.tree(repository).ensure(&start.first, &start.base).map(drop),
            check: |start, repository| {
                let tree = start.taken_up(repository, &start.first);
                assert!(!tree.changed().unwrap());
                assert_eq!(read(&tree.root(), "first.txt"), "first\n");
            },
        },
        Case {
            name: "commit",
            before: loose,
            operation: |start, repository| {
                let tree = start.tree(repository);
                tree.ensure(&start.first, &start.base)?;
                assert!(tree.commit(&message("second"))?.is_some());
                Ok(())
            },
            check: |start, repository| {
                let tip = repository.tip("orchestra/poem/ab12").unwrap().unwrap();
                assert_eq!(shown(repository, &tip, "loose.txt"), "loose\n");
                assert!(repository.is_ancestor(&start.first, &tip).unwrap());
                assert!(!start.taken_up(repository, &tip).changed().unwrap());
            },
        },
        Case {
            name: "commit after an agent's own",
            before: |start, root| {
                run(root, &["checkout", "-q", "--detach", start.base.as_str()]);
                write(root, "own.txt", "own\n");
                run(root, &["add", "-A"]);
                run(root, &["commit", "-q", "-m", "own"]);
                loose(start, root);
            },
            operation: |start, repository| {
                let tree = start.tree(repository);
                tree.ensure(&start.first, &start.base)?;
                tree.commit(&message("second")).map(drop)
            },
            check: |_, repository| {
                let tip = repository.tip("orchestra/poem/ab12").unwrap().unwrap();
                assert_eq!(
                    shown(repository, &tip, "own.txt") + &shown(repository, &tip, "loose.txt"),
                    "own\nloose\n"
                );
            },
        },
        Case {
            name: "restore",
            before: loose,
            operation: |start, repository| {
                let tree = start.tree(repository);
                tree.ensure(&start.first, &start.base)?;
                tree.restore(&start.base).map(drop)
            },
            check: |start, repository| {
                let tree = start.taken_up(repository, &start.base);
                assert!(!tree.changed().unwrap() && !tree.root().join("first.txt").exists());
                assert!(kept(start).contains("loose.txt"));
            },
        },
        Case {
            name: "remove",
            before: loose,
            operation: |start, repository| start.tree(repository).remove().map(drop),
            check: |start, repository| {
                assert!(!start.tree(repository).path().exists());
                assert!(kept(start).contains("loose.txt"));
                assert!(!start.yard.git(&["worktree", "list"]).contains("trees"));
            },
        },
        Case {
            name: "advance",
            before: nothing,
            operation: |start, repository| {
                let tree = start.tree(repository);
                tree.ensure(&start.first, &start.base)?;
                let plan = plan(repository, &start.first, &start.sides[..1], &|_| message("join"))?;
                tree.advance(&start.first, &plan.clean)
            },
            check: |start, repository| {
                let tip = repository.tip("orchestra/poem/ab12").unwrap().unwrap();
                let tree = start.taken_up(repository, &tip);
                assert!(!tree.changed().unwrap());
                assert!(read(&tree.root(), "a.txt").starts_with("left\n"));
            },
        },
        Case {
            name: "open and finish",
            before: nothing,
            operation: |start, repository| {
                let tree = start.tree(repository);
                tree.ensure(&start.first, &start.base)?;
                let plan = plan(repository, &start.first, &start.sides, &|_| message("join"))?;
                let open = plan.open.unwrap();
                tree.open_merge(&plan.clean, &open.commit)?;
                let half = tree.finish_merge(&open.commit, &message("merge"))?;
                assert!(matches!(half, Finish::Unresolved { .. }));
                write(&tree.root(), "a.txt", "both\ntwo\nthree\n");
                let whole = tree.finish_merge(&open.commit, &message("merge"))?;
                assert!(matches!(whole, Finish::Merged(_)));
                Ok(())
            },
            check: |start, repository| {
                let tip = repository.tip("orchestra/poem/ab12").unwrap().unwrap();
                assert_eq!(shown(repository, &tip, "a.txt"), "both\ntwo\nthree\n");
                for side in &start.sides {
                    assert!(repository.is_ancestor(&side.sha, &tip).unwrap());
                }
                assert!(!start.taken_up(repository, &tip).changed().unwrap());
                assert_eq!(start.yard.git(&["for-each-ref", "refs/orchestra/open"]), "");
            },
        },
        Case {
            name: "resolve, and delete what is merged",
            before: nothing,
            operation: |start, repository| {
                let tree = start.tree(repository);
                tree.ensure(&start.first, &start.base)?;
                let plan = plan(repository, &start.first, &start.sides, &|_| message("join"))?;
                let merged = resolve(
                    repository,
                    &plan.open.unwrap().commit,
                    Favour::Theirs,
                    &message("taken"),
                )?;
                if tree.state()?.head != merged {
                    tree.advance(&start.first, &merged)?;
                }
                for side in ["left", "right"] {
                    repository.delete_branch(&format!("orchestra/poem/ab12-{side}"), &merged)?;
                }
                Ok(())
            },
            check: |start, repository| {
                let tip = repository.tip("orchestra/poem/ab12").unwrap().unwrap();
                assert!(shown(repository, &tip, "a.txt").starts_with("right\n"));
                assert_eq!(start.yard.git(&["branch", "--list", "orchestra/poem/ab12-*"]), "");
                assert_eq!(
                    start
                        .yard
                        .git(&["for-each-ref", "refs/orchestra/base"])
                        .lines()
                        .count(),
                    1
                );
            },
        },
        Case {
            name: "sweep",
            before: loose,
            operation: |start, repository| {
                let options = Sweep {
                    prefix: "orchestra/",
                    worktrees: start.yard.folder.path().join("trees"),
                    is_live: &|_| false,
                    now: SystemTime::UNIX_EPOCH,
                    unmerged: UnmergedCommits::Keep,
                    mode: SweepMode::Remove,
                };
                let swept = sweep(repository, &options)?;
                // A worktree that could not be removed is reported, and the next sweep removes it.
                if start.tree(repository).path().exists() {
                    assert!(!swept.kept.is_empty());
                    return Err(GitError::Missing.into());
                }
                Ok(())
            },
            check: |start, repository| {
                assert!(kept(start).contains("loose.txt"));
                for side in &start.sides {
                    let name = format!("orchestra/poem/ab12-{}", side.name);
                    assert_eq!(repository.tip(&name).unwrap(), Some(side.sha.clone()));
                }
            },
        },
    ]
}

/// Asserts that every commit is reachable, except for intermediate ones that can be computed again.
fn assert_named(start: &Start, case: &Case, reported: &str) {
    for line in common::unreachable(&start.yard)
        .lines()
        .filter(|line| line.contains(" commit "))
    {
        let sha = line.rsplit(' ').next().unwrap();
        let text = start.yard.git(&["log", "-1", "--format=%s", sha]);
        // Computed, but never checked out in a worktree.
        let plan = text.starts_with("orchestra: open merge") && case.name.starts_with("resolve");
        // The process was killed before it passed the message to git; nobody knows of this commit.
        let unfinished = text.trim().is_empty();
        assert!(
            plan || unfinished || text.trim() == "orchestra: step of a merge",
            "{reported}: {text}"
        );
    }
}

/// Injects a failure at one call of an operation, then completes the operation. Returns whether any call failed.
fn fail_once(case: &Case, at: usize, how: How) -> bool {
    let start = start();
    (case.before)(&start, &start.tree(&start.yard.open()).root());
    let before = start.yard.untouched();
    let failing = Failing {
        git: git(),
        calls: AtomicUsize::new(0),
        at,
        how,
    };
    let failed = (case.operation)(&start, &start.yard.open_with(Arc::new(failing))).is_err();
    let reported = format!("{} at {at}, {how:?}", case.name);
    // Another process takes over.
    let repository = start.yard.open();
    let finished = if failed {
        (case.operation)(&start, &repository)
    } else {
        Ok(())
    };
    assert!(finished.is_ok(), "{reported}: {finished:?}");
    (case.check)(&start, &repository);
    assert_eq!(start.yard.untouched(), before, "{reported}");
    assert_named(&start, case, &reported);
    failed
}

/// Injects one kind of failure at every fourth writing call from `first`, or at every call if `ORCHESTRA_KILLS` is set.
/// A call that is not made is nearly the same as a previous call whose result is lost.
fn fail_everywhere(how: How, first: usize) {
    let (first, step) = match std::env::var_os("ORCHESTRA_KILLS") {
        Some(_) => (1, 1),
        None => (first, 4),
    };
    let mut points = 0;
    for case in cases() {
        let mut at = first;
        while fail_once(&case, at, how) {
            at += step;
            points += 1;
        }
    }
    assert!(points > 15, "only {points} points");
}

/// A merge that is not checked out yet must not be mistaken for one that somebody works on: its files would be missing
/// from the commit.
#[test]
fn an_open_merge_has_a_name_only_when_its_files_are_there() {
    let mut at = 1;
    loop {
        let start = start();
        let repository = start.yard.open();
        let tree = start.tree(&repository);
        tree.ensure(&start.first, &start.base).unwrap();
        let plan = plan(&repository, &start.first, &start.sides, &|_| message("join")).unwrap();
        let open = plan.open.unwrap().commit;
        tree.restore(&plan.clean).unwrap();
        let failing = Failing {
            git: git(),
            calls: AtomicUsize::new(0),
            at,
            how: How::Before,
        };
        let troubled = start.yard.open_with(Arc::new(failing));
        let opened = start.tree(&troubled).open_merge(&plan.clean, &open);
        // Another process looks at the state.
        let repository = start.yard.open();
        let tree = start.tree(&repository);
        let state = tree.state().unwrap();
        let named = repository.open_merge_of(tree.branch()).unwrap();
        assert!(named.is_none() || state.dirty, "at {at}: {opened:?}, {state:?}");
        if opened.is_ok() {
            assert_eq!(named, Some(open));
            assert!(at > 3, "only {at} calls that write");
            return;
        }
        at += 1;
    }
}

#[test]
fn a_call_that_is_not_made_loses_nothing() {
    fail_everywhere(How::Before, 1);
}

#[test]
fn a_call_that_nobody_hears_of_loses_nothing() {
    fail_everywhere(How::After, 2);
}

/// Tries 20 points; set `ORCHESTRA_KILLS=500` to try more.
#[test]
fn a_git_that_is_killed_loses_nothing() {
    let kills = std::env::var("ORCHESTRA_KILLS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(20);
    let cases = cases();
    for kill in 0..kills {
        let case = &cases[kill % cases.len()];
        let at = 1 + (kill / cases.len()) % 12;
        let after = 200 + (kill as u64 * 977) % 4_000;
        fail_once(case, at, How::Killed(after));
    }
}

const CHILD: &str = "ORCHESTRA_TEST_KILLED";

/// The test program runs itself as a child and kills it. The child's git continues alone and holds the lock. Tries 16
/// points; set `ORCHESTRA_KILLS=500` to try more.
#[test]
fn a_process_that_is_killed_loses_nothing() {
    let cases = cases();
    if let Ok(reported) = std::env::var(CHILD) {
        let mut lines = reported.lines();
        let mut next = || lines.next().unwrap().to_owned();
        let name = next();
        let case = cases.iter().find(|case| case.name == name).unwrap();
        let user = std::path::PathBuf::from(next());
        let mut sha = || next().parse::<Sha>().unwrap();
        let (base, first) = (sha(), sha());
        let sides = ["left", "right"].map(|name| Side {
            name: name.into(),
            sha: sha(),
        });
        let start = Start {
            yard: Yard::at(&user),
            base,
            first,
            sides: sides.into(),
        };
        (case.operation)(&start, &start.yard.open()).unwrap();
        return;
    }
    let kills = std::env::var("ORCHESTRA_KILLS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(16);
    for kill in 0..kills {
        let case = &cases[kill % cases.len()];
        let start = start();
        (case.before)(&start, &start.tree(&start.yard.open()).root());
        let before = start.yard.untouched();
        let shas: Vec<&str> = [&start.base, &start.first]
            .into_iter()
            .chain(start.sides.iter().map(|side| &side.sha))
            .map(Sha::as_str)
            .collect();
        let reported = format!(
            "{}\n{}\n{}",
            case.name,
            start.yard.user.display(),
            shas.join("\n")
        );
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child
            .args(["--exact", "crash::a_process_that_is_killed_loses_nothing"])
            .env(CHILD, reported);
        let said = start.yard.folder.path().join("said");
        let file = std::fs::File::create(&said).unwrap();
        child.stderr(file.try_clone().unwrap()).stdout(file);
        let mut child = child.spawn().unwrap();
        std::thread::sleep(Duration::from_micros(5_000 + (kill as u64 * 7_919) % 120_000));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        let said = std::fs::read_to_string(&said).unwrap();
        assert!(
            status.code().is_none_or(|code| code == 0),
            "{} failed by itself: {said}",
            case.name
        );
        let repository = start.yard.open();
        let reported = format!("{} at kill {kill}", case.name);
        // The operation succeeded before the kill, or it succeeds now.
        let finished = (case.operation)(&start, &repository);
        assert!(finished.is_ok(), "{reported}: {finished:?}");
        (case.check)(&start, &repository);
        assert_eq!(start.yard.untouched(), before, "{reported}");
        assert_named(&start, case, &reported);
    }
}
