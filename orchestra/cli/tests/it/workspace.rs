//! Runs in git repositories, through the program: the final location of the work, merges that a person finishes, and
//! errors.

#![cfg(unix)]

use crate::workspace_support;

use workspace_support::{
    CONFIGURATION, LIST, ONE, Started, branch, branches, conflict, gate, git, pair, trees, user_is_left_alone,
};

#[test]
fn the_work_is_on_a_branch_and_it_is_said_how_to_look_at_it_and_to_merge_it() {
    let scratch = pair();
    scratch.write("one.dot", ONE);
    let done = scratch.call(&["run", "one.dot"]).exits(0);
    let branch = branch(&scratch, "backend");
    assert!(branch.starts_with("orchestra/one/"), "{branch}");
    let base = git(&scratch, "backend", &["rev-parse", "main"]);
    let begun: Vec<&str> = done.stderr.lines().take(3).map(str::trim).collect();
    assert_eq!(begun[0], "one");
    assert_eq!(begun[1], format!("backend   {branch} from {}", &base[..8]));
    assert!(begun[2].starts_with("frontend  bot/one/"), "{}", begun[2]);
    for line in [
        format!("backend: 1 commit on {branch}\n"),
        format!(
            "  look at it with: git -C ./backend log -p {}..{branch}\n",
            &base[..8]
        ),
        format!("  merge it with:   git -C ./backend merge {branch}\n"),
        "frontend: no commits on bot/one/".to_owned(),
    ] {
        assert!(done.stderr.contains(&line), "{line}\n{}", done.stderr);
    }
    assert_eq!(
        git(&scratch, "backend", &["show", &format!("{branch}:new.txt")]),
        "new\n"
    );
    user_is_left_alone(&scratch);
    assert_eq!((trees(&scratch, "backend"), trees(&scratch, "frontend")), (0, 0));

    let status = scratch.call(&["status", "last"]).exits(0).stdout;
    assert!(
        status.contains(&format!("works on    backend   {branch} from ")),
        "{status}"
    );
    assert!(status.contains(", nothing changed\n"), "{status}");
    let points = scratch.call(&["checkpoints", "last"]).exits(0).stdout;
    let tip = git(&scratch, "backend", &["rev-parse", &branch]);
    assert!(points.contains(&format!("backend {}", &tip[..8])), "{points}");
}

#[test]
fn programs_are_told_the_branches_in_the_result_and_in_the_status() {
    let scratch = pair();
    scratch.write("one.dot", ONE);
    let result = scratch.call(&["run", "one.dot", "--json"]).exits(0).result();
    let branch = branch(&scratch, "backend");
    let tip = git(&scratch, "backend", &["rev-parse", &branch]);
    let base = git(&scratch, "backend", &["rev-parse", "main"]);
    let backend = &result["workspace"]["backend"];
    assert_eq!(backend["branch"], branch.as_str());
    assert_eq!(backend["git_sha"], tip.trim());
    assert_eq!(backend["base"], base.trim());
    assert_eq!(
        result["workspace"]["frontend"]["git_sha"],
        result["workspace"]["frontend"]["base"]
    );
    let status = scratch
        .call(&["status", "last", "--json"])
        .exits(0)
        .objects()
        .remove(0);
    assert_eq!(status["workspace"], result["workspace"]);
    let points = scratch
        .call(&["checkpoints", "last", "--json"])
        .exits(0)
        .objects()
        .remove(0);
    let points = points["checkpoints"].as_array().unwrap();
    let saved = points.iter().find(|point| !point["workspace"].is_null()).unwrap();
    assert_eq!(saved["workspace"]["backend"]["git_sha"], tip.trim());

    // A simulated run uses no repository.
    let result = scratch
        .call(&["run", "one.dot", "--simulate", "--json"])
        .exits(0)
        .result();
    assert!(result.get("workspace").is_none(), "{result}");
    assert_eq!(branches(&scratch, "backend").len(), 1);
}

