//! Stages of models: text while it is written, and talks with people.

use std::fs;
use std::time::Duration;

use super::{enter, press_until};
use crate::browser::in_browser;
use crate::support::Program;
use orchestra_model_server_tests::{Answer, Fault, ModelServer, Wire};

const TALK: &str = r#"digraph talk {
    graph [goal="A notice for the tenants"]
    start -> plan -> draft -> exit
    plan  [label="Plan", prompt="Plan the notice."]
    draft [label="Draft", prompt="Write the notice.", agent.mode=interactive]
}
"#;

#[test]
fn a_model_is_read_while_it_writes_and_answered_in_the_page() {
    in_browser(|browser| {
        let model = ModelServer::start();
        // A byte each millisecond, so that the text is seen before it is whole.
        let plan = "Say what, when and where.";
        model.push(
            Answer::text(plan)
                .tokens(2_000, 60)
                .breaking(Fault::Drip(Duration::from_millis(1))),
        );
        model.push(Answer::text("NOTICE-1: the water is off.").tokens(3_000, 40));
        model.push(Answer::text("NOTICE-2: the water is off on Monday.").tokens(3_100, 50));
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("talk.dot"), TALK).unwrap();
        let configuration = format!(
            "providers:\n  anthropic:\n    api_base: {}\n    models: {{smart: claude-sonnet-4-5}}\n",
            model.base(Wire::Anthropic)
        );
        fs::write(folder.path().join("orchestra.yaml"), configuration).unwrap();
        let program = Program::start(folder.path(), "127.0.0.1:0");
        let tab = enter(browser, &program.api);
        tab.show("#/definitions/talk.dot");
        tab.click("form button", "Start");
        tab.sees(".run-title h1", "talk");
        press_until(&tab, "7", "location.hash.endsWith('/conversation')");
        tab.sees(".said.live", "Says now");
        let early = tab.until_some(
            "document.querySelector('.said.live pre')?.textContent ?? ''",
            |text| text.as_str().is_some_and(|text| text.len() > 3),
        );
        assert!(early.as_str().unwrap().len() < plan.len(), "{early}");
        // The stored response replaces the live text.
        tab.sees(".said.response", plan);
        tab.sees(".talk .banner", "NOTICE-1");
        tab.click(".talk .banner a", "Answer");
        tab.sees(".question", "NOTICE-1: the water is off.");
        tab.fill(".gate textarea", "Say when.");
        tab.press("Ctrl+Enter");
        tab.sees(".question", "NOTICE-2: the water is off on Monday.");
        // The person gave the answer here, so nothing tells that the question is gone.
        tab.until("!document.querySelector('.banner')");
        tab.click(".gate button", "End the conversation");
        tab.sees(".empty", "Nothing waits for you");
        tab.show("#/runs");
        tab.click("table a", "talk");
        tab.sees(".run-title .state", "success");
        press_until(&tab, "8", "location.hash.endsWith('/cost')");
        tab.sees(".facts-grid", "8,100 in, 150 out");
        tab.sees("table", "draft");
        let asked = model.requests();
        assert!(asked.last().unwrap().body.to_string().contains("Say when."));
    });
}
