//! `serve-restate` and `--on` without a server, or with options that name none.

#![cfg(unix)]

use crate::on_restate::free_ports;
use crate::support::{Scratch, done, gate};

#[test]
fn without_a_server_the_install_command_is_printed() {
    const INSTALL: &str = "npm install --ignore-scripts @restatedev/restate-server@1.7.12";
    let scratch = Scratch::new();
    scratch.write("g.dot", gate(""));
    let on = ["--on", "http://127.0.0.1:1"];
    let run = scratch.call(&[&["run", "g.dot"][..], &on].concat()).exits(1);
    assert!(
        run.stderr.starts_with("error[no_server]: no answer from"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains(INSTALL), "{}", run.stderr);
    let [ingress, admin] = free_ports().map(|port| format!("http://127.0.0.1:{port}"));
    let mut command = scratch.command(&["serve-restate", "--with-server", "--listen", "127.0.0.1:0"]);
    command.args(["--on", &ingress, "--admin", &admin]);
    command.env("PATH", "").env_remove("ORCHESTRA_RESTATE_SERVER");
    let worker = done(command.output().unwrap()).exits(1);
    assert_eq!(
        worker.stderr,
        format!(
            "error[no_server]: no Restate server found; install one with `{INSTALL}`\n  help: `ORCHESTRA_RESTATE_SERVER` \
             names its program, if it is elsewhere\n"
        )
    );
    let unreached = scratch
        .call(&[
            "serve-restate",
            "--listen",
            "127.0.0.1:0",
            "--on",
            &ingress,
            "--admin",
            &admin,
        ])
        .exits(1);
    assert!(
        unreached.stderr.contains("error[no_server]"),
        "{}",
        unreached.stderr
    );
    for (blobs, reason) in [
        ("s3://", "it names no bucket"),
        ("gs://runs", "only folders and `s3://` are supported"),
    ] {
        let refused = scratch
            .call(&["status", "run", "--on", &ingress, "--blobs", blobs])
            .exits(2);
        assert_eq!(
            refused.stderr,
            format!(
                "error[blobs]: `{blobs}` cannot be the store of blobs: {reason}\n  help: `--blobs` takes a folder, or \
                 `s3://BUCKET/PREFIX` with the feature `restate-s3`\n"
            )
        );
    }
    let empty = Scratch::new();
    let nothing = empty
        .call(&[
            "serve-restate",
            "--listen",
            "127.0.0.1:0",
            "--on",
            &ingress,
            "--admin",
            &admin,
        ])
        .exits(2);
    assert!(
        nothing.stderr.contains("error[no_pipeline]"),
        "{}",
        nothing.stderr
    );
}
