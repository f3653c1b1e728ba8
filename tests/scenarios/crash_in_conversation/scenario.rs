use crate::support::Scenario;

#[test]
fn a_killed_conversation_goes_on_and_no_answer_is_paid_twice() {
    let scenario = Scenario::open("crash_in_conversation");
    let run = scenario.start(&["run", "crash_in_conversation.dot"]);
    scenario.until("the model thinks", |scenario| {
        scenario.played("is killed while it thinks") == 1
    });
    run.kill();
    let resumed = scenario.call(&["resume", "last"]).exits(0);
    scenario.ends_as_expected(&resumed);
    let played = ["plans", "reads", "is killed while it thinks", "writes", "reports"];
    assert_eq!(scenario.model.played(), played);
    assert_eq!(scenario.read("count.txt"), "8");
    assert_eq!(scenario.read("steps"), "counted\n", "the tool that was done is not run again");
    // The call that was under way said nothing, so nobody knows what it cost.
    let status = scenario.status();
    assert_eq!((&status["input_tokens"], &status["output_tokens"]), (&1000.into(), &40.into()));
}
