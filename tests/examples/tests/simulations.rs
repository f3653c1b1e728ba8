//! The scripts of the examples, run by the test kit.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use orchestra_example_tests::{ExamplePipeline, folder, pipelines};
use orchestra_testkit::{Coverage, Simulation, SimulationRun, read_script_file};

fn simulated(pipeline: &ExamplePipeline, script: &Path) -> SimulationRun {
    let script = read_script_file(script).unwrap_or_else(|error| panic!("{}: {error}", script.display()));
    let simulation = Simulation::load_file(&pipeline.file).unwrap_or_else(|error| panic!("{error}"));
    simulation.script(script).run()
}

#[test]
fn the_scripts_of_each_pipeline_take_all_of_its_edges() {
    let pipelines = pipelines();
    assert!(pipelines.len() >= 9, "{pipelines:?}");
    let mut incomplete = Vec::new();
    for pipeline in &pipelines {
        let mut coverage: Coverage = Simulation::load_file(&pipeline.file).unwrap().coverage();
        for script in &pipeline.scripts {
            coverage.add(simulated(pipeline, script).transitions());
        }
        if !coverage.is_complete() {
            incomplete.push(format!("{}: {coverage}", pipeline.name));
        }
    }
    assert!(incomplete.is_empty(), "\n{}", incomplete.join("\n"));
}

#[test]
fn each_script_leads_to_an_end_that_the_pipeline_intends() {
    for pipeline in pipelines() {
        for script in &pipeline.scripts {
            let run = simulated(&pipeline, script);
            let code = run.failure().map(|failure| failure.code());
            assert!(
                matches!(code, None | Some("failure_end")),
                "{}: {run}",
                script.display()
            );
        }
    }
}

#[test]
fn every_example_is_a_member_and_says_how_it_is_run() {
    let manifest = std::fs::read_to_string(folder().join("../Cargo.toml")).unwrap();
    let readme = std::fs::read_to_string(folder().join("README.md")).unwrap();
    for pipeline in pipelines() {
        let example = pipeline.file.parent().unwrap();
        let name = example.file_name().unwrap().to_str().unwrap();
        assert!(
            manifest.contains(&format!("\"examples/{name}\"")),
            "`{name}` is not a member"
        );
        let program = std::fs::read_to_string(example.join("main.rs")).unwrap();
        let said = program.lines().take_while(|line| line.starts_with("//!"));
        let command = format!("`cargo run -p {name}");
        assert!(
            said.collect::<String>().contains(&command),
            "{name}/main.rs does not say `{command}`"
        );
        let row = format!("| `{name}` | ");
        assert!(readme.contains(&row), "README.md has no row of `{name}`");
    }
}
