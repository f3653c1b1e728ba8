use crate::support::Scenario;

#[test]
fn what_a_manager_says_reaches_the_model_before_its_next_call() {
    let scenario = Scenario::open("steered_child");
    let run = scenario.call(&["run", "steered_child.dot"]).exits(0);
    scenario.ends_as_expected(&run);
    assert_eq!(scenario.played("takes the better way"), 1);
}
