//! Programs that git runs for a repository. Those that a stage configures never run in the engine's git, and those that
//! the user configured before the run execute like tools.

#![cfg(unix)]

use crate::support;

use std::process::Command;

use support::Scratch;

const CONFIGURATION: &str = "workspace:\n  repos:\n    backend: {path: backend}\n";
const SECRET: &str = "sk-canary-0123456789abcdef0123";

/// A repository with a commit, a separate home folder, and a program that records its execution and its environment.
fn repository() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("orchestra.yaml", CONFIGURATION);
    scratch.write("home/.keep", "");
    scratch.write("backend/list.txt", "one\n-\n-\n-\ntwo\n");
    let log = scratch.path("canaries").display().to_string();
    scratch.write(
        "canary",
        format!("#!/bin/sh\necho \"ran: $*\" >> '{log}'\nenv >> '{log}'\nsetsid sleep 1800 >/dev/null 2>&1 &\necho $! >> '{log}.pids'\ncat\n"),
    );
    assert!(
        Command::new("chmod")
            .arg("+x")
            .arg(scratch.path("canary"))
            .status()
            .unwrap()
            .success()
    );
    git(&scratch, &["init", "-q", "-b", "main"]);
    commit(&scratch);
    scratch
}

fn commit(scratch: &Scratch) {
    git(scratch, &["add", "-A"]);
    let (user, mail) = ("user.name=me", "user.email=me@localhost");
    git(scratch, &["-c", user, "-c", mail, "commit", "-q", "-m", "start"]);
}

/// Runs git in the repository with the user's configuration and returns the output.
#[track_caller]
fn git(scratch: &Scratch, words: &[&str]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(scratch.path("backend")).args(words);
    command
        .env("HOME", scratch.path("home"))
        .env("GIT_CONFIG_NOSYSTEM", "1");
    let said = command.output().unwrap();
    assert!(
        said.status.success(),
        "{words:?}: {}",
        String::from_utf8_lossy(&said.stderr)
    );
    String::from_utf8(said.stdout).unwrap()
}

/// Runs a pipeline and returns the branch with its work.
#[track_caller]
fn run(scratch: &Scratch) -> String {
    let mut command = scratch.command(&["run", "pipeline.dot"]);
    command
        .env("HOME", scratch.path("home"))
        .env("OPENAI_API_KEY", SECRET);
    support::done(command.output().unwrap()).exits(0);
    let branches = git(
        scratch,
        &[
            "for-each-ref",
            "--format=%(refname:short)",
            "refs/heads/orchestra",
        ],
    );
    branches.lines().next().unwrap().to_owned()
}

/// A stage that plants the program wherever a stage can write, then works; and two branches that change the same file.
const PIPELINE: &str = r#"digraph planted {
    node [shape=parallelogram]
    start [shape=Mdiamond]
    exit [shape=Msquare]
    fan [shape=component]
    plant [tool_command="sh 'PLANT'"]
    work [tool_command="cd backend 2>/dev/null; echo work > work.txt"]
    left [tool_command="cd backend 2>/dev/null; sed 's/one/one left/' list.txt > l && mv l list.txt"]
    right [tool_command="cd backend 2>/dev/null; sed 's/two/two right/' list.txt > r && mv r list.txt"]
    join [shape=tripleoctagon]
    start -> plant -> work -> fan
    fan -> left -> join
    fan -> right -> join
    join -> exit
}
"#;

