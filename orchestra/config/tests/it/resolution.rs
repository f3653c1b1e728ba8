//! Resolution of the settings of model stages, and the diagnostics of invalid projects.

use std::collections::BTreeMap;
use std::path::Path;

use orchestra_config::{Agent, Project, Resolution, ResolveOptions};
use orchestra_graph::{LoadOptions, ReadError, Source, load, render};
use serde_json::json;

/// Reads a file of the test data.
fn disk(path: &str, _: u64) -> Result<Vec<u8>, ReadError> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    std::fs::read(data.join(path)).map_err(|_| ReadError::Missing)
}

/// In-memory files by path.
struct Files(BTreeMap<&'static str, &'static str>);

impl orchestra_graph::ChildReader for Files {
    fn read(&self, path: &str, _: u64) -> Result<Vec<u8>, ReadError> {
        self.0
            .get(path)
            .map(|text| text.as_bytes().to_vec())
            .ok_or(ReadError::Missing)
    }
}

fn files<const N: usize>(files: [(&'static str, &'static str); N]) -> Files {
    Files(files.into())
}

/// Resolves the stages of `flows/a.dot` with `orchestra.yaml`.
fn resolve(files: &Files, options: ResolveOptions<'_>) -> Resolution {
    let project = Project::load("orchestra.yaml", files);
    let text = files.0["flows/a.dot"];
    let loaded = load(Source::new("flows/a.dot", text), &LoadOptions::default());
    assert_eq!(
        render::concise(&loaded.report),
        "",
        "the pipeline itself is sound"
    );
    let options = ResolveOptions {
        reader: Some(files),
        ..options
    };
    let resolution = project.resolve_graph(&loaded.analysis(), &options);
    // The compiled table resolves to the same values.
    let pipeline = loaded.pipeline().expect("it is sound");
    let running = project.resolve(&pipeline, &options);
    assert_eq!(running.files, resolution.files);
    for (running, checked) in running.stages.iter().zip(&resolution.stages) {
        let values = |stage: &orchestra_config::ResolvedStage| {
            let mut stage = serde_json::to_value(stage).expect("it is data");
            for (_, field) in stage.as_object_mut().expect("a map") {
                if let Some(field) = field.as_object_mut() {
                    field.remove("reason");
                    field.remove("location");
                }
            }
            stage
        };
        assert_eq!(values(running), values(checked));
    }
    resolution
}

fn reported(resolution: &Resolution) -> String {
    resolution.reports.iter().map(render::concise).collect()
}

#[test]
fn a_whole_pipeline_gets_what_its_project_says() {
    let project = Project::load("review.yaml", &disk);
    let text = disk("review.dot", 0).expect("it is there");
    let text = String::from_utf8(text).expect("it is text");
    let loaded = load(Source::new("review.dot", text), &LoadOptions::default());
    let options = ResolveOptions {
        reader: Some(&disk),
        ..ResolveOptions::default()
    };
    let resolution = project.resolve_graph(&loaded.analysis(), &options);
    assert_eq!(reported(&resolution), "");
    insta::assert_snapshot!("table", resolution.table());
    let mut prompts = String::new();
    let values = json!({
        "goal": "Review the pull request",
        "pr_diff": "- a\n+ b",
        "parallel.results": [{"id": "security", "notes": "fine"}],
        "last_response": "Sufficient.",
    });
    for stage in &resolution.stages {
        let message = stage
            .message(&values.as_object().expect("a map").into())
            .expect("it renders");
        prompts.push_str(&format!(
            "=== {}\n{}\n--- message\n{message}\n",
            stage.node, stage.system
        ));
    }
    insta::assert_snapshot!("prompts", prompts);
    let looked: Vec<String> = resolution
        .files
        .iter()
        .map(|file| format!("{} {}", if file.found { "read  " } else { "missed" }, file.path))
        .collect();
    insta::assert_snapshot!("files", looked.join("\n"));
}

