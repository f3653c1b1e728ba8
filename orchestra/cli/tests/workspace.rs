//! Runs in git repositories, through the program: where the work is in the end, how a person finishes a merge, what is
//! refused, and what `cleanup` removes.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::process::Command;

use serde_json::Value;
use support::Place;

const CONFIGURATION: &str = "workspace:
  repos:
    backend: {path: backend}
    frontend: {path: frontend, branch_prefix: bot/}
";

const LIST: &str = "one\n-\n-\n-\ntwo\n";

/// A person's repositories, with a commit each, and the configuration that names them. There is no git identity.
fn pair() -> Place {
    let place = Place::new();
    place.write("orchestra.yaml", CONFIGURATION);
    for name in ["backend", "frontend"] {
        place.write(&format!("{name}/list.txt"), LIST);
        git(&place, name, &["init", "-q", "-b", "main"]);
        git(&place, name, &["add", "-A"]);
        let (user, mail) = ("user.name=me", "user.email=me@localhost");
        git(
            &place,
            name,
            &["-c", user, "-c", mail, "commit", "-q", "-m", "start"],
        );
    }
    place
}

/// What git says in a repository, without any configuration of who runs the test.
#[track_caller]
fn git(place: &Place, name: &str, words: &[&str]) -> String {
    let said = Command::new("git")
        .arg("-C")
        .arg(place.path(name))
        .args(words)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8(said.stdout).unwrap()
}

/// The branches of a repository beside the person's own.
fn branches(place: &Place, name: &str) -> Vec<String> {
    let told = git(
        place,
        name,
        &["for-each-ref", "--format=%(refname:short)", "refs/heads"],
    );
    told.lines()
        .filter(|branch| *branch != "main")
        .map(str::to_owned)
        .collect()
}

/// The branch of the only run in a repository.
#[track_caller]
fn branch(place: &Place, name: &str) -> String {
    let [branch] = &branches(place, name)[..] else {
        panic!("{:?}", branches(place, name));
    };
    branch.clone()
}

fn trees(place: &Place, name: &str) -> usize {
    git(place, name, &["worktree", "list"]).lines().count() - 1
}

#[track_caller]
fn user_is_left_alone(place: &Place) {
    for name in ["backend", "frontend"] {
        assert_eq!(git(place, name, &["status", "--porcelain"]), "", "{name}");
        assert_eq!(
            git(place, name, &["log", "--format=%s", "main"]),
            "start\n",
            "{name}"
        );
        assert_eq!(place.read(&format!("{name}/list.txt")), LIST);
    }
}

/// One stage that writes into one repository.
const ONE: &str = r#"digraph one {
    start -> write -> exit
    write [shape=parallelogram, repo=backend, tool_command="echo new > new.txt"]
}
"#;

/// Two branches that change one line of the frontend, each with a file of its own in the backend.
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
    let place = pair();
    place.write("one.dot", ONE);
    let done = place.call(&["run", "one.dot"]).exits(0);
    let branch = branch(&place, "backend");
    assert!(branch.starts_with("orchestra/one/"), "{branch}");
    let base = git(&place, "backend", &["rev-parse", "main"]);
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
        git(&place, "backend", &["show", &format!("{branch}:new.txt")]),
        "new\n"
    );
    user_is_left_alone(&place);
    assert_eq!((trees(&place, "backend"), trees(&place, "frontend")), (0, 0));

    let status = place.call(&["status", "last"]).exits(0).stdout;
    assert!(
        status.contains(&format!("works on    backend   {branch} from ")),
        "{status}"
    );
    assert!(status.contains(", nothing changed\n"), "{status}");
    let points = place.call(&["checkpoints", "last"]).exits(0).stdout;
    let tip = git(&place, "backend", &["rev-parse", &branch]);
    assert!(points.contains(&format!("backend {}", &tip[..8])), "{points}");
}

