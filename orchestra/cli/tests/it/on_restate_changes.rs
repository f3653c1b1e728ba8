//! `serve-restate` and `resume --on` while pipelines change.

#![cfg(unix)]

use orchestra_restate_server_tests::server_or_skip;

use crate::on_restate::{HOLD, Server, start_worker};
use crate::support::done;

#[test]
fn a_run_is_moved_to_a_changed_pipeline() {
    let Some(program) = server_or_skip("a_run_is_moved_to_a_changed_pipeline") else {
        return;
    };
    // A server of its own: the worker of the other tests must not be replaced.
    let server = Server::start(&program);
    let mut run = server.start_run("hold.dot", "moved");
    run.until_stage("hold");
    let address = ["--on", &server.on, "--admin", &server.admin];
    let lacking = [
        &["serve-restate", "flows/gate.dot", "--listen", "127.0.0.1:0"][..],
        &address,
    ]
    .concat();
    let refused = done(server.scratch.command(&lacking).output().unwrap())
        .exits(2)
        .stderr;
    assert_eq!(
        refused,
        "error[versions_missing]: runs could not go on at the worker:\n      run `moved` of pipeline `hold.dot`: no pipeline \
         `hold.dot` is known\n  help: deploy a program that has what they need, or use `--force`: these runs are parked until \
         one is deployed\n"
    );
    server.call(&["pause", "moved"]).exits(0);
    run.end().exits(130);
    let change = |changed: &str| {
        server.scratch.write("hold.dot", changed);
        let (worker, line) = start_worker(&server.scratch, &program, &address);
        assert!(!line.is_empty(), "{}", server.scratch.read("worker.log"));
        worker
    };
    let gone =
        change("digraph hold { start -> once -> exit; once [shape=parallelogram, tool_command=true] }");
    let refused = server
        .call(&["resume", "moved", "--accept-changes"])
        .exits(3)
        .stderr;
    assert!(
        refused.starts_with("error[incompatible_state]: run `moved` cannot go on under the changed pipeline: the run stands at")
            && refused.contains("help: `export` copies the run"),
        "{refused}"
    );
    let more = HOLD.replace(
        "hold -> exit",
        "hold -> more -> exit; more [shape=parallelogram, tool_command=true]",
    );
    let repaired = change(&more);
    server.scratch.write("moved.go", "");
    let resumed = server.call(&["resume", "moved", "--accept-changes"]).exits(0);
    assert_eq!(resumed.stdout, "success: start -> once -> hold -> more -> exit\n");
    drop((gone, repaired));
}
