use crate::support::Scenario;

#[test]
fn approve_and_done_give_the_same_outputs_and_take_the_same_way() {
    for end in ["/approve", "/done"] {
        let scenario = Scenario::open("talk");
        let run = scenario
            .call_with(&["run", "talk.dot"], &format!("Tell everybody.\n{end}\n"))
            .exits(0)
            .tells(&["NOTICE-1: the water is off.", "NOTICE-2: the water is off on Monday."]);
        scenario.ends_as_expected(&run);
        assert_eq!(scenario.read("sent"), "sent to all\n", "{end}");
    }
}

#[test]
fn what_is_approved_at_once_goes_where_the_first_draft_says() {
    let scenario = Scenario::open("talk");
    let run = scenario
        .call(&["run", "talk.dot", "--answer", "draft=/approve"])
        .exits(0);
    assert_eq!(run.stdout, "success: start -> draft -> few -> exit\n");
}

#[test]
fn a_paused_talk_is_answered_from_elsewhere_and_the_text_is_shown_first() {
    let scenario = Scenario::open("talk");
    let paused = scenario.call(&["run", "talk.dot"]).exits(5);
    assert_eq!(paused.stdout, "paused: start\n");
    scenario
        .call(&["answer", "last", "draft", "Tell everybody."])
        .exits(0);
    scenario.call(&["resume", "last"]).exits(5);
    scenario
        .call(&["answer", "last", "draft", "/approve"])
        .exits(0);
    let resumed = scenario.call(&["resume", "last"]).exits(0);
    scenario.ends_as_expected(&resumed);
    assert_eq!(scenario.model.played().len(), 2, "no answer of the model is paid twice");
}

#[test]
fn who_answers_a_waiting_run_from_elsewhere_finds_the_text_in_its_status() {
    let scenario = Scenario::open("talk");
    let mut run = scenario.start(&["run", "talk.dot", "--wait"]);
    run.until_event("InterviewStarted", "draft");
    let shown = scenario.call(&["status", "last"]).exits(0).stdout;
    assert!(shown.contains("NOTICE-1: the water is off."), "{shown}");
    scenario
        .call(&["answer", "last", "draft", "Tell everybody."])
        .exits(0);
    run.until_event("InterviewStarted", "draft");
    scenario
        .call(&["answer", "last", "draft", "/approve"])
        .exits(0);
    run.end().exits(0);
    assert_eq!(scenario.read("sent"), "sent to all\n");
}
