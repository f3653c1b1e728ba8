//! Task templates that grow without bound are rejected with their position, in a process with little memory.

#![cfg(unix)]

use crate::agents_support;

use std::process::Command;

use agents_support::{Done, Project, done};

/// Runs the program with 2 GB of address space.
fn limited(project: &Project, args: &[&str]) -> Done {
    let command = project.command(args);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -v 2000000 && exec \"$0\" \"$@\""]);
    limited.arg(command.get_program()).args(command.get_args());
    limited.current_dir(command.get_current_dir().unwrap());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    done(limited.output().unwrap())
}

fn project(template: &str) -> Project {
    let project = Project::new("agents:\n  writer: {task: write}\n");
    let task = format!("task:\n  name: write\n  template: |\n    Write this:\n    {template}\n");
    project.scratch.write("prompts/tasks/write.yaml", task);
    project.scratch.write(
        "a.dot",
        format!(
            "digraph flow {{\n    goal={}\n    start -> write -> exit\n    write [agent=writer, prompt=x]\n}}\n",
            "x".repeat(3000)
        ),
    );
    project
}

#[test]
fn a_template_whose_text_doubles_is_refused_before_anything_runs() {
    for template in [
        format!(
            "{{% set s = goal %}}{}{{{{ s }}}}",
            "{% set s = s ~ s %}".repeat(40)
        ),
        "{% set s = 'x' %}{% for i in range(60) %}{% set s = s ~ s %}{% endfor %}".to_owned(),
        "{{ 'x' * 1000000000 }}".to_owned(),
    ] {
        let project = project(&template);
        let refused = limited(&project, &["run", "a.dot"]).exits(3);
        assert!(
            refused.stderr.contains("prompts/tasks/write.yaml:5:"),
            "{}",
            refused.stderr
        );
        assert!(project.server.requests().is_empty());
    }
}

#[test]
fn a_template_that_grows_when_it_is_rendered_fails_its_stage() {
    for template in [
        "{{ goal | replace('x', goal) | length }}",
        "{{ range(9000) | join(goal) | length }}",
        "{% set c %}{% for i in range(9000) %}{{ goal }}{% endfor %}{% endset %}{{ c | length }}",
    ] {
        let failed = limited(&project(template), &["run", "a.dot"]).exits(1);
        assert!(
            failed.stderr.contains("prompts/tasks/write.yaml:5:"),
            "{}",
            failed.stderr
        );
        assert!(
            failed.stderr.contains("the text grows longer than"),
            "{}",
            failed.stderr
        );
    }
}
