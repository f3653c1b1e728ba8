//! Runs in git repositories, through the program: the final location of the work, merges that a person finishes,
//! errors, and `cleanup`.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::process::Command;

use serde_json::Value;
use support::Scratch;

const CONFIGURATION: &str = "workspace:
  repos:
    backend: {path: backend}
    frontend: {path: frontend, branch_prefix: bot/}
";

const LIST: &str = "one\n-\n-\n-\ntwo\n";

/// A user's repositories with one commit each, and the configuration that names them. There is no git identity.
fn pair() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("orchestra.yaml", CONFIGURATION);
    for name in ["backend", "frontend"] {
        scratch.write(&format!("{name}/list.txt"), LIST);
        git(&scratch, name, &["init", "-q", "-b", "main"]);
        git(&scratch, name, &["add", "-A"]);
        let (user, mail) = ("user.name=me", "user.email=me@localhost");
        git(
            &scratch,
            name,
            &["-c", user, "-c", mail, "commit", "-q", "-m", "start"],
        );
    }
    scratch
}

/// Runs git in a repository without the configuration of the user who runs the test.
#[track_caller]
fn git(scratch: &Scratch, name: &str, words: &[&str]) -> String {
    let said = Command::new("git")
        .arg("-C")
        .arg(scratch.path(name))
        .args(words)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8(said.stdout).unwrap()
}

/// Returns the branches of a repository besides the user's own.
fn branches(scratch: &Scratch, name: &str) -> Vec<String> {
    let told = git(
        scratch,
        name,
        &["for-each-ref", "--format=%(refname:short)", "refs/heads"],
    );
    told.lines()
        .filter(|branch| *branch != "main")
        .map(str::to_owned)
        .collect()
}

/// Returns the branch of the only run in a repository.
#[track_caller]
fn branch(scratch: &Scratch, name: &str) -> String {
    let [branch] = &branches(scratch, name)[..] else {
        panic!("{:?}", branches(scratch, name));
    };
    branch.clone()
}

fn trees(scratch: &Scratch, name: &str) -> usize {
    git(scratch, name, &["worktree", "list"]).lines().count() - 1
}

#[track_caller]
fn user_is_left_alone(scratch: &Scratch) {
    for name in ["backend", "frontend"] {
        assert_eq!(git(scratch, name, &["status", "--porcelain"]), "", "{name}");
        assert_eq!(
            git(scratch, name, &["log", "--format=%s", "main"]),
            "start\n",
            "{name}"
        );
        assert_eq!(scratch.read(&format!("{name}/list.txt")), LIST);
    }
}

/// One stage that writes to one repository.
const ONE: &str = r#"digraph one {
    start -> write -> exit
    write [shape=parallelogram, repo=backend, tool_command="echo new > new.txt"]
}
"#;

/// Two branches that change the same line of the frontend, each with a separate file in the backend.
fn conflict(join: &str) -> String {
    format!(
        r#"digraph two {{
    node [shape=parallelogram]
    start [shape=Mdiamond]
    exit [shape=Msquare]
    fan [shape=component]
    left [tool_command="sed 's/two/two left/' frontend/list.txt > l && mv l frontend/list.txt; echo left > backend/left.txt"]
    right [tool_command="sed 's/two/two right/' frontend/list.txt > r && mv r frontend/list.txt; echo right > backend/right.txt"]
    join [shape=tripleoctagon, {join}]
    start -> fan
    fan -> left -> join
    fan -> right -> join
    join -> exit
}}
"#
    )
}

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
    let (mut run, _input) = support::Started::from_command(command);
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
        done.stderr.contains("answer it with `--answer join=T`"),
        "{}",
        done.stderr
    );
    assert!(!done.stderr.contains("merge it with"), "{}", done.stderr);
    scratch
        .call(&["resume", "last", "--answer", "join=what"])
        .exits(2);
    // Resolve the conflict by editing the worktree that the question names.
    let run = scratch.runs().remove(0);
    let file = format!(".orchestra/worktrees/{run}/session/frontend/list.txt");
    assert!(scratch.read(&file).contains("<<<<<<<"));
    scratch.write(&file, LIST.replace("two", "both"));
    scratch.call(&["resume", "last", "--answer", "join=D"]).exits(0);
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
    scratch.write("gate.dot", support::gate(""));
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

/// Returns the report of `cleanup` on repositories: the status, the kind, and the name up to the id of the run.
fn cleaned(scratch: &Scratch, options: &[&str]) -> Vec<(String, String, String)> {
    let words = [&["cleanup", "--older-than", "0s", "--json"], options].concat();
    let objects = scratch.call(&words).exits(0).objects();
    let of = objects
        .iter()
        .filter(|object| object["schema"] == "orchestra.cleanup_repository/1");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    of.map(|object| {
        (
            text(&object["status"]),
            text(&object["kind"]),
            text(&object["name"]),
        )
    })
    .collect()
}

