//! Pipelines with child pipelines, which are simulated with the same clock and the same script.
use std::time::Duration;

use orchestra_testkit::{Simulation, SimulationError, read_script};

const RELEASE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/flows/release.dot");

fn release(script: &str) -> Simulation {
    let script = read_script(script).unwrap_or_else(|error| panic!("{error}"));
    Simulation::load_file(RELEASE).unwrap().script(script)
}

#[test]
fn a_child_is_simulated_by_the_same_script_and_clock() {
    let run = release("check: [{outcome: fail, takes: 10m}, success]\naccept: Yes").run();
    run.assert_path(["start", "lint", "publish", "exit"]);
    assert_eq!(run.duration(), Duration::from_millis(600_000 + 200));
    let refused = release("accept: No").run();
    refused.assert_path(["start", "lint", "stop"]);
}

#[test]
fn a_child_s_gate_must_be_answered_too() {
    let run = release("{}").run();
    run.assert_waits_for("lint");
    let run = Simulation::load_file(RELEASE)
        .unwrap()
        .answer("accept", "yes")
        .run();
    run.assert_success();
}

#[test]
fn a_stage_that_is_scripted_runs_no_child() {
    let run = release("lint: fail").run();
    run.assert_path(["start", "lint", "stop"]);
    assert_eq!(run.error_history()[0].reason, "simulated failure");
}

#[test]
fn the_nodes_of_children_are_names_too() {
    let error = release("chekc: fail").try_run().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the pipeline has no node `chekc`; did you mean `check`?"
    );
}

#[test]
fn a_manager_waits_its_intervals_in_the_simulation_s_time() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/flows/manager.dot");
    let simulation = Simulation::load_file(file).unwrap();
    let hours = Duration::from_secs(3 * 3_600);
    let run = simulation.takes("work", [hours]).run();
    run.assert_success();
    assert!(
        run.duration() >= hours && run.duration() <= hours + Duration::from_secs(45),
        "{run}"
    );
}

#[test]
fn an_invalid_child_is_reported_with_its_position() {
    let folder = std::env::temp_dir().join(format!("orchestra-testkit-children-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let parent = "digraph { start -> a -> exit; a [shape=folder, \"subpipeline.file\"=\"child.dot\"] }";
    std::fs::write(folder.join("parent.dot"), parent).unwrap();
    std::fs::write(
        folder.join("child.dot"),
        "digraph {\n    start -> wrok\n    start -> exit\n}",
    )
    .unwrap();
    let error = Simulation::load_file(folder.join("parent.dot")).unwrap_err();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(matches!(error, SimulationError::Invalid { .. }));
    let said = error.to_string();
    assert!(
        said.contains("child.dot:2:14") && said.contains("`wrok`"),
        "{said}"
    );
}
