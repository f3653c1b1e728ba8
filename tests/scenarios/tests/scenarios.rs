//! Each scenario is a folder beside `tests`: a pipeline with its configuration, prompts and files, the script of its model
//! (`model.yaml`), what the run prints in the end (`expected.txt`), and what is done and asserted (`scenario.rs`).

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

macro_rules! scenarios {
    ($($name:ident = $path:literal),* $(,)?) => {
        $(#[path = $path] mod $name;)*
        const SCENARIOS: &[&str] = &[$(stringify!($name)),*];
    };
}

scenarios! {
    bound_answer = "../bound_answer/scenario.rs",
    bounded_loop = "../bounded_loop/scenario.rs",
    budget_pause = "../budget_pause/scenario.rs",
    conflict = "../conflict/scenario.rs",
    crash_in_conversation = "../crash_in_conversation/scenario.rs",
    each_file = "../each_file/scenario.rs",
    failed_turns = "../failed_turns/scenario.rs",
    fallback_models = "../fallback_models/scenario.rs",
    forged_approval = "../forged_approval/scenario.rs",
    guarded_gate = "../guarded_gate/scenario.rs",
    handover = "../handover/scenario.rs",
    hostile_notes = "../hostile_notes/scenario.rs",
    judged_candidates = "../judged_candidates/scenario.rs",
    large_input = "../large_input/scenario.rs",
    mended_run = "../mended_run/scenario.rs",
    models_simulated = "../models_simulated/scenario.rs",
    one_conversation = "../one_conversation/scenario.rs",
    partial_success = "../partial_success/scenario.rs",
    rate_limit = "../rate_limit/scenario.rs",
    review = "../review/scenario.rs",
    steered_child = "../steered_child/scenario.rs",
    talk = "../talk/scenario.rs",
    test_and_fix = "../test_and_fix/scenario.rs",
    waiting_run = "../waiting_run/scenario.rs",
}

#[test]
fn every_folder_is_a_scenario_with_all_of_its_files() {
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(support::home()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() && !["src", "tests", "target"].contains(&name.as_str()) {
            for file in support::OWN {
                assert!(entry.path().join(file).is_file(), "{name} lacks `{file}`");
            }
            folders.push(name);
        }
    }
    folders.sort();
    let mut declared = SCENARIOS.to_vec();
    declared.sort_unstable();
    assert_eq!(folders, declared);
}
