use crate::support::Scenario;

#[test]
fn a_partial_success_takes_the_edges_of_a_success_and_the_decision_says_so() {
    let scenario = Scenario::open("partial_success");
    scenario.call(&["check", "partial_success.dot"]).exits(0);
    let run = scenario
        .call(&["run", "partial_success.dot"])
        .exits(0)
        .tells(&["partial_success"]);
    scenario.ends_as_expected(&run);
    for (stage, outcome) in [("plan", "success"), ("implement", "partial_success"), ("review", "partial_success")] {
        for file in ["prompt.md", "response.md"] {
            assert!(!scenario.run_file(&format!("{stage}/{file}")).is_empty(), "{stage}/{file}");
        }
        let status = scenario.run_file(&format!("{stage}/status.json"));
        assert!(status.contains(&format!("\"outcome\": \"{outcome}\"")), "{stage}: {status}");
    }
}
