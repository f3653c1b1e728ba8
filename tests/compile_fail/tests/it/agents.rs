//! Agents of a program: layers, variables, tools and models are looked for while it is built.

use orchestra_compile_fail_tests::{BuildOutput, Package};

fn check(name: &str, files: &[(&str, &str)], program: &str) -> BuildOutput {
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), name);
    for (path, text) in files {
        package.write(path, text);
    }
    package.write("src/lib.rs", program);
    package.check()
}

const CONFIG: &str = "providers:\n  default: anthropic\n  anthropic:\n    models: {smart: claude-opus-4-6}\n";
const TASK: &str = "task:\n  name: greet\n  template: |\n    Greet {{ person }} {{ times }} times.\n";
const ROLE: &str = "role:\n  name: greeter\n  system: You greet people.\n";

#[test]
fn an_agent_has_layers_of_its_package_and_tools_of_its_program() {
    let files = [
        ("orchestra.yaml", CONFIG),
        ("prompts/tasks/greet.yaml", TASK),
        ("prompts/roles/greeter.yaml", ROLE),
    ];
    let said = check(
        "right_agents",
        &files,
        "/// Waves.\n#[orchestra::tool]\npub fn wave_hands() {}\n\n\
         #[orchestra::agent(role = \"greeter\", task = \"greet\", model = \"smart\", config = \"orchestra.yaml\",\n    \
         tools = [\"read-file\", \"wave-hands\"], tool_set = (wave_hands,))]\n\
         pub struct Greeter { pub person: String, pub r#times: Vec<u8> }\n\n\
         #[orchestra::agent(name = \"plain\")]\npub struct Plain;\n\n\
         pub fn greet() -> String {\n    use orchestra::agents::AgentDefinition;\n    let _ = Plain.prompt();\n    \
         Greeter { person: \"you\".into(), times: vec![1] }.prompt().map_or_default(|prompt| prompt.message)\n}\n"
            .replace("map_or_default(|prompt| prompt.message)", "map_or(String::new(), |prompt| prompt.message)")
            .as_str(),
    );
    assert!(said.built, "{}", said.listed());
}

#[test]
fn what_is_missing_is_reported_at_the_option_that_names_it() {
    let files = [("orchestra.yaml", CONFIG), ("prompts/tasks/greet.yaml", TASK)];
    let lines = [
        "#[orchestra::agent(role = \"security-reviwer\")] pub struct A;",
        "#[orchestra::agent(role = \"planner\", task = \"greet\")] pub struct B { pub person: String }",
        "#[orchestra::agent(role = \"planner\", tools = [\"read-fil\"])] pub struct C;",
        "#[orchestra::agent(model = \"smrt\", provider = \"antropic\", config = \"orchestra.yaml\")] pub struct D;",
        "#[orchestra::agent(config = \"orchestr.yaml\")] pub struct E;",
    ];
    let said = check("wrong_agents", &files, &format!("{}\n", lines.join("\n")));
    assert!(!said.built);
    for (at, words, token) in [
        (0, "security-reviwer", "\"security-reviwer\""),
        (1, "`times`", "\"greet\""),
        (2, "unknown tool `read-fil`", "\"read-fil\""),
        (3, "antropic", "\"antropic\""),
        (4, "no file `orchestr.yaml`", "\"orchestr.yaml\""),
    ] {
        let message = said.about(words);
        let column = lines[at].rfind(token).expect("the token stands there") + 1;
        let (line, start) = message.start;
        assert_eq!(line, at as u64 + 1, "{words}:\n{}", said.listed());
        assert!(
            start >= column as u64,
            "{words}: {start}, not {column}:\n{}",
            said.listed()
        );
        assert!(
            start < (column + token.len()) as u64,
            "{words}: {start}, not {column}:\n{}",
            said.listed()
        );
    }
    let template = said.about("`times`");
    assert!(
        template.text.contains("prompts/tasks/greet.yaml:4:"),
        "{}",
        template.text
    );
    assert!(
        template.text.contains("= help: make it a field of the struct"),
        "{}",
        template.text
    );
    let layer = "unknown role `security-reviwer` [prompt_layer_missing]\n  \
                 = note: looked for prompts/roles/security-reviwer.yaml\n  = help: did you mean `security-reviewer`?";
    assert_eq!(said.about("security-reviwer").text, layer);
}
