use crate::support::Scenario;

#[test]
fn tools_run_and_people_are_asked_while_no_model_is_called_also_after_a_pause() {
    let scenario = Scenario::open("models_simulated");
    let paused = scenario
        .call(&["run", "models_simulated.dot", "--simulate-models"])
        .exits(5);
    assert_eq!(paused.stdout, "paused: start -> write -> test -> write -> test\n");
    let resumed = scenario
        .call(&["resume", "last", "--answer", "gate=Y"])
        .exits(0);
    scenario.ends_as_expected(&resumed);
    assert_eq!(scenario.read("ran"), "ran\nran\n");
    assert_eq!(scenario.read("shipped"), "shipped\n");
    assert!(scenario.server.requests().is_empty());
}
