use crate::support::Scenario;

/// The messages of each request.
fn messages(scenario: &Scenario) -> Vec<usize> {
    let requests = scenario.server.requests();
    let count = |body: &serde_json::Value| body["messages"].as_array().unwrap().len();
    requests.iter().map(|request| count(&request.body)).collect()
}

#[test]
fn full_fidelity_alone_makes_one_conversation_that_outlives_a_pause() {
    let scenario = Scenario::open("one_conversation");
    let paused = scenario.call(&["run", "one_conversation.dot"]).exits(5);
    assert_eq!(paused.stdout, "paused: start -> open -> turn\n");
    assert_eq!(messages(&scenario), [1, 3], "the second stage goes on where the first one ended");
    let resumed = scenario
        .call(&["resume", "last", "--answer", "gate=G"])
        .exits(0);
    scenario.ends_as_expected(&resumed);
    assert!(messages(&scenario)[3] >= 3, "{:?}", messages(&scenario));
}