#[test]
fn a_conflict_is_answered_from_another_process() {
    let scratch = pair();
    scratch.write("two.dot", conflict("on_conflict=human"));
    // A person is at the terminal, but does not answer.
    let mut command = scratch.command(&["run", "two.dot"]);
    command.stdin(std::process::Stdio::piped());
    let (mut run, _input) = Started::from_command(command);
    let asked = run.until(|object| object["event"] == "InterviewStarted");
    let text = asked["question"]["text"].as_str().unwrap();
    assert!(text.contains("frontend: list.txt"), "{text}");
    let id = asked["run"].as_str().unwrap();
    scratch.call(&["answer", id, "join", "T"]).exits(0);
    let result = run.end().exits(0).result();
    let branch = result["workspace"]["frontend"]["branch"].as_str().unwrap();
    let list = git(&scratch, "frontend", &["show", &format!("{branch}:list.txt")]);
    assert_eq!(list, LIST.replace("two", "two right"));
    let parents = git(&scratch, "frontend", &["log", "-1", "--format=%p", branch]);
    assert_eq!(parents.split_whitespace().count(), 2, "{parents}");
    user_is_left_alone(&scratch);
}

#[test]
fn a_merge_is_answered_while_nobody_executes_the_run() {
    let scratch = pair();
    scratch.write("two.dot", conflict("on_conflict=human"));
    scratch.call(&["run", "two.dot"]).exits(5);
    scratch.call(&["answer", "last", "join", "T"]).exits(0);
    let result = scratch.start(&["resume", "last"]).end().exits(0).result();
    let branch = result["workspace"]["frontend"]["branch"].as_str().unwrap();
    let list = git(&scratch, "frontend", &["show", &format!("{branch}:list.txt")]);
    assert_eq!(list, LIST.replace("two", "two right"));
    user_is_left_alone(&scratch);
}

#[test]
fn a_merge_that_nobody_finishes_waits_and_is_finished_later() {
    let scratch = pair();
    scratch.write("two.dot", conflict("on_conflict=human"));
    let done = scratch.call(&["run", "two.dot"]).exits(5);
    assert!(
        done.stderr.contains("answer it with `--answer join=D`"),
        "{}",
        done.stderr
    );
    assert!(!done.stderr.contains("merge it with"), "{}", done.stderr);
    scratch
        .call(&["resume", "last", "--answer", "join=theirs"])
        .exits(2);
    // Resolve the conflict by editing the worktree that the question names.
    let run = scratch.runs().remove(0);
    let file = format!(".orchestra/worktrees/{run}/session/frontend/list.txt");
    assert!(scratch.read(&file).contains("<<<<<<<"));
    // Whoever says that it is done too early is asked again, and loses nothing.
    let early = scratch.call(&["resume", "last", "--answer", "join=D"]).exits(5);
    assert!(
        early.stderr.contains("Conflict markers are still left in"),
        "{}",
        early.stderr
    );
    scratch.call(&["answer", "last", "join", "D"]).exits(0);
    let again = scratch.call(&["resume", "last"]).exits(5);
    assert!(
        again.stderr.contains("Conflict markers are still left in"),
        "{}",
        again.stderr
    );
    assert!(scratch.read(&file).contains("<<<<<<<"));
    scratch.write(&file, LIST.replace("two", "both"));
    scratch.call(&["answer", "last", "join", "D"]).exits(0);
    scratch.call(&["resume", "last"]).exits(0);
    let branch = branch(&scratch, "frontend");
    let list = git(&scratch, "frontend", &["show", &format!("{branch}:list.txt")]);
    assert_eq!(list, LIST.replace("two", "both"));
    user_is_left_alone(&scratch);
}

#[test]
fn a_merge_that_is_refused_tells_the_files_and_the_branches() {
    let scratch = pair();
    scratch.write("two.dot", conflict("on_conflict=fail"));
    let done = scratch.call(&["run", "two.dot"]).exits(1);
    assert!(
        done.stderr.contains("  conflict: list.txt (content)\n"),
        "{}",
        done.stderr
    );
    for line in ["left, 1 commit\n", "right, 1 commit\n"] {
        assert!(
            done.stderr
                .lines()
                .any(|found| found.starts_with("  not merged into it: bot/two/")
                    && format!("{found}\n").ends_with(line)),
            "{}",
            done.stderr
        );
    }
    user_is_left_alone(&scratch);
}

