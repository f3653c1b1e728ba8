//! `config = "orchestra.yaml"`: what a pipeline wants of the project configuration is checked when it is built, and what
//! it needs of it is compiled in.

use std::time::Duration;

use orchestra::config::{Project, ResolveOptions, TemplateValues};
use orchestra_compile_fail_tests::{BuildOutput, Package, expect};

const PIPELINE: &str = "digraph review {
    inputs=\"pr_diff\"
    start -> check -> exit
    check [agent=reviewer, prompt=\"Mind the tests.\"]
}
";

const CONFIG: &str = "providers:
  default: anthropic
  anthropic: {models: {smart: claude-opus-4-6}}
tools:
  run-tests: {command: cargo test}
agents:
  reviewer:
    role: reviewer
    personality: concise
    task: review
    tools: [run-tests]
";

const ROLE: &str = "role:\n  system: You review changes.\n";

const TASK: &str = "task:\n  template: |\n    Goal: {{ goal }}\n    Look at {{ pr_diff }}\n";

const PROGRAM: &str =
    "orchestra::pipeline! { pub mod review = \"./review.dot\", config = \"orchestra.yaml\"; }\n";

fn package(name: &str) -> Package {
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), name);
    package.write("orchestra.yaml", CONFIG);
    package.write("src/review.dot", PIPELINE);
    package.write("prompts/roles/reviewer.yaml", ROLE);
    package.write("src/prompts/tasks/review.yaml", TASK);
    package.write("src/lib.rs", PROGRAM);
    package
}

fn silent(said: &BuildOutput) {
    assert!(said.built && said.messages.is_empty(), "{}", said.listed());
}

/// Checks a package whose files are changed, and says what is reported of it, all at the name of the configuration.
fn reported(name: &str, changes: &[(&str, String)]) -> String {
    let package = package(name);
    for (file, text) in changes {
        package.write(file, text);
    }
    let said = package.check();
    assert!(!said.built, "{name} builds");
    said.listed()
}

#[test]
fn a_sound_project_builds_without_a_word_and_anew_when_a_layer_changes() {
    let package = package("config_sound");
    let strict = "
#![deny(warnings, unused, rust_2018_idioms, unreachable_pub, missing_docs)]
//! A package.
/// Pipelines.
pub mod pipelines {
    orchestra::pipeline! {
        config = \"orchestra.yaml\";
        pub mod review = \"../review.dot\";
    }
}
/// The files of the configuration.
pub const FILES: usize = pipelines::review::CONFIG.files().len();
const _: () = assert!(FILES == 3);
";
    package.write("src/lib.rs", strict.replace("../review", "./review"));
    silent(&package.check());
    // Cargo compares times of change, whose steps may be as long as a second.
    std::thread::sleep(Duration::from_millis(1_100));
    package.write("src/prompts/tasks/review.yaml", TASK.replace("goal", "gaol"));
    let said = package.check();
    assert!(!said.built, "an edited template was not read again");
    std::thread::sleep(Duration::from_millis(1_100));
    package.write("src/prompts/tasks/review.yaml", TASK);
    silent(&package.check());
    std::thread::sleep(Duration::from_millis(1_100));
    package.write(
        "orchestra.yaml",
        CONFIG.replace("default: anthropic", "default: antropic"),
    );
    let said = package.check();
    assert!(!said.built, "an edited configuration was not read again");
    expect("config_edited.txt", &said.listed());
}

#[test]
fn what_is_not_there_is_reported_where_it_is_named() {
    let said = reported(
        "config_missing",
        &[
            (
                "src/review.dot",
                PIPELINE
                    .replace("start -> check", "start -> again -> last -> check")
                    .replace("}\n", "    again [agent=reviwer, llm_provider=openia]\n    last [prompt=Judge, llm_model=cheap, agent.mode=interactive, backend=direct]\n}\n"),
            ),
            (
                "orchestra.yaml",
                CONFIG
                    .replace("role: reviewer", "role: reviwer")
                    .replace("[run-tests]", "[run-test, 'api:lint']")
                    .replace("concise", "../concise"),
            ),
            ("src/prompts/tasks/review.yaml", TASK.replace("pr_diff", "pr_dif | uper")),
        ],
    );
    for location in [
        "unknown role `reviwer` [prompt_layer_missing]\n --> orchestra.yaml:8:11",
        "unknown agent `reviwer` [unknown_agent]\n --> src/review.dot:5:18",
        "unknown tool `run-test` [unknown_tool]\n  --> orchestra.yaml:11:13",
        "nothing sets the variable `pr_dif` [template_variable]\n --> src/prompts/tasks/review.yaml:4:16",
        "unknown filter `uper` [template_syntax]\n --> src/prompts/tasks/review.yaml:4:25",
        "the provider `anthropic` has no model `cheap` [unresolved_model]\n --> src/review.dot:6:35",
    ] {
        assert!(said.contains(location), "{location:?} is not in:\n{said}");
    }
    expect("config_missing.txt", &said);
}

