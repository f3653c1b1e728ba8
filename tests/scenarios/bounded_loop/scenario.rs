use crate::support::Scenario;

#[test]
fn after_three_failures_a_person_is_asked_and_their_hint_reaches_the_model() {
    let scenario = Scenario::open("bounded_loop");
    let run = scenario
        .call_with(&["run", "bounded_loop.dot"], "Please touch the file solved.\n")
        .exits(0);
    scenario.ends_as_expected(&run);
    assert_eq!(scenario.played("tries again"), 2);
}

#[test]
fn a_person_may_stop_it() {
    let scenario = Scenario::open("bounded_loop");
    let run = scenario
        .call(&["run", "bounded_loop.dot", "--answer", "help=S"])
        .exits(1);
    assert_eq!(
        run.stdout,
        "failed: start -> fix -> test -> fix -> test -> fix -> test -> help -> stop\n"
    );
}