#[test]
fn programs_are_told_the_branches_in_the_result_and_in_the_status() {
    let place = pair();
    place.write("one.dot", ONE);
    let result = place.call(&["run", "one.dot", "--json"]).exits(0).result();
    let branch = branch(&place, "backend");
    let tip = git(&place, "backend", &["rev-parse", &branch]);
    let base = git(&place, "backend", &["rev-parse", "main"]);
    let backend = &result["workspace"]["backend"];
    assert_eq!(backend["branch"], branch.as_str());
    assert_eq!(backend["git_sha"], tip.trim());
    assert_eq!(backend["base"], base.trim());
    assert_eq!(
        result["workspace"]["frontend"]["git_sha"],
        result["workspace"]["frontend"]["base"]
    );
    let status = place
        .call(&["status", "last", "--json"])
        .exits(0)
        .objects()
        .remove(0);
    assert_eq!(status["workspace"], result["workspace"]);
    let points = place
        .call(&["checkpoints", "last", "--json"])
        .exits(0)
        .objects()
        .remove(0);
    let points = points["checkpoints"].as_array().unwrap();
    let saved = points.iter().find(|point| !point["workspace"].is_null()).unwrap();
    assert_eq!(saved["workspace"]["backend"]["git_sha"], tip.trim());

    // A simulated run works nowhere.
    let result = place
        .call(&["run", "one.dot", "--simulate", "--json"])
        .exits(0)
        .result();
    assert!(result.get("workspace").is_none(), "{result}");
    assert_eq!(branches(&place, "backend").len(), 1);
}

#[test]
fn a_conflict_is_answered_from_another_process() {
    let place = pair();
    place.write("two.dot", conflict("on_conflict=human"));
    // A person sits at its terminal, and says nothing.
    let mut command = place.command(&["run", "two.dot"]);
    command.stdin(std::process::Stdio::piped());
    let (mut run, _input) = support::Started::of(command);
    let asked = run.until(|object| object["event"] == "InterviewStarted");
    let text = asked["question"]["text"].as_str().unwrap();
    assert!(text.contains("frontend: list.txt"), "{text}");
    let id = asked["run"].as_str().unwrap();
    place.call(&["answer", id, "join", "T"]).exits(0);
    let result = run.end().exits(0).result();
    let branch = result["workspace"]["frontend"]["branch"].as_str().unwrap();
    let list = git(&place, "frontend", &["show", &format!("{branch}:list.txt")]);
    assert_eq!(list, LIST.replace("two", "two right"));
    let parents = git(&place, "frontend", &["log", "-1", "--format=%p", branch]);
    assert_eq!(parents.split_whitespace().count(), 2, "{parents}");
    user_is_left_alone(&place);
}

#[test]
fn a_merge_is_answered_while_nobody_executes_the_run() {
    let place = pair();
    place.write("two.dot", conflict("on_conflict=human"));
    place.call(&["run", "two.dot"]).exits(5);
    place.call(&["answer", "last", "join", "T"]).exits(0);
    let result = place.start(&["resume", "last"]).end().exits(0).result();
    let branch = result["workspace"]["frontend"]["branch"].as_str().unwrap();
    let list = git(&place, "frontend", &["show", &format!("{branch}:list.txt")]);
    assert_eq!(list, LIST.replace("two", "two right"));
    user_is_left_alone(&place);
}

#[test]
fn a_merge_that_nobody_finishes_waits_and_is_finished_later() {
    let place = pair();
    place.write("two.dot", conflict("on_conflict=human"));
    let done = place.call(&["run", "two.dot"]).exits(5);
    assert!(
        done.stderr.contains("answer it with `--answer join=T`"),
        "{}",
        done.stderr
    );
    assert!(!done.stderr.contains("merge it with"), "{}", done.stderr);
    place.call(&["resume", "last", "--answer", "join=what"]).exits(2);
    // By hand, in the tree that the question names.
    let run = place.runs().remove(0);
    let file = format!(".orchestra/worktrees/{run}/session/frontend/list.txt");
    assert!(place.read(&file).contains("<<<<<<<"));
    place.write(&file, LIST.replace("two", "both"));
    place.call(&["resume", "last", "--answer", "join=D"]).exits(0);
    let branch = branch(&place, "frontend");
    let list = git(&place, "frontend", &["show", &format!("{branch}:list.txt")]);
    assert_eq!(list, LIST.replace("two", "both"));
    user_is_left_alone(&place);
}