#[test]
fn what_a_child_lacks_is_reported_with_its_own_position() {
    let package = package("config_child");
    let parent = "digraph whole {
    start -> part -> exit
    part [shape=folder, label=\"Part\", subpipeline.file=\"parts/review.dot\"]
}
";
    package.write("src/review.dot", parent);
    package.write("src/parts/review.dot", PIPELINE);
    // A child looks for its prompts beside itself.
    let said = package.check();
    let location = "unknown task `review` [prompt_layer_missing]\n  --> orchestra.yaml:10:11";
    assert!(said.listed().contains(location), "{}", said.listed());
    package.write("src/parts/prompts/tasks/review.yaml", TASK);
    silent(&package.check());
    package.write(
        "src/parts/review.dot",
        PIPELINE.replace("agent=reviewer", "agent=reviewr"),
    );
    let said = package.check();
    let own = said.about("unknown agent `reviewr` [unknown_agent]");
    assert!(own.text.contains("--> src/parts/review.dot:4:18"), "{}", own.text);
    // A child has no token in the program; its fault points at the name of the file that leads to it.
    assert_eq!(own.start, (1, 41), "{}", said.listed());
}

#[test]
fn files_that_are_no_configuration_and_no_layer_are_reported_with_their_positions() {
    let broken = reported(
        "config_broken",
        &[
            (
                "orchestra.yaml",
                CONFIG.replace("    task: review", "    tsak: review\n    task: reviw"),
            ),
            (
                "prompts/roles/reviewer.yaml",
                "role:\n  sytem: You review.\n".to_owned(),
            ),
        ],
    );
    expect("config_broken.txt", &broken);
    let gone = reported(
        "config_gone",
        &[("src/lib.rs", PROGRAM.replace("orchestra.yaml", "orchestr.yaml"))],
    );
    expect("config_gone.txt", &gone);
}