#[test]
fn one_line_switches_all_agents_that_say_nothing_else() {
    let text = |default: &str| {
        format!(
            "providers:\n  default: {default}\n  a: {{kind: anthropic, models: {{smart: a-smart, worker: a-worker}}}}\n  \
             b: {{kind: openai, models: {{smart: b-smart, worker: b-worker}}}}\n\
             agents:\n  one: {{model: worker}}\n  two: {{}}\n  three: {{provider: a}}\n"
        )
    };
    let pipeline = "digraph { start -> x -> y -> z -> exit; x [agent=one] y [agent=two] z [agent=three] }";
    let models = |default| {
        let text: &'static str = text(default).leak();
        let resolution = resolve(
            &files([("orchestra.yaml", text), ("flows/a.dot", pipeline)]),
            ResolveOptions::default(),
        );
        assert_eq!(reported(&resolution), "");
        let stages = resolution.stages.into_iter();
        stages
            .map(|stage| stage.model.expect("it has one").value)
            .collect::<Vec<_>>()
    };
    assert_eq!(models("a"), ["a-worker", "a-smart", "a-smart"]);
    assert_eq!(models("b"), ["b-worker", "b-smart", "a-smart"]);
}

#[test]
fn every_fault_is_reported_where_it_is_to_be_mended() {
    let files = files([
        (
            "orchestra.yaml",
            "providers: {default: anthropic, anthropic: {models: {smart: c}}}
agents:
  critic: {role: nobody, persona: ring, model: cheap, tools: [read-fil, backend:lint]}
  typo: {task: typo, personality: broken}
  oneshot: {backend: direct, tools: [shell], mode: interactive}
  outside: {role: ../../etc/passwd}
",
        ),
        (
            "flows/a.dot",
            "digraph review {
    start -> a -> b -> c -> d -> e -> f -> exit
    a [agent=critic]
    b [agent=crtic, llm_provider=antropic]
    c [agent=typo]
    d [agent=oneshot]
    e [agent=outside, backend=drect, agent.tools=\"grpe\", output_keys=\"plan\"]
    f [agent.task=loops, llm_model=worker]
}",
        ),
        (
            "prompts/personas/ring.yaml",
            "persona:\n  extends: round\n  modifiers: a\n",
        ),
        (
            "prompts/personas/round.yaml",
            "persona:\n  extends: ring\n  modifiers: b\n",
        ),
        (
            "prompts/personalities/broken.yaml",
            "personality:\n  modifers: a\n  name: other\n",
        ),
        (
            "flows/prompts/tasks/typo.yaml",
            "# beside the pipeline\ntask:\n  template: |\n    Read {{ goal }} and\n    mind {{ pln.steps }}, then {{ plan }}\n\n    {{ label | uper }} twice\n",
        ),
        (
            "prompts/tasks/typo.yaml",
            "task: {template: it is not this one}\n",
        ),
        (
            "prompts/tasks/loops.yaml",
            "task:\n  template: \"for {% for x in %} ever\"\n",
        ),
    ]);
    let resolution = resolve(&files, ResolveOptions::default());
    let mut text = String::new();
    for report in &resolution.reports {
        text.push_str(&render::text(report, render::Style::Plain));
    }
    insta::assert_snapshot!("faults", text);
}

