//! Instructions of a manager loop to the model of a supervised child run, through the program (rule F7).

#![cfg(unix)]

use crate::agents_support;

use agents_support::{Project, reports};
use orchestra_model_server_tests::Answer;
use serde_json::Value;

/// A manager that steers once, as soon as a stage of its child has failed.
const WATCH: &str = r#"digraph parent {
    "stack.child_dotfile"="child.dot"
    start -> watch -> exit
    watch [shape=house, "manager.actions"="observe,steer,wait", "manager.poll_interval"=50ms,
        "manager.steer_cooldown"=1h, "manager.guard.intervene"="stack.child.failures >= 1",
        "manager.steer_message"="Use the green paint."]
}
"#;

/// A command that waits until the manager has steered a stage of the child.
const STEERED: &str =
    "until ls .orchestra/runs/*/watch/child/STAGE/steer-*.md >/dev/null 2>&1; do sleep 0.02; done";

fn project(child: &str) -> Project {
    let wait = format!("touch called; {}", STEERED.replace("STAGE", "paint"));
    let project = Project::new(&format!(
        "tools: {{wait: {{description: Waits., command: '{wait}'}}}}\n\
         agents: {{painter: {{tools: [wait]}}}}\n"
    ));
    project
        .scratch
        .write("parent.dot", WATCH)
        .write("child.dot", child);
    project
}

/// Returns the child's events of one kind, and the files of its stages that contain instructions.
fn record(project: &Project, stage: &str) -> (Vec<Value>, Vec<String>) {
    let run = project.scratch.runs().remove(0);
    let child = format!(".orchestra/runs/{run}/watch/child");
    let events = project.scratch.read(&format!("{child}/events.jsonl"));
    let events = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let read = events.filter(|event| event["event"] == "SteeringRead").collect();
    let files = std::fs::read_dir(project.scratch.path(&format!("{child}/{stage}"))).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("steer-")).collect();
    names.sort_unstable();
    (read, names)
}

#[test]
fn an_instruction_reaches_the_conversation_that_is_under_way() {
    let project = project(
        r#"digraph child {
            start -> fan
            fan [shape=component, error_policy=continue]
            fan -> paint -> join
            fan -> fails -> join
            paint [prompt="Paint the fence.", agent=painter]
            fails [shape=parallelogram, tool_command="until [ -f called ]; do sleep 0.02; done; exit 1"]
            join [shape=tripleoctagon]
            join -> exit
        }"#,
    );
    project.server.push(Answer::call("wait", "{}"));
    project.server.push(reports("It is green."));
    project.call(&["run", "parent.dot"]).exits(0);
    let asked = project.asked();
    assert_eq!(asked.len(), 2);
    assert!(!Value::from(asked[0].clone()).to_string().contains("green paint"));
    let last = asked[1].last().unwrap();
    assert_eq!(last["role"], "user");
    assert_eq!(
        last["content"][0]["type"], "tool_result",
        "the results of the calls come first"
    );
    let reported = last["content"][1]["text"].as_str().unwrap();
    assert!(reported.ends_with("Use the green paint."), "{reported}");
    let (read, files) = record(&project, "paint");
    assert_eq!(read.len(), 1);
    assert_eq!(
        (&read[0]["node"], &read[0]["instruction"]),
        (&"paint".into(), &"Use the green paint.".into())
    );
    assert!(
        read[0]["file"]
            .as_str()
            .unwrap()
            .ends_with("paint/steer-001.read.md"),
        "{}",
        read[0]
    );
    assert_eq!(files, ["steer-001.read.md"]);
}

#[test]
fn an_instruction_that_no_model_heard_reaches_the_next_model_stage() {
    for backend in ["direct", "echo"] {
        let project = project(&format!(
            r#"digraph child {{
                start -> fails
                fails [shape=parallelogram, tool_command="exit 1"]
                fails -> build [condition="outcome=fail"]
                build [shape=parallelogram, tool_command="{}"]
                build -> paint -> exit
                paint [prompt="Paint the fence.", backend={backend}]
            }}"#,
            STEERED.replace("STAGE", "build")
        ));
        let yaml = project.scratch.read("orchestra.yaml");
        project.scratch.write(
            "orchestra.yaml",
            yaml + "backends: {echo: {kind: cli, command: cat > heard}}\n",
        );
        project.server.push(Answer::text("It is green."));
        project.call(&["run", "parent.dot"]).exits(0);
        let heard = match backend {
            "echo" => project.scratch.read("heard"),
            _ => Value::from(project.asked().remove(0)).to_string(),
        };
        assert!(
            heard.contains("Paint the fence.") && heard.contains("Use the green paint."),
            "{heard}"
        );
        let (read, files) = record(&project, "build");
        assert_eq!((read.len(), &read[0]["node"]), (1, &"paint".into()));
        assert_eq!(files, ["steer-001.read.md"]);
    }
}
