use crate::support::Scenario;

#[test]
fn a_failed_stage_leaves_its_turns_and_its_reason_in_the_conversation() {
    let scenario = Scenario::open("failed_turns");
    let run = scenario.call(&["run", "failed_turns.dot"]).exits(0);
    scenario.ends_as_expected(&run);
    assert_eq!(scenario.read("file.md"), "# Title\nSECOND-TRY\n");
    // The second try goes on in the messages of the first one: task, call, result, report, ...
    let third = &scenario.server.requests()[2];
    assert!(third.body["messages"].as_array().unwrap().len() >= 5, "{}", third.body);
}
