use crate::support::Scenario;

#[test]
fn a_run_pauses_before_the_call_that_might_go_beyond_and_goes_on_with_more() {
    let scenario = Scenario::open("budget_pause");
    let run = scenario
        .call(&["run", "budget_pause.dot", "--max-tokens", "6500"])
        .exits(6);
    assert_eq!(run.stdout, "paused: start -> write -> translate\n");
    assert!(run.last_line().starts_with("resume with: orchestra resume "), "{}", run.stderr);
    assert_eq!(scenario.model.played(), ["writes", "translates"]);
    // The same bound stops it again, before anything is asked.
    scenario.call(&["resume", "last", "--max-tokens", "6500"]).exits(6);
    assert_eq!(scenario.model.played().len(), 2);
    let resumed = scenario
        .call(&["resume", "last", "--max-tokens", "20000"])
        .exits(0);
    scenario.ends_as_expected(&resumed);
    assert_eq!(scenario.model.played(), ["writes", "translates", "names"]);
    let status = scenario.status();
    assert_eq!((&status["input_tokens"], &status["output_tokens"]), (&9000.into(), &600.into()));
}
