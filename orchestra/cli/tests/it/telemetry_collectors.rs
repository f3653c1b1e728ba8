//! Collectors that cannot be reached as they are configured, through the program.

#![cfg(unix)]

use crate::support::{Scratch, done};
use crate::telemetry::{span, traced};

use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use orchestra_collector_tests::Collector;

/// Maximum time that a collector which does not answer may add to a run.
const MOST: Duration = Duration::from_secs(1);

#[test]
fn plain_http_needs_no_certificates_of_the_system() {
    let collector = Collector::start().unwrap();
    let scratch = Scratch::new();
    scratch.write("e.dot", "digraph bare { start -> exit }");
    let mut command = traced(scratch.command(&["run", "e.dot"]), &collector.endpoint());
    // As in a container image without certificates.
    command
        .env("SSL_CERT_FILE", scratch.path("none"))
        .env("SSL_CERT_DIR", scratch.path("none"));
    let run = done(command.output().unwrap()).exits(0);
    assert!(!run.stderr.contains("telemetry"), "{}", run.stderr);
    span(&collector.spans(), "invoke_workflow bare");

    let mut command = traced(scratch.command(&["run", "e.dot"]), "https://127.0.0.1:9");
    command
        .env("SSL_CERT_FILE", scratch.path("none"))
        .env("SSL_CERT_DIR", scratch.path("none"));
    let run = done(command.output().unwrap()).exits(0);
    assert!(run.stderr.contains("warning[telemetry_setup]"), "{}", run.stderr);
    assert!(run.stderr.contains("certificate"), "{}", run.stderr);
}

#[test]
fn a_dead_collector_neither_slows_nor_fails_a_run() {
    let scratch = Scratch::new();
    scratch.write(
        "a.dot",
        "digraph a { start -> b -> exit; b [shape=parallelogram, tool_command=true] }",
    );
    let timed = |command: Command| {
        let (began, mut command) = (Instant::now(), command);
        let ended = done(command.output().unwrap()).exits(0);
        (began.elapsed(), ended)
    };
    let (without, _) = timed(scratch.command(&["run", "a.dot"]));
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    // Connections are accepted by the system, and nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for address in [closed, silent.local_addr().unwrap()] {
        // A busy machine may delay any one of them.
        let mut tries = (0..3).map(|_| {
            timed(traced(
                scratch.command(&["run", "a.dot"]),
                &format!("http://{address}"),
            ))
        });
        let mut latest = Duration::ZERO;
        let is_soon = tries.any(|(with, ended)| {
            assert_eq!(
                ended.stderr.matches("warning[telemetry_export]").count(),
                1,
                "{}",
                ended.stderr
            );
            assert!(ended.stdout.starts_with("success: "), "{}", ended.stdout);
            latest = with;
            with < without + MOST
        });
        assert!(is_soon, "{latest:?} instead of {without:?}");
    }
}

#[test]
fn settings_for_other_programs_are_a_warning() {
    let scratch = Scratch::new();
    scratch.write("a.dot", "digraph a { start -> exit }");
    let mut command = traced(scratch.command(&["run", "a.dot"]), "http://127.0.0.1:9");
    let refused = done(
        command
            .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
            .output()
            .unwrap(),
    )
    .exits(0);
    assert!(
        refused
            .stderr
            .contains("warning[telemetry_protocol]: `OTEL_EXPORTER_OTLP_PROTOCOL` is `grpc`"),
        "{}",
        refused.stderr
    );
    let mut command = traced(scratch.command(&["run", "a.dot"]), "http://127.0.0.1:9");
    let off = done(command.env("OTEL_SDK_DISABLED", "true").output().unwrap()).exits(0);
    assert!(!off.stderr.contains("telemetry"), "{}", off.stderr);
}