#[test]
fn a_run_that_is_killed_goes_on_in_its_trees() {
    let scratch = pair();
    let text = r#"digraph slow {
    node [shape=parallelogram, repo=backend]
    start [shape=Mdiamond]
    exit [shape=Msquare]
    start -> first -> second -> exit
    first [tool_command="echo first > first.txt"]
    second [tool_command="test -f first.txt && echo second >> second.txt; while ! test -f GO; do sleep 0.01; done"]
}
"#;
    scratch.write(
        "slow.dot",
        text.replace("GO", scratch.path("go").to_str().unwrap()),
    );
    let mut run = scratch.start(&["run", "slow.dot"]);
    let id = run.until_stage("second")["run"].as_str().unwrap().to_owned();
    let half = format!(".orchestra/worktrees/{id}/session/backend/second.txt");
    scratch.until("the second stage writes", |scratch| scratch.lines(&half) == 1);
    run.signal("KILL");
    assert_eq!(run.end().code, -1);
    scratch.write("go", "");
    // The partial work of the stage is set aside, so it is done once.
    scratch.call(&["resume", &id]).exits(0);
    let branch = branch(&scratch, "backend");
    let second = git(&scratch, "backend", &["show", &format!("{branch}:second.txt")]);
    assert_eq!(second, "second\n");
    let log = git(
        &scratch,
        "backend",
        &["log", "--format=%s", &format!("main..{branch}")],
    );
    assert_eq!(log.lines().count(), 2, "{log}");
    let kept = git(&scratch, "backend", &["for-each-ref", "refs/orchestra/kept"]);
    assert_eq!(kept.lines().count(), 1, "{kept}");
    user_is_left_alone(&scratch);
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_that_waits_for_the_lock_of_a_repository_is_interrupted_by_a_signal() {
    let scratch = pair();
    scratch.write("one.dot", ONE);
    // Another run that is suspended during an operation would hold the lock like this.
    let lock = std::fs::File::create(scratch.path("backend/.git/orchestra.lock")).unwrap();
    lock.lock().unwrap();
    let run = scratch.start(&["run", "one.dot"]);
    // The run waits once it has created its folder and opened the lock file.
    scratch.until("the run waits", |_| {
        let opened = std::fs::read_dir(format!("/proc/{}/fd", run.pid()));
        let mut opened = opened.into_iter().flatten().flatten();
        opened.any(|file| std::fs::read_link(file.path()).is_ok_and(|file| file.ends_with("orchestra.lock")))
    });
    run.signal("INT");
    let begun = std::time::Instant::now();
    let stopped = run.end().exits(130);
    // The timeout of the lock itself is five minutes.
    assert!(begun.elapsed() < std::time::Duration::from_secs(60));
    assert_eq!(
        stopped.objects().last().unwrap()["code"],
        "stopped",
        "{}",
        stopped.stdout
    );
    drop(lock);
    scratch.call(&["run", "one.dot"]).exits(0);
}

