use crate::support::Scenario;

const PASSED: &str = "tests_passed=true";

#[test]
fn a_rejection_holds_although_the_condition_of_the_other_choice_does_too() {
    let scenario = Scenario::open("guarded_gate");
    let run = scenario
        .call(&["run", "guarded_gate.dot", "--set", PASSED, "--answer", "gate=R"])
        .exits(0);
    scenario.ends_as_expected(&run);
    assert!(!scenario.path("deployed").exists());
}

#[test]
fn an_approval_deploys_where_the_tests_have_passed() {
    let scenario = Scenario::open("guarded_gate");
    let run = scenario
        .call(&["run", "guarded_gate.dot", "--set", PASSED, "--answer", "gate=A"])
        .exits(0);
    assert_eq!(run.stdout, "success: start -> gate -> deploy -> exit\n");
    assert_eq!(scenario.read("deployed"), "deployed\n");
    assert!(scenario.model.played().is_empty());
}

#[test]
fn what_is_withheld_is_shown_with_its_condition_and_no_answer_takes_it() {
    let scenario = Scenario::open("guarded_gate");
    let paused = scenario
        .call(&["run", "guarded_gate.dot"])
        .exits(5)
        .tells(&["Approve", "context.tests_passed=true"]);
    assert_eq!(paused.stdout, "paused: start\n");
    let refused = scenario.call(&["answer", "last", "gate", "A"]);
    assert_ne!(refused.code, 0, "{}{}", refused.stdout, refused.stderr);
    assert!(refused.stderr.contains("context.tests_passed=true"), "{}", refused.stderr);
    let typed = scenario.call_with(&["resume", "last"], "A\nR\n").exits(0);
    scenario.ends_as_expected(&typed);
    assert!(!scenario.path("deployed").exists());
}

#[test]
fn whoever_approves_by_himself_approves_only_what_is_offered() {
    let scenario = Scenario::open("guarded_gate");
    let run = scenario
        .call(&["run", "guarded_gate.dot", "--auto-approve"])
        .exits(0);
    scenario.ends_as_expected(&run);
}
