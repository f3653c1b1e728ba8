//! The configuration and the lock file of a project, found from its subfolders.

use crate::support;

use support::{Done, Scratch, done, gate};

/// A project with a configuration, and pipelines in a folder.
fn project() -> Scratch {
    let scratch = Scratch::new();
    scratch
        .write("orchestra.yaml", "providers: {default: anthropic, anthropic: {models: {smart: a}}}\nagents: {critic: {role: adversarial-critic}}\n")
        .write(
            "flows/review/a.dot",
            "digraph {\n    start -> ask -> exit\n    ask [prompt=x, agent=critic]\n}\n",
        )
        .write("flows/release.dot", gate(""));
    scratch
}

/// Runs the program in a folder of the project.
fn call(scratch: &Scratch, folder: &str, args: &[&str]) -> Done {
    let mut command = scratch.command(args);
    done(command.current_dir(scratch.path(folder)).output().unwrap())
}

#[test]
fn a_repository_is_searched_up_to_its_root() {
    let scratch = project();
    // Outside of a repository, a parent folder may belong to anyone.
    let refused = call(&scratch, "flows/review", &["check", "a.dot"]).exits(3);
    assert!(refused.stderr.contains("unknown_agent"), "{}", refused.stderr);
    scratch.write(".git/HEAD", "");
    call(&scratch, "flows/review", &["check", "a.dot"]).exits(0);
    call(&scratch, "flows", &["check", "review/a.dot"]).exits(0);
    // Errors of the configuration have its path from here.
    scratch.write("orchestra.yaml", "agents: {critic: {rol: x}}\n");
    let refused = call(&scratch, "flows/review", &["check", "a.dot"]).exits(3);
    assert!(
        refused.stderr.contains("../../orchestra.yaml:1:19"),
        "{}",
        refused.stderr
    );
    // A nearer repository is a project of its own.
    scratch.write("flows/.git", "gitdir: elsewhere");
    let refused = call(&scratch, "flows/review", &["check", "a.dot"]).exits(3);
    assert!(refused.stderr.contains("unknown_agent"), "{}", refused.stderr);
}

#[test]
fn the_lock_file_of_the_project_is_that_of_its_subfolders() {
    let scratch = project();
    scratch.write(".git/HEAD", "");
    let locked = call(&scratch, "flows", &["lock", "release.dot"]).exits(0);
    let lock = scratch.read("orchestra.lock");
    assert!(
        lock.contains("\"name\": \"flows/release.dot\""),
        "{lock}\n{}",
        locked.stdout
    );
    let again = call(&scratch, "flows", &["lock", "release.dot"]).exits(0);
    assert_eq!(again.stdout, "flows/release.dot: version 1, unchanged\n");
    call(&scratch, "flows", &["check", "--locked"]).exits(0);
    call(&scratch, "", &["check", "--locked"]).exits(0);
    scratch.write("flows/release.dot", gate("").replace("approve", "agreed"));
    call(&scratch, "flows", &["check", "--locked"]).exits(3);
}
