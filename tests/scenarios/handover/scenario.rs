use crate::support::Scenario;

#[test]
fn a_plan_of_40_kb_and_the_last_line_of_2_mb_reach_the_next_stage() {
    let scenario = Scenario::open("handover");
    scenario
        .call(&["check", "handover.dot"])
        .exits(0);
    let run = scenario.call(&["run", "handover.dot"]).exits(0);
    scenario.ends_as_expected(&run);
    assert_eq!(scenario.run_file("mend/response.md"), "Row 40000 has its date again.");
    assert!(scenario.run_file("test/tool_output.txt").len() > 2_000_000);
}
