use crate::support::Scenario;

#[test]
fn faults_of_the_first_call_are_tried_again_within_the_stage() {
    let scenario = Scenario::open("rate_limit");
    let run = scenario.call(&["run", "rate_limit.dot"]).exits(0);
    scenario.ends_as_expected(&run);
    assert_eq!(scenario.run_file("ask/response.md"), "It is Paris.");
    assert_eq!(scenario.model.played().len(), 4);
    // One token was announced before the stream broke; it is paid.
    let status = scenario.status();
    assert_eq!(status["output_tokens"], 11, "{status}");
    let attempts = status["path"].as_array().unwrap().iter();
    assert_eq!(attempts.filter(|stage| stage["node"] == "ask").count(), 1);
}
