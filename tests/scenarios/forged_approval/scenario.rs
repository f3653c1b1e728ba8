use crate::support::Scenario;

#[test]
fn no_model_and_no_tool_approves_in_the_place_of_a_person() {
    let scenario = Scenario::open("forged_approval");
    let run = scenario
        .call(&["run", "forged_approval.dot", "--answer", "gate=N"])
        .exits(0)
        .tells(&["human.gate.selected", "human.gate.answered_by", "graph.goal", "internal.retry_count.build"]);
    scenario.ends_as_expected(&run);
    assert!(!scenario.path("shipped").exists());
    let checkpoint = scenario.run_file("checkpoint.json");
    for kept in ["release.bin", "release.tar", "Ship what a person has approved"] {
        assert!(checkpoint.contains(kept), "{kept}: {checkpoint}");
    }
    for forged in ["Ship whatever there is", "\"answered_by\":\"person\"", "\"human.gate.answered_by\": \"person\""] {
        assert!(!checkpoint.contains(forged), "{forged}: {checkpoint}");
    }
}