#[test]
fn a_merge_that_is_refused_tells_the_files_and_the_branches() {
    let place = pair();
    place.write("two.dot", conflict("on_conflict=fail"));
    let done = place.call(&["run", "two.dot"]).exits(1);
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
    user_is_left_alone(&place);
}

#[test]
fn a_run_that_is_killed_goes_on_in_its_trees() {
    let place = pair();
    let text = r#"digraph slow {
    node [shape=parallelogram, repo=backend]
    start [shape=Mdiamond]
    exit [shape=Msquare]
    start -> first -> second -> exit
    first [tool_command="echo first > first.txt"]
    second [tool_command="test -f first.txt && echo second >> second.txt; while ! test -f GO; do sleep 0.01; done"]
}
"#;
    place.write("slow.dot", text.replace("GO", place.path("go").to_str().unwrap()));
    let mut run = place.start(&["run", "slow.dot"]);
    let id = run.until_stage("second")["run"].as_str().unwrap().to_owned();
    let half = format!(".orchestra/worktrees/{id}/session/backend/second.txt");
    place.until("the second stage writes", |place| place.lines(&half) == 1);
    run.signal("KILL");
    assert_eq!(run.end().code, -1);
    place.write("go", "");
    // What the stage had half done is set aside, so it is done once.
    place.call(&["resume", &id]).exits(0);
    let branch = branch(&place, "backend");
    let second = git(&place, "backend", &["show", &format!("{branch}:second.txt")]);
    assert_eq!(second, "second\n");
    let log = git(
        &place,
        "backend",
        &["log", "--format=%s", &format!("main..{branch}")],
    );
    assert_eq!(log.lines().count(), 2, "{log}");
    let kept = git(&place, "backend", &["for-each-ref", "refs/orchestra/kept"]);
    assert_eq!(kept.lines().count(), 1, "{kept}");
    user_is_left_alone(&place);
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_that_waits_for_the_lock_of_a_repository_is_interrupted_by_a_signal() {
    let place = pair();
    place.write("one.dot", ONE);
    // Another run, frozen in the midst of an operation, would hold it so.
    let lock = std::fs::File::create(place.path("backend/.git/orchestra.lock")).unwrap();
    lock.lock().unwrap();
    let run = place.start(&["run", "one.dot"]);
    // It waits once it has made its folder and taken the lock's file in hand.
    place.until("the run waits", |_| {
        let opened = std::fs::read_dir(format!("/proc/{}/fd", run.pid()));
        let mut opened = opened.into_iter().flatten().flatten();
        opened.any(|file| std::fs::read_link(file.path()).is_ok_and(|file| file.ends_with("orchestra.lock")))
    });
    run.signal("INT");
    let begun = std::time::Instant::now();
    let stopped = run.end().exits(130);
    // The lock itself is waited for five minutes.
    assert!(begun.elapsed() < std::time::Duration::from_secs(60));
    assert_eq!(
        stopped.objects().last().unwrap()["code"],
        "stopped",
        "{}",
        stopped.stdout
    );
    drop(lock);
    place.call(&["run", "one.dot"]).exits(0);
}

#[test]
fn a_run_is_replayed_from_the_attempt_that_a_commit_names() {
    let place = pair();
    let text = ONE.replace("-> exit", "-> again -> exit") + "// changed in the same place by the second\n";
    let text = text.replace(
        "write [",
        "again [shape=parallelogram, repo=backend, tool_command=\"cat new.txt > again.txt; date +%N > when.txt\"]\n    write [",
    );
    place.write("one.dot", text);
    let first = place.call(&["run", "one.dot", "--json"]).exits(0).result();
    let branch = first["workspace"]["backend"]["branch"].as_str().unwrap();
    let named = git(
        &place,
        "backend",
        &[
            "log",
            "-1",
            "--format=%(trailers:key=Orchestra-Checkpoint,valueonly)",
            &format!("{branch}~1"),
        ],
    );
    assert_eq!(named.trim(), "write#1/1");
    let again = place
        .call(&["replay", "last", "--checkpoint", named.trim(), "--json"])
        .exits(0)
        .result();
    let other = again["workspace"]["backend"]["branch"].as_str().unwrap();
    assert_ne!(other, branch);
    // It begins where that attempt had ended, in the same commit, and not in the one behind it.
    let parents = |branch: &str| git(&place, "backend", &["rev-parse", &format!("{branch}~1")]);
    assert_eq!(parents(other), parents(branch));
    assert_eq!(again["path"], first["path"]);
    user_is_left_alone(&place);
}