#[test]
fn a_run_is_replayed_from_the_attempt_that_a_commit_names() {
    let scratch = pair();
    let text = ONE.replace("-> exit", "-> again -> exit") + "// changed in the same place by the second\n";
    let text = text.replace(
        "write [",
        "again [shape=parallelogram, repo=backend, tool_command=\"cat new.txt > again.txt; date +%N > when.txt\"]\n    write [",
    );
    scratch.write("one.dot", text);
    let first = scratch.call(&["run", "one.dot", "--json"]).exits(0).result();
    let branch = first["workspace"]["backend"]["branch"].as_str().unwrap();
    let named = git(
        &scratch,
        "backend",
        &[
            "log",
            "-1",
            "--format=%(trailers:key=Orchestra-Checkpoint,valueonly)",
            &format!("{branch}~1"),
        ],
    );
    assert_eq!(named.trim(), "write#1/1");
    let again = scratch
        .call(&["replay", "last", "--checkpoint", named.trim(), "--json"])
        .exits(0)
        .result();
    let other = again["workspace"]["backend"]["branch"].as_str().unwrap();
    assert_ne!(other, branch);
    // The replay begins at the commit at which that attempt ended, not at a later one.
    let parents = |branch: &str| git(&scratch, "backend", &["rev-parse", &format!("{branch}~1")]);
    assert_eq!(parents(other), parents(branch));
    assert_eq!(again["path"], first["path"]);
    user_is_left_alone(&scratch);
}

#[test]
fn what_no_run_can_work_in_is_refused_with_its_place() {
    let scratch = pair();
    scratch.write("one.dot", ONE);
    std::fs::rename(scratch.path("frontend"), scratch.path("elsewhere")).unwrap();
    let refused = scratch.call(&["run", "one.dot"]).exits(3);
    assert_eq!(
        refused.stderr,
        "error[repository_missing]: repository `frontend`: there is no folder `frontend`; correct its path or clone it \
         there\n  help: `frontend` is defined at orchestra.yaml:4:22\n"
    );
    assert_eq!(scratch.runs(), Vec::<String>::new());
    assert_eq!(branches(&scratch, "backend"), Vec::<String>::new());
    std::fs::create_dir(scratch.path("frontend")).unwrap();
    git(&scratch, "frontend", &["init", "-q"]);
    let refused = scratch
        .call(&["run", "one.dot", "--json"])
        .exits(3)
        .objects()
        .remove(0);
    assert_eq!(refused["code"], "no_commit");
    assert_eq!(refused["help"], "`frontend` is defined at orchestra.yaml:4:22");
}

#[test]
fn a_run_that_is_resumed_without_its_repositories_is_refused() {
    let scratch = pair();
    scratch.write("gate.dot", gate(""));
    scratch.call(&["run", "gate.dot"]).exits(5);
    scratch.write(
        "orchestra.yaml",
        "workspace: {repos: {backend: {path: backend}}}\n",
    );
    let refused = scratch
        .call(&["resume", "last", "--answer", "approve=Y"])
        .exits(3);
    assert!(
        refused.stderr.starts_with("error[other_repositories]: "),
        "{}",
        refused.stderr
    );
    std::fs::remove_file(scratch.path("orchestra.yaml")).unwrap();
    let refused = scratch
        .call(&["resume", "last", "--answer", "approve=Y"])
        .exits(3);
    assert!(
        refused.stderr.starts_with("error[no_workspace]: "),
        "{}",
        refused.stderr
    );
    scratch.write("orchestra.yaml", CONFIGURATION);
    scratch
        .call(&["resume", "last", "--answer", "approve=Y"])
        .exits(0);
}

#[test]
fn a_paused_run_that_is_ended_elsewhere_keeps_what_a_person_changed_in_its_trees() {
    let scratch = pair();
    scratch.write(
        "gate.dot",
        r#"digraph gate {
    start -> write -> ask
    write [shape=parallelogram, repo=backend, tool_command="echo new > new.txt"]
    ask [shape=hexagon]
    ask -> exit [label="[Y] Yes"]
}
"#,
    );
    scratch.call(&["run", "gate.dot"]).exits(5);
    let run = scratch.runs().remove(0);
    scratch.write(
        &format!(".orchestra/worktrees/{run}/session/backend/mine.txt"),
        "mine
",
    );
    scratch.call(&["answer", "last", "ask", "Y"]).exits(0);
    assert_eq!((trees(&scratch, "backend"), trees(&scratch, "frontend")), (0, 0));
    let branch = branch(&scratch, "backend");
    assert_eq!(
        git(&scratch, "backend", &["show", &format!("{branch}:mine.txt")]),
        "mine\n"
    );
    user_is_left_alone(&scratch);
}