#[test]
fn no_program_that_a_stage_names_is_run() {
    let scratch = repository();
    let (canary, home) = (scratch.path("canary"), scratch.path("home"));
    let (canary, home) = (canary.display(), home.display());
    let common = scratch.path("backend/.git");
    let common = common.display();
    let hooks: String = [
        "pre-commit",
        "post-commit",
        "post-checkout",
        "reference-transaction",
        "post-index-change",
        "pre-auto-gc",
        "fsmonitor-watchman",
        "post-merge",
        "prepare-commit-msg",
    ]
    .iter()
    .map(|hook| format!("mkdir -p '{common}/hooks'; cp '{canary}' '{common}/hooks/{hook}'\n"))
    .collect();
    let settings = format!(
        "[core]\n fsmonitor = {canary} fsmonitor\n sshCommand = {canary} ssh\n pager = {canary} pager\n editor = {canary} editor\n askPass = {canary}\n \
         hooksPath = {common}/hooks\n gitProxy = {canary} proxy\n alternateRefsCommand = {canary} alternates\n attributesFile = {home}/attributes\n\
         [filter \"evil\"]\n clean = {canary} clean\n smudge = {canary} smudge\n required = true\n\
         [filter \"lasting\"]\n process = {canary} process\n\
         [merge \"evil\"]\n driver = {canary} merge\n[merge]\n default = evil\n\
         [diff \"evil\"]\n command = {canary} diff\n textconv = {canary} textconv\n[diff]\n external = {canary} external\n\
         [alias]\n add = !{canary} alias\n commit-tree = !{canary} alias\n\
         [credential]\n helper = !{canary} credential\n[commit]\n gpgSign = true\n[gpg]\n program = {canary}\n\
         [log]\n showSignature = true\n[gc]\n auto = 1\n[uploadpack]\n packObjectsHook = {canary} pack\n"
    );
    scratch.write("settings", &settings);
    scratch.write("home/included", &settings);
    let attributes = "* filter=evil diff=evil merge=evil\n*.txt filter=lasting\nlist.txt filter=evil\n";
    scratch.write("attributes", attributes);
    let (settings, attributes) = (scratch.path("settings"), scratch.path("attributes"));
    let (settings, attributes) = (settings.display(), attributes.display());
    scratch.write(
        "plant.sh",
        format!(
            "set -e\ncd backend 2>/dev/null || :\n\
             entry=$(git rev-parse --absolute-git-dir)\n\
             cat '{settings}' >> '{common}/config'\n\
             printf '[extensions]\\n worktreeConfig = true\\n[include]\\n path = {home}/included\\n' >> '{common}/config'\n\
             cat '{settings}' > \"$entry/config.worktree\"\ncat '{settings}' > '{common}/config.worktree'\n\
             cat '{settings}' > '{home}/.gitconfig'\nmkdir -p '{home}/.config/git'\ncat '{settings}' > '{home}/.config/git/config'\n\
             cp '{attributes}' .gitattributes\nmkdir -p '{common}/info'\ncp '{attributes}' '{common}/info/attributes'\n\
             cp '{attributes}' '{home}/attributes'\ncp '{attributes}' '{home}/.config/git/attributes'\n{hooks}"
        ),
    );
    let plant = scratch.path("plant.sh").display().to_string();
    scratch.write("pipeline.dot", PIPELINE.replace("PLANT", &plant));
    let branch = run(&scratch);
    assert!(!scratch.path("canaries").exists(), "{}", scratch.read("canaries"));
    // Inspect the result without the planted configuration, which would run the program now.
    std::fs::write(
        scratch.path("backend/.git/config"),
        "[core]\n\trepositoryformatversion = 0\n",
    )
    .unwrap();
    std::fs::remove_file(scratch.path("home/.gitconfig")).unwrap();
    std::fs::remove_dir_all(scratch.path("home/.config")).unwrap();
    assert_eq!(
        git(&scratch, &["show", &format!("{branch}:list.txt")]),
        "one left\n-\n-\n-\ntwo right\n"
    );
    assert_eq!(git(&scratch, &["show", &format!("{branch}:work.txt")]), "work\n");
}

#[test]
fn a_filter_of_the_user_runs_without_secrets_and_does_not_outlive_the_run() {
    let scratch = repository();
    let canary = scratch.path("canary").display().to_string();
    scratch.write("backend/.gitattributes", "*.big filter=user\n");
    commit(&scratch);
    git(
        &scratch,
        &[
            "config",
            "filter.user.clean",
            &format!("{canary} clean | tr a-z A-Z"),
        ],
    );
    git(&scratch, &["config", "filter.user.smudge", "tr A-Z a-z"]);
    scratch.write(
        "pipeline.dot",
        r#"digraph filtered {
    node [shape=parallelogram]
    start [shape=Mdiamond]
    exit [shape=Msquare]
    write [tool_command="cd backend 2>/dev/null; git config filter.user.clean 'tr a-z 0-9'; echo text > file.big"]
    start -> write -> exit
}
"#,
    );
    let branch = run(&scratch);
    // The filter is applied as it was before the stage changed it.
    assert_eq!(
        git(&scratch, &["cat-file", "blob", &format!("{branch}:file.big")]),
        "TEXT\n"
    );
    let reported = scratch.read("canaries");
    assert!(reported.contains("ran: clean\n"), "{reported}");
    assert!(!reported.contains(SECRET), "{reported}");
    for pid in scratch.read("canaries.pids").lines() {
        assert!(!support::lives(pid), "{pid} outlives the run");
    }
}