#[test]
fn what_no_run_can_work_in_is_refused_with_its_place() {
    let place = pair();
    place.write("one.dot", ONE);
    std::fs::rename(place.path("frontend"), place.path("elsewhere")).unwrap();
    let refused = place.call(&["run", "one.dot"]).exits(3);
    assert_eq!(
        refused.stderr,
        "error[repository_missing]: repository `frontend`: there is no folder `frontend`; correct its path or clone it \
         there\n  help: `frontend` is defined at orchestra.yaml:4:22\n"
    );
    assert_eq!(place.runs(), Vec::<String>::new());
    assert_eq!(branches(&place, "backend"), Vec::<String>::new());
    std::fs::create_dir(place.path("frontend")).unwrap();
    git(&place, "frontend", &["init", "-q"]);
    let refused = place
        .call(&["run", "one.dot", "--json"])
        .exits(3)
        .objects()
        .remove(0);
    assert_eq!(refused["code"], "no_commit");
    assert_eq!(refused["help"], "`frontend` is defined at orchestra.yaml:4:22");
}

#[test]
fn a_run_that_is_resumed_without_its_repositories_is_refused() {
    let place = pair();
    place.write("gate.dot", support::gate(""));
    place.call(&["run", "gate.dot"]).exits(5);
    place.write(
        "orchestra.yaml",
        "workspace: {repos: {backend: {path: backend}}}\n",
    );
    let refused = place.call(&["resume", "last", "--answer", "approve=Y"]).exits(3);
    assert!(
        refused.stderr.starts_with("error[other_repositories]: "),
        "{}",
        refused.stderr
    );
    std::fs::remove_file(place.path("orchestra.yaml")).unwrap();
    let refused = place.call(&["resume", "last", "--answer", "approve=Y"]).exits(3);
    assert!(
        refused.stderr.starts_with("error[no_workspace]: "),
        "{}",
        refused.stderr
    );
    place.write("orchestra.yaml", CONFIGURATION);
    place.call(&["resume", "last", "--answer", "approve=Y"]).exits(0);
}

/// What `cleanup` says of repositories: the status, the kind, and the name up to the run's own.
fn cleaned(place: &Place, options: &[&str]) -> Vec<(String, String, String)> {
    let words = [&["cleanup", "--older-than", "0s", "--json"], options].concat();
    let objects = place.call(&words).exits(0).objects();
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
    let place = pair();
    place.write("one.dot", ONE);
    place.call(&["run", "one.dot"]).exits(0);
    let (own, empty) = (branch(&place, "backend"), branch(&place, "frontend"));
    let dry = cleaned(&place, &["--dry-run"]);
    assert!(
        is(&dry, "kept", &own) && is(&dry, "would_be_removed", &empty),
        "{dry:?}"
    );
    assert_eq!(branches(&place, "frontend"), [empty.as_str()]);
    let told = place
        .call(&["cleanup", "--older-than", "0s", "--dry-run"])
        .exits(0);
    let row = told.stdout.lines().find(|line| line.contains(&own)).unwrap();
    assert!(
        row.starts_with("kept ") && row.ends_with("one commit would be lost; merge it, or force its removal"),
        "{row}"
    );

    let found = cleaned(&place, &[]);
    assert!(
        is(&found, "kept", &own) && is(&found, "removed", &empty),
        "{found:?}"
    );
    assert_eq!(branches(&place, "backend"), [own.as_str()]);
    assert_eq!(branches(&place, "frontend"), Vec::<String>::new());
    // The run folder is gone; the configuration still tells where to look.
    assert_eq!(place.runs(), Vec::<String>::new());
    git(&place, "backend", &["merge", "-q", "--ff-only", &own]);
    let found = cleaned(&place, &[]);
    assert!(is(&found, "removed", &own), "{found:?}");
    assert_eq!(git(&place, "backend", &["for-each-ref", "refs/orchestra"]), "");
}

