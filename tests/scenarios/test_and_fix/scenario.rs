use crate::support::Scenario;

#[test]
fn the_fifth_try_passes_as_each_failure_reached_the_model() {
    let scenario = Scenario::open("test_and_fix");
    let run = scenario.call(&["run", "test_and_fix.dot"]).exits(0);
    scenario.ends_as_expected(&run);
    assert_eq!(scenario.played("writes what the failing test names"), 4);
    for name in ["push", "pop", "peek", "length", "clear"] {
        assert_eq!(scenario.read(&format!("stack/{name}")), format!("fn {name}() {{}}\n"));
    }
}