fn is(found: &[(String, String, String)], status: &str, name: &str) -> bool {
    found
        .iter()
        .any(|(one, _, other)| one == status && other.ends_with(name))
}

#[test]
fn cleanup_removes_what_is_merged_and_never_what_would_be_lost() {
    let scratch = pair();
    scratch.write("one.dot", ONE);
    scratch.call(&["run", "one.dot"]).exits(0);
    let (own, empty) = (branch(&scratch, "backend"), branch(&scratch, "frontend"));
    let dry = cleaned(&scratch, &["--dry-run"]);
    assert!(
        is(&dry, "kept", &own) && is(&dry, "would_be_removed", &empty),
        "{dry:?}"
    );
    assert_eq!(branches(&scratch, "frontend"), [empty.as_str()]);
    let told = scratch
        .call(&["cleanup", "--older-than", "0s", "--dry-run"])
        .exits(0);
    let row = told.stdout.lines().find(|line| line.contains(&own)).unwrap();
    assert!(
        row.starts_with("kept ") && row.ends_with("one commit would be lost; merge it, or force its removal"),
        "{row}"
    );

    let found = cleaned(&scratch, &[]);
    assert!(
        is(&found, "kept", &own) && is(&found, "removed", &empty),
        "{found:?}"
    );
    assert_eq!(branches(&scratch, "backend"), [own.as_str()]);
    assert_eq!(branches(&scratch, "frontend"), Vec::<String>::new());
    // The run folder is gone, but the configuration still names the repositories.
    assert_eq!(scratch.runs(), Vec::<String>::new());
    git(&scratch, "backend", &["merge", "-q", "--ff-only", &own]);
    let found = cleaned(&scratch, &[]);
    assert!(is(&found, "removed", &own), "{found:?}");
    assert_eq!(git(&scratch, "backend", &["for-each-ref", "refs/orchestra"]), "");
}

#[test]
fn cleanup_by_force_removes_what_is_old_enough() {
    let scratch = pair();
    scratch.write("one.dot", ONE);
    scratch.call(&["run", "one.dot"]).exits(0);
    let own = branch(&scratch, "backend");
    scratch
        .call(&["cleanup", "--older-than", "1d", "--force"])
        .exits(0);
    assert_eq!(branches(&scratch, "backend"), [own.as_str()]);
    let found = cleaned(&scratch, &["--force"]);
    assert!(is(&found, "removed", &own), "{found:?}");
    assert_eq!(
        git(
            &scratch,
            "backend",
            &["for-each-ref", "refs/orchestra", "refs/heads/orchestra"]
        ),
        ""
    );
}

#[test]
fn cleanup_leaves_a_paused_run_alone_unless_its_folder_goes() {
    let scratch = pair();
    scratch.write("two.dot", conflict("on_conflict=human"));
    scratch.call(&["run", "two.dot"]).exits(5);
    let (before, made) = (branches(&scratch, "backend"), trees(&scratch, "backend"));
    assert!(made > 0);
    assert_eq!(cleaned(&scratch, &[]), []);
    assert_eq!(cleaned(&scratch, &["--force"]), []);
    assert_eq!(
        (branches(&scratch, "backend"), trees(&scratch, "backend")),
        (before.clone(), made)
    );

    let found = cleaned(&scratch, &["--paused"]);
    assert!(
        found
            .iter()
            .any(|(status, kind, _)| status == "removed" && kind == "tree"),
        "{found:?}"
    );
    assert_eq!(trees(&scratch, "backend"), 0);
    // The work is still on branches, because nothing of it is merged.
    let all = git(&scratch, "frontend", &["log", "--branches", "--format=%s"]);
    assert!(all.contains("left: ") && all.contains("right: "), "{all}");
    cleaned(&scratch, &["--force"]);
    assert_eq!(branches(&scratch, "backend"), Vec::<String>::new());
    user_is_left_alone(&scratch);
}

#[test]
fn a_leftover_of_a_run_that_is_gone_is_swept_and_blocks_no_other() {
    let scratch = pair();
    scratch.write("two.dot", conflict("on_conflict=human"));
    scratch.call(&["run", "two.dot"]).exits(5);
    std::fs::remove_dir_all(scratch.path(".orchestra/runs")).unwrap();
    // The run may be stored elsewhere as long as its worktrees are recent.
    let young = scratch.call(&["cleanup", "--json"]).exits(0).objects();
    assert!(
        young.iter().all(|object| object["status"] != "removed"),
        "{young:?}"
    );
    assert!(trees(&scratch, "backend") > 0);
    let found = cleaned(&scratch, &[]);
    assert!(
        found
            .iter()
            .any(|(status, kind, _)| status == "removed" && kind == "tree"),
        "{found:?}"
    );
    assert_eq!(trees(&scratch, "backend"), 0);
    scratch.call(&["run", "two.dot", "--answer", "join=O"]).exits(0);
    user_is_left_alone(&scratch);
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