#[test]
fn the_first_folder_that_has_a_layer_gives_it() {
    let layer = |text: &str| -> &'static str { format!("role: {{system: {text}}}\n").leak() };
    let pipeline = "digraph { start -> x -> exit; x [agent.role=planner, backend=simulation] }";
    let mut all = files([
        ("orchestra.yaml", "prompts: [shared, ../other]\n"),
        ("flows/a.dot", pipeline),
        ("flows/prompts/roles/planner.yaml", layer("pipeline")),
        ("shared/roles/planner.yaml", layer("shared")),
        ("../other/roles/planner.yaml", layer("other")),
        ("prompts/roles/planner.yaml", layer("project")),
        ("/home/ada/.orchestra/prompts/roles/planner.yaml", layer("user")),
    ]);
    for (path, text) in [
        ("flows/prompts/roles/planner.yaml", "pipeline"),
        ("shared/roles/planner.yaml", "shared"),
        ("../other/roles/planner.yaml", "other"),
        ("prompts/roles/planner.yaml", "project"),
        ("/home/ada/.orchestra/prompts/roles/planner.yaml", "user"),
    ] {
        let user_folder = Some("/home/ada/.orchestra/prompts".to_owned());
        let resolution = resolve(
            &all,
            ResolveOptions {
                user_folder,
                ..ResolveOptions::default()
            },
        );
        assert_eq!(reported(&resolution), "");
        assert_eq!(resolution.stages[0].system, text);
        assert_eq!(resolution.stages[0].layers[0].path, path);
        all.0.remove(path);
    }
    let resolution = resolve(&all, ResolveOptions::default());
    assert!(
        resolution.stages[0]
            .system
            .starts_with("You plan changes of software")
    );
    assert_eq!(
        resolution.stages[0].layers[0].path,
        "orchestra:roles/planner.yaml"
    );
}