#[test]
fn tools_of_the_program_are_known_by_their_types() {
    let package = package("config_tools");
    package.write(
        "orchestra.yaml",
        CONFIG.replace("[run-tests]", "[query-database, run_test]"),
    );
    let program = "
/// A tool.
pub struct QueryDatabase;
impl orchestra::agents::ToolSet for QueryDatabase {
    const NAMES: orchestra::agents::ToolNames = orchestra::agents::ToolNames::List(&[\"query-database\"]);
    fn register(self, _: &mut orchestra::agents::ToolRegistry) {}
}
orchestra::pipeline! {
    pub mod review = \"./review.dot\",
        config = \"orchestra.yaml\", tools = QueryDatabase;
}
";
    package.write("src/lib.rs", program);
    let said = package.check();
    assert!(!said.built);
    let [message] = said.messages.as_slice() else {
        unreachable!("one tool is missing:\n{}", said.listed());
    };
    assert!(message.text.contains("orchestra.yaml:11:29"), "{}", said.listed());
    // The types of the tools are what must change, or else the configuration that the message names.
    assert_eq!(
        (message.start, message.end),
        ((10, 44), (10, 57)),
        "{}",
        said.listed()
    );
    expect("config_tools.txt", &said.listed());
    package.write(
        "orchestra.yaml",
        CONFIG.replace("[run-tests]", "[query-database, run_tests]"),
    );
    silent(&package.check());
}

const REPOSITORIES: &str = "
workspace:
  repos: {backend: {path: ../backend, branch_prefix: bot/}, frontend: {path: ../frontend}}
  tools: {backend: {lint: {command: make lint}}}
";

/// A pipeline whose branches write, of which each node and each tool of a repository can be spoilt.
const BRANCHES: &str = "digraph review {
    inputs=\"pr_diff\"
    fan  [shape=component, label=Fan]
    join [shape=tripleoctagon, label=Join, merge_policy=best_only, on_conflict=human]
    api  [agent=reviewer, repo=backend, agent.tools=\"backend:edit-file, frontend:grep, backend:lint\"]
    page [shape=parallelogram, label=Page, tool_command=\"make page\", repo=frontend]
    start -> fan
    fan -> api -> join
    fan -> page -> join
    join -> exit
}
";

#[test]
fn repositories_are_checked_with_the_pipeline() {
    let package = package("config_repositories");
    package.write("orchestra.yaml", format!("{CONFIG}{REPOSITORIES}"));
    package.write("src/review.dot", BRANCHES);
    silent(&package.check());
    let reported = |config: &str, flow: &str| {
        package.write("orchestra.yaml", config);
        package.write("src/review.dot", flow);
        let said = package.check();
        assert!(!said.built, "{flow}");
        said.listed()
    };
    let sound = format!("{CONFIG}{REPOSITORIES}");
    let spoilt = BRANCHES
        .replace("repo=frontend", "repo=fronted")
        .replace("backend:edit-file", "backend:edit-fiel")
        .replace(
            "shape=tripleoctagon, label=Join, merge_policy=best_only, on_conflict=human",
            "shape=hexagon, label=Join",
        );
    let prefix = sound.replace("branch_prefix: bot/", "branch_prefix: .bot//");
    let all = [
        reported(&prefix, &spoilt),
        // A word that an attribute does not have is a fault of the language.
        reported(&sound, &BRANCHES.replace("best_only", "best-only")),
    ];
    expect("config_repositories.txt", &all.concat());
}

#[test]
fn without_the_feature_the_option_says_so() {
    let package = package("config_unavailable");
    let orchestra = Package::orchestra();
    package.manifest(&format!(
        "orchestra-workflow = {{ path = {:?} }}",
        orchestra.display().to_string()
    ));
    let said = package.check();
    assert!(!said.built);
    let message = said.about("`config = ..` needs the feature `agents` of the package `orchestra-workflow`");
    assert_eq!(message.start, (1, 57), "{}", said.listed());
}

orchestra::pipeline! {
    mod configured = digraph configured {
        inputs="pr_diff"
        start -> check -> exit
        check [agent=reviewer]
    },
    config = "configured/orchestra.yaml";
}

#[test]
fn a_compiled_program_needs_no_file_of_its_configuration() {
    let config = &configured::CONFIG;
    let project = Project::load(config.configuration(), config);
    let options = ResolveOptions {
        reader: Some(config),
        ..ResolveOptions::default()
    };
    let resolution = project.resolve(&configured::PIPELINE, &options);
    assert!(!resolution.has_errors());
    let stage = resolution.stage("check").expect("a model stage");
    assert_eq!(stage.model.as_ref().expect("it has one").value, "claude-opus-4-6");
    assert!(stage.system.starts_with("You review whether code does"));
    let mut values = TemplateValues::default();
    values.set("pr_diff", "- a");
    assert_eq!(stage.message(&values).as_deref(), Ok("Review - a"));
}

#[test]
fn tools_of_servers_are_checked_against_the_lock_file_when_the_program_is_built() {
    let server = "mcp_servers:\n  files: {command: [files, .], tools: [read_text_file]}\n";
    let agent = CONFIG.replace("tools: [run-tests]", "tools: [run-tests, 'files:read_text_file']");
    let lock = r#"{"schema": "orchestra.mcp.lock/1", "servers": {"files": [
        {"name": "read_text_file", "description": "Reads.", "input_schema": {"type": "object"}, "sha256": "00"}]}}"#;
    let changes = |configuration: String, lock: &str| {
        [
            ("orchestra.yaml", configuration),
            ("orchestra.mcp.lock", lock.to_owned()),
        ]
    };
    let misspelt = server.replace("[read_text_file]", "[read_text_file, read_txt_file]");
    let agent_misspelt = agent.replace("files:read_text_file", "files:read_text_fil");
    let said = reported("mcp_misspelt", &changes(agent_misspelt + &misspelt, lock));
    for message in [
        "the server `files` has no tool `read_txt_file` [mcp_unknown_tool]\n  --> orchestra.yaml:13:56",
        "did you mean `read_text_file`?",
        "unknown tool `files:read_text_fil` [unknown_tool]\n  --> orchestra.yaml:11:25",
        "did you mean `files:read_text_file`?",
    ] {
        assert!(said.contains(message), "{message}\n{said}");
    }
    let said = reported(
        "mcp_unlocked",
        &changes(
            agent.clone() + server,
            r#"{"schema": "orchestra.mcp.lock/1", "servers": {}}"#,
        ),
    );
    assert!(
        said.contains("the tools of the server `files` are not locked [mcp_not_locked]"),
        "{said}"
    );
    assert!(said.contains("orchestra mcp lock"), "{said}");
    let sound = package("mcp_sound");
    for (file, text) in changes(agent + server, lock) {
        sound.write(file, text);
    }
    let holds_the_lock = format!("{PROGRAM}const _: () = assert!(review::CONFIG.files().len() == 4);\n");
    sound.write("src/lib.rs", holds_the_lock);
    silent(&sound.check());
}
