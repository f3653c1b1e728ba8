//! Agents and tools of a user that are available in all projects, through the program.

#![cfg(unix)]

use crate::agents_support;

use agents_support::{Project, reports};
use orchestra_model_server_tests::Answer;

const FLOW: &str = "digraph {\n    start -> ask -> exit\n    ask [prompt=x, agent=critic]\n}\n";

/// Returns a project without agents, whose user has agents and tools at home.
fn project(more: &str) -> Project {
    let project = Project::new(more);
    project
        .scratch
        .write("a.dot", FLOW)
        .write(
            "home/.orchestra/agents/critic.yaml",
            "agent: {role: my-critic, tools: [spell]}\n",
        )
        .write(
            "home/.orchestra/tools/spell.yaml",
            "tool: {command: echo of the user, description: Finds misspelt words.}\n",
        )
        .write(
            "home/.orchestra/prompts/roles/my-critic.yaml",
            "role: {system: You are the user's own critic.}\n",
        );
    project
}

/// Returns the system prompt that the model received, and the result of its tool.
fn run(project: &Project) -> (String, String) {
    project.server.push(Answer::call("spell", "{}"));
    project.server.push(reports("Done."));
    project.call(&["run", "a.dot"]).exits(0);
    let requests = project.server.requests();
    let result = project.asked()[1].last().unwrap().to_string();
    (requests[0].body["system"].to_string(), result)
}

#[test]
fn agents_and_tools_of_the_user_are_found_in_every_project() {
    let project = project("");
    let compiled = project.call(&["compile", "a.dot"]).exits(0).stdout;
    assert!(
        compiled.contains("critic") && compiled.contains("spell"),
        "{compiled}"
    );
    let (system, result) = run(&project);
    assert!(system.contains("You are the user's own critic."), "{system}");
    assert!(result.contains("of the user"), "{result}");
}

#[test]
fn what_the_project_says_stands_in_place_of_what_the_user_says() {
    let project = project(
        "agents: {critic: {role: adversarial-critic, tools: [spell]}}\n\
         tools: {spell: {command: echo of the project, description: Finds words.}}\n",
    );
    let (system, result) = run(&project);
    assert!(!system.contains("the user's own critic"), "{system}");
    assert!(result.contains("of the project"), "{result}");
}

#[test]
fn a_faulty_file_of_the_user_is_reported_with_its_position_and_gives_nothing() {
    let project = project("");
    project.scratch.write(
        "home/.orchestra/agents/critic.yaml",
        "agent:\n  roel: my-critic\n",
    );
    let refused = project.call(&["run", "a.dot"]).exits(3);
    for part in [
        "agents/critic.yaml:2:3",
        "config_unknown_key",
        "did you mean `role`?",
        "unknown agent `critic`",
    ] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    // Pipelines that do not use the invalid file are not affected.
    project.scratch.write("a.dot", FLOW.replace(", agent=critic", ""));
    project.server.push(reports("Done."));
    project.call(&["run", "a.dot"]).exits(0);
}

#[test]
fn the_roles_that_come_with_orchestra_include_those_of_its_design() {
    let project = Project::new(
        "agents:\n  security-reviewer: {role: security-engineer, persona: senior-security-engineer, personality: thorough-skeptical}\n  \
           architecture-reviewer: {role: software-architect, persona: principal-engineer, personality: pragmatic-opinionated}\n  \
           synthesizer: {role: review-synthesizer, persona: tech-lead, personality: balanced-decisive}\n",
    );
    for agent in ["security-reviewer", "architecture-reviewer", "synthesizer"] {
        project.scratch.write("a.dot", FLOW.replace("critic", agent));
        let compiled = project.call(&["compile", "a.dot"]).exits(0).stdout;
        assert!(compiled.contains("(orchestra:roles/"), "{compiled}");
    }
}
