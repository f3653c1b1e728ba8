//! The command, once over each scenario. Hours of it are for the command itself.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::process::Command;

#[test]
fn one_round_over_every_scenario_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.md");
    let soak = Command::new(env!("CARGO_BIN_EXE_orchestra-soak"))
        .args(["--for", "1s", "--jobs", "4", "--seed", "12", "--report"])
        .arg(&report)
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let text = std::fs::read_to_string(&report).unwrap_or_default();
    assert!(
        soak.status.success(),
        "{text}\n{}",
        String::from_utf8_lossy(&soak.stderr)
    );
    // Scenarios by name, each with a run.
    for scenario in [
        "loop",
        "branches",
        "gate_answered",
        "agents",
        "hostile",
        "git",
        "cancel",
    ] {
        assert!(
            text.contains(&format!("| {scenario} | 1 | ")),
            "{scenario}\n{text}"
        );
    }
    // Nothing is kept of a soak that went well.
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 1, "the report alone");
}