#[test]
fn cleanup_by_force_removes_what_is_old_enough() {
    let place = pair();
    place.write("one.dot", ONE);
    place.call(&["run", "one.dot"]).exits(0);
    let own = branch(&place, "backend");
    place.call(&["cleanup", "--older-than", "1d", "--force"]).exits(0);
    assert_eq!(branches(&place, "backend"), [own.as_str()]);
    let found = cleaned(&place, &["--force"]);
    assert!(is(&found, "removed", &own), "{found:?}");
    assert_eq!(
        git(
            &place,
            "backend",
            &["for-each-ref", "refs/orchestra", "refs/heads/orchestra"]
        ),
        ""
    );
}

#[test]
fn cleanup_leaves_a_paused_run_alone_unless_its_folder_goes() {
    let place = pair();
    place.write("two.dot", conflict("on_conflict=human"));
    place.call(&["run", "two.dot"]).exits(5);
    let (before, made) = (branches(&place, "backend"), trees(&place, "backend"));
    assert!(made > 0);
    assert_eq!(cleaned(&place, &[]), []);
    assert_eq!(cleaned(&place, &["--force"]), []);
    assert_eq!(
        (branches(&place, "backend"), trees(&place, "backend")),
        (before.clone(), made)
    );

    let found = cleaned(&place, &["--paused"]);
    assert!(
        found
            .iter()
            .any(|(status, kind, _)| status == "removed" && kind == "tree"),
        "{found:?}"
    );
    assert_eq!(trees(&place, "backend"), 0);
    // What was done is still on branches: nothing of it is merged anywhere.
    let all = git(&place, "frontend", &["log", "--branches", "--format=%s"]);
    assert!(all.contains("left: ") && all.contains("right: "), "{all}");
    cleaned(&place, &["--force"]);
    assert_eq!(branches(&place, "backend"), Vec::<String>::new());
    user_is_left_alone(&place);
}

#[test]
fn a_leftover_of_a_run_that_is_gone_is_swept_and_blocks_no_other() {
    let place = pair();
    place.write("two.dot", conflict("on_conflict=human"));
    place.call(&["run", "two.dot"]).exits(5);
    std::fs::remove_dir_all(place.path(".orchestra/runs")).unwrap();
    // It may be kept elsewhere, as long as its trees are young.
    let young = place.call(&["cleanup", "--json"]).exits(0).objects();
    assert!(
        young.iter().all(|object| object["status"] != "removed"),
        "{young:?}"
    );
    assert!(trees(&place, "backend") > 0);
    let found = cleaned(&place, &[]);
    assert!(
        found
            .iter()
            .any(|(status, kind, _)| status == "removed" && kind == "tree"),
        "{found:?}"
    );
    assert_eq!(trees(&place, "backend"), 0);
    place.call(&["run", "two.dot", "--answer", "join=O"]).exits(0);
    user_is_left_alone(&place);
}

#[test]
fn a_paused_run_that_is_ended_elsewhere_keeps_what_a_person_changed_in_its_trees() {
    let place = pair();
    place.write(
        "gate.dot",
        r#"digraph gate {
    start -> write -> ask
    write [shape=parallelogram, repo=backend, tool_command="echo new > new.txt"]
    ask [shape=hexagon]
    ask -> exit [label="[Y] Yes"]
}
"#,
    );
    place.call(&["run", "gate.dot"]).exits(5);
    let run = place.runs().remove(0);
    place.write(
        &format!(".orchestra/worktrees/{run}/session/backend/mine.txt"),
        "mine
",
    );
    place.call(&["answer", "last", "ask", "Y"]).exits(0);
    assert_eq!((trees(&place, "backend"), trees(&place, "frontend")), (0, 0));
    let branch = branch(&place, "backend");
    assert_eq!(
        git(&place, "backend", &["show", &format!("{branch}:mine.txt")]),
        "mine\n"
    );
    user_is_left_alone(&place);
}
