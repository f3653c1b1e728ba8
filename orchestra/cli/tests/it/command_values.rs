//! Values of a run in the commands of tool stages, through the program.

#![cfg(unix)]

use crate::support;

use support::Scratch;

const ODD: &str = "-n $(touch canary) `touch canary` \"; touch canary; ' * \\";

/// A pipeline whose stage `a` executes a command with the context value `plan` in `PLAN`.
fn flow(command: &str, attributes: &str) -> String {
    let command = command.replace('\\', "\\\\").replace('"', "\\\"");
    format!(
        "digraph a {{ inputs=\"plan: text\"\n start [shape=Mdiamond]; exit [shape=Msquare]\n start -> a -> exit\n \
         a [shape=parallelogram, tool_command=\"{command}\", {attributes}] }}\n"
    )
}

#[test]
fn a_command_receives_a_value_byte_for_byte() {
    let scratch = Scratch::new();
    let command = "printf '%s' \"$PLAN\" > variable; cat > input";
    scratch.write("a.dot", flow(command, "tool_env_from.PLAN=plan, tool_stdin=plan"));
    scratch.call(&["check", "a.dot"]).exits(0);
    let set = format!("plan={ODD}");
    scratch.call(&["run", "a.dot", "--set", &set]).exits(0);
    for file in ["variable", "input"] {
        assert_eq!(
            std::fs::read_to_string(scratch.path(file)).unwrap(),
            ODD,
            "{file}"
        );
    }
    assert!(!scratch.path("canary").exists());
}

#[test]
fn a_command_that_executes_a_value_is_refused() {
    let scratch = Scratch::new();
    for (command, attributes, place) in [
        ("eval \"$PLAN\"", "tool_env_from.PLAN=plan", ":4:47"),
        ("sh -c \"echo '$PLAN'\"", "tool_env_from.PLAN=plan", ":4:54"),
        ("cd . && bash -s", "tool_stdin=plan", ":4:48"),
    ] {
        scratch.write("a.dot", flow(command, attributes));
        for call in [
            &["check", "a.dot"][..],
            &["run", "a.dot", "--set", "plan=touch canary"],
        ] {
            let refused = scratch.call(call).exits(3);
            let text = refused.stdout + &refused.stderr;
            assert!(
                text.contains("error[shell_injection]: the command executes"),
                "{text}"
            );
            assert!(text.contains(place), "{place} in {text}");
        }
    }
    assert!(!scratch.path("canary").exists());
    let explained = scratch.call(&["explain", "shell_injection"]).exits(0);
    assert!(
        explained.stdout.contains("sh -c 'command"),
        "{}",
        explained.stdout
    );
}

#[test]
fn an_unquoted_value_is_a_warning() {
    let scratch = Scratch::new();
    scratch.write("a.dot", flow("echo $PLAN", "tool_env_from.PLAN=plan"));
    let checked = scratch.call(&["check", "a.dot"]).exits(0);
    let text = checked.stdout + &checked.stderr;
    assert!(text.contains("warning[unquoted_value]"), "{text}");
    assert!(text.contains("write `\"$PLAN\"`"), "{text}");
}