#[test]
fn tools_are_added_restricted_and_taken_away() {
    let all = files([
        (
            "orchestra.yaml",
            "backend: simulation
tools: {run_tests: {command: make test}}
workspace:
  repos: {api: {path: ../api}}
  tools: {api: {lint: {command: make lint}}}
agents:
  more: {tools: [run_tests, 'api:lint']}
  none: {tools: []}
  only: {only_tools: [read_file, grep]}
  both: {only_tools: [grep], tools: [query-database]}
  picked: {only_tools: [grep], tools: []}
",
        ),
        (
            "flows/a.dot",
            "digraph { start -> a -> b -> c -> d -> e -> f -> g -> exit
             a [agent=more] b [agent=none] c [agent=only] d [agent=both] e [agent=picked]
             f [agent=only, agent.tools=\"run-tests\"] g [agent=more, agent.tools=\"\"] }",
        ),
    ]);
    let tools = vec!["query_database".to_owned()];
    let resolution = resolve(
        &all,
        ResolveOptions {
            tools,
            ..ResolveOptions::default()
        },
    );
    assert_eq!(reported(&resolution), "");
    let base = "edit-file glob grep read-file search-code shell write-file";
    let [start, rest] = ["edit-file glob grep read-file", "search-code shell write-file"];
    let stages = resolution.stages.iter().map(|stage| stage.tools.join(" "));
    assert_eq!(
        stages.collect::<Vec<_>>(),
        [
            &format!("api:lint {start} run-tests {rest}"),
            "",
            "grep read-file",
            "grep query-database",
            "grep",
            "grep read-file run-tests",
            "",
        ]
    );
    assert_eq!(base, format!("{start} {rest}"));
}

#[test]
fn agents_of_the_program_are_known_and_those_of_the_project_come_first() {
    let all = files([
        (
            "orchestra.yaml",
            "backend: simulation\nagents: {critic: {role: planner}}\n",
        ),
        (
            "flows/a.dot",
            "digraph { start -> a -> b -> exit; a [agent=critic] b [agent=helper] }",
        ),
    ]);
    let role = |name: &str| Agent {
        role: Some(name.to_owned().into()),
        ..Agent::default()
    };
    let agents = [
        ("critic".to_owned(), role("triager")),
        ("helper".to_owned(), role("nobody")),
    ];
    let resolution = resolve(
        &all,
        ResolveOptions {
            agents: agents.into(),
            ..ResolveOptions::default()
        },
    );
    assert_eq!(resolution.stages[0].layers[0].name, "planner");
    assert_eq!(
        reported(&resolution),
        "flows/a.dot:1:62: error[prompt_layer_missing]: unknown role `nobody`\n"
    );
}

#[test]
fn a_task_that_does_not_use_the_prompt_gets_it_appended() {
    let all = files([
        ("orchestra.yaml", "backend: simulation\n"),
        (
            "flows/a.dot",
            "digraph { goal=ship; start -> a -> b -> c -> d -> exit; node [prompt=\"Be quick.\"]
             a [agent.task=with] b [agent.task=without] c [] d [prompt=\"\", label=\"Do it\"] }",
        ),
        (
            "prompts/tasks/with.yaml",
            "task: {template: 'First: {{ prompt }} {{ node }}'}\n",
        ),
        (
            "prompts/tasks/without.yaml",
            "task:\n  template: |\n    For {{ goal }}\n",
        ),
    ]);
    let resolution = resolve(&all, ResolveOptions::default());
    assert_eq!(reported(&resolution), "");
    let values = json!({"goal": "ship"});
    let stages = resolution.stages.iter();
    let messages: Vec<String> = stages
        .map(|stage| {
            stage
                .message(&values.as_object().expect("a map").into())
                .expect("it renders")
        })
        .collect();
    assert_eq!(
        messages,
        [
            "First: Be quick. a",
            "For ship\n\nBe quick.",
            "Be quick.",
            "Do it"
        ]
    );
}

#[test]
fn a_large_pipeline_is_resolved_in_time() {
    let mut text = "digraph {\n start -> n0\n".to_owned();
    for at in 0..5_000 {
        text.push_str(&format!(
            " n{at} [agent=helper, class=quick, prompt=\"Do it\"]\n n{at} -> n{}\n",
            at + 1
        ));
    }
    text.push_str(" n5000 [agent=missing]\n n5000 -> exit\n}\n");
    let all = files([
        (
            "orchestra.yaml",
            "providers: {default: openai, openai: {models: {smart: large}}}\nagents: {helper: {role: planner, task: plan-change}}\n",
        ),
        ("flows/a.dot", text.leak()),
    ]);
    let begin = std::time::Instant::now();
    let resolution = resolve(&all, ResolveOptions::default());
    assert_eq!(resolution.stages.len(), 5_001);
    assert_eq!(
        reported(&resolution),
        "flows/a.dot:10003:15: error[unknown_agent]: unknown agent `missing`\n"
    );
    assert!(begin.elapsed() < std::time::Duration::from_secs(120));
}

const TWO: &str = "providers: {default: anthropic, anthropic: {models: {smart: claude-opus-4-6}}}
agents:
  reader: {only_tools: ['backend:read-file', 'frontend:grep', count]}
  writer: {only_tools: ['backend:read-file', 'backend:edit-file']}
tools:
  count: {command: wc -l *, read_only: true}
workspace:
  repos: {backend: {path: ../backend}, frontend: {path: ../frontend}}
  tools: {backend: {run-tests: {command: make test}}}
";

/// Returns the diagnostics of a pipeline in a project of two repositories, as `code: message`.
fn in_two(text: &'static str) -> Vec<String> {
    let resolution = resolve(
        &files([("orchestra.yaml", TWO), ("flows/a.dot", text)]),
        ResolveOptions::default(),
    );
    let diagnostics = resolution.reports.iter().flat_map(|report| &report.diagnostics);
    diagnostics
        .map(|diagnostic| format!("{}: {}", diagnostic.code, diagnostic.message))
        .collect()
}

#[test]
fn tools_and_stages_name_repositories_that_are_there() {
    let sound = "digraph { start -> write -> exit; write [label=Write, agent=writer, repo=backend, agent.tools=\"frontend:glob\"] }";
    assert_eq!(in_two(sound), [""; 0]);
    let diagnostics = in_two(
        "digraph { start -> a -> b -> c -> exit
            a [label=A, agent.tools=\"backend:raed-file, bakend:shell\"]
            b [shape=parallelogram, label=B, tool_command=ls, repo=fronted]
            c [type=\"acme.deploy\", repo=\"../backend\"] }",
    );
    assert_eq!(
        diagnostics,
        [
            "unknown_tool: unknown tool `backend:raed-file`",
            "unknown_tool: unknown tool `bakend:shell`",
            "unknown_repository: unknown repository `fronted`",
            "unknown_repository: unknown repository `../backend`",
        ]
    );
}

#[test]
fn the_table_of_stages_shows_the_tools_of_repositories() {
    let text = "digraph { start -> write -> exit; write [label=Write, agent=writer, agent.tools=\"frontend:glob, backend:run_tests\"] }";
    let resolution = resolve(
        &files([("orchestra.yaml", TWO), ("flows/a.dot", text)]),
        ResolveOptions::default(),
    );
    let reported = resolution.table();
    let tools = "tools   backend:edit-file, backend:read-file, backend:run-tests, frontend:glob";
    assert!(reported.contains(tools), "{reported}");
}

#[test]
fn branches_that_write_need_a_node_that_can_merge() {
    let flow = |branches: &str, join: &str, way: &str| -> &'static str {
        let text = format!(
            "digraph {{ node [prompt=Do]; fan [shape=component, label=Fan]; start -> fan; fan -> a; fan -> b
                {branches}; {join}; {way} }}"
        );
        Box::leak(text.into_boxed_str())
    };
    let way = "a -> j; b -> j; j -> exit";
    let writes = "a [agent=writer]; b [agent=reader]";
    let gate = "j [shape=hexagon, label=Gate]";
    let reported = ["workspace_join: the branches of `fan` meet at `j`, where nothing can merge their files"];
    assert_eq!(in_two(flow(writes, gate, way)), reported);
    let routes =
        "a -> j; b -> j; j -> exit [condition=\"outcome=success\"]; j -> a [condition=\"outcome!=success\"]";
    assert_eq!(
        in_two(flow(writes, "j [shape=diamond, label=J]", routes)),
        reported
    );
    let exits = in_two(flow(writes, "", "a -> exit; b -> exit"));
    let at_exit = "workspace_join: the branches of `fan` meet at `exit`, where nothing can merge their files";
    assert_eq!(exits, [at_exit]);
    for writer in [
        "a [backend=simulation]; b [shape=parallelogram, tool_command=make]",
        "a [agent=reader]; b [type=\"acme.build\"]",
        "a [agent=reader]; b [agent=reader, \"tool_hooks.post\"=\"cargo fmt\"]",
        "a [agent=reader]; b [agent=reader, agent.tools=\"backend:run-tests\"]",
        "a [agent=reader]; b [label=B]",
    ] {
        assert_eq!(in_two(flow(writer, gate, way)), reported, "{writer}");
    }
    for reader in [
        "a [agent=reader]; b [backend=direct]",
        "a [backend=simulation]; b [agent=reader, agent.tools=\"\"]",
    ] {
        assert_eq!(in_two(flow(reader, gate, way)), [""; 0], "{reader}");
    }
    // A node that runs has an outcome, after which files are merged.
    for join in ["j [shape=tripleoctagon, label=J]", "j [agent=writer]"] {
        assert_eq!(in_two(flow(writes, join, way)), [""; 0], "{join}");
    }
    // Without repositories there is nothing to merge.
    let plain = files([
        (
            "orchestra.yaml",
            "providers: {default: anthropic, anthropic: {models: {smart: m}}}\n",
        ),
        (
            "flows/a.dot",
            "digraph { fan [shape=component, label=F]; start -> fan; fan -> a -> j; fan -> b -> j -> exit
            a [prompt=a]; b [prompt=b]; j [shape=hexagon, label=J] }",
        ),
    ]);
    assert!(!resolve(&plain, ResolveOptions::default()).has_errors());
}
