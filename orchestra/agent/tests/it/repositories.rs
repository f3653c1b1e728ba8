//! Stages of a project with several repositories: the tools of each repository, their folders, and the stages that may
//! write.
#![cfg(unix)]

use crate::support;
use crate::tools_support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orchestra_agent::support as support_of_tools;
use orchestra_agent::{
    Agents, BuiltinTools, Message, ModelRequest, ToolContext, ToolFuture, ToolNames, ToolRegistry, ToolSet,
};
use orchestra_config::{BUILT_IN_TOOLS, READ_ONLY_TOOLS};
use orchestra_engine::{
    CodergenBackend as _, OpenedWorkspace, Outcome, Snapshot, StageEnd, Workplace, Workspace, WorkspaceEnd,
    WorkspaceError, WorkspaceFuture, WorkspaceRun, WorkspaceSession, WorkspaceStage,
};
use orchestra_graph::render;
use serde_json::{Value, json};
use support::{Scripted, builder, calls, engine, pipeline, report};
use tools_support::{builtin, refused};

/// A workspace that provides the same folders to every execution path.
#[derive(Clone)]
struct Folders(PathBuf, Vec<&'static str>);

impl Workspace for Folders {
    fn open<'w>(
        &'w self,
        _: WorkspaceRun<'w>,
    ) -> WorkspaceFuture<'w, Result<OpenedWorkspace, WorkspaceError>> {
        let session: Arc<dyn WorkspaceSession> = Arc::new(self.clone());
        Box::pin(async { Ok(OpenedWorkspace::new(Value::Null, session)) })
    }
}

impl WorkspaceSession for Folders {
    fn enter<'s>(&'s self, _: &'s WorkspaceStage) -> WorkspaceFuture<'s, Result<Workplace, WorkspaceError>> {
        let folders = self.1.iter().map(|name| ((*name).to_owned(), self.0.join(name)));
        let dir = Workplace::new(&self.0, folders.collect::<BTreeMap<_, _>>());
        Box::pin(async { Ok(dir) })
    }

    fn leave<'s>(
        &'s self,
        stage: &'s WorkspaceStage,
        outcome: Outcome,
    ) -> WorkspaceFuture<'s, (StageEnd, Option<Snapshot>)> {
        let outcome = match stage.stage().node().id() {
            "merge" => {
                let conflict = json!({"repository": "backend", "path": "src/name", "kind": "content",
                    "hunks": [{"line": 1}], "branches": ["left"]});
                let outcome = outcome.set("workspace.conflict_count", 1);
                outcome.set("workspace.conflicts", json!([conflict]))
            }
            _ => outcome,
        };
        Box::pin(async { (outcome.into(), None) })
    }

    fn save<'s>(
        &'s self,
        _: &'s WorkspaceStage,
    ) -> WorkspaceFuture<'s, Result<Option<Snapshot>, WorkspaceError>> {
        Box::pin(async { Ok(None) })
    }

    fn end(&self, _: WorkspaceEnd) -> WorkspaceFuture<'_, Result<(), WorkspaceError>> {
        Box::pin(async { Ok(()) })
    }
}

/// A tool of the program that returns its working folder, as `#[tool(repo = "backend")]` creates it.
struct Here;

impl ToolSet for Here {
    const NAMES: ToolNames = ToolNames::List(&["backend:here"]);

    fn register(self, registry: &mut ToolRegistry) {
        let here = |_, context: ToolContext| -> ToolFuture<'static> {
            Box::pin(async move { Ok(context.root().display().to_string().into()) })
        };
        let repository = Some("backend");
        support_of_tools::register(registry, "here", "", Default::default(), repository, true, here);
    }
}

/// The repositories of a person in `own`, and those of a run in `work`.
struct Ground {
    folder: tempfile::TempDir,
}

impl Ground {
    fn new() -> Ground {
        let folder = tempfile::tempdir().unwrap();
        for dir in ["own", "work"] {
            for name in ["backend", "frontend"] {
                let repository = folder.path().join(dir).join(name);
                fs::create_dir_all(repository.join("src")).unwrap();
                fs::write(repository.join("src/name"), format!("{dir} {name}\n")).unwrap();
                fs::write(repository.join(".git"), "gitdir: /elsewhere\n").unwrap();
            }
        }
        Ground { folder }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    fn agents(&self, more: &str, model: Scripted) -> Agents {
        let own = self.at("own");
        let yaml = format!(
            "{more}workspace:\n  repos: {{backend: {{path: {0}/backend}}, frontend: {{path: {0}/frontend}}}}\n  \
             tools: {{backend: {{where: {{command: cat src/name; pwd}}}}}}\n",
            own.display()
        );
        builder(&yaml, &[], model).tools(Here).build().unwrap()
    }

    fn workspace(&self) -> Folders {
        Folders(self.at("work"), vec!["backend", "frontend"])
    }

    /// Runs a pipeline, with or without a workspace.
    async fn run(&self, agents: &Agents, text: &str, workspace: Option<Folders>) {
        let flow = pipeline(text);
        let resolution = agents.resolve(&flow);
        assert!(!resolution.has_errors(), "{:#?}", resolution.reports);
        let engine = engine(agents, self.folder.path());
        let engine = match workspace {
            Some(workspace) => engine.workspace(workspace),
            None => engine,
        };
        let run = engine.build().unwrap().start(flow, ()).await.unwrap();
        let result = run.wait().await.unwrap();
        assert!(result.is_success(), "{:?}", result.failure);
    }
}

/// Returns the tool results before a request.
fn results(request: &ModelRequest) -> Vec<(String, bool)> {
    let Some(Message::Tools { results }) = request.messages.last() else {
        panic!("{:?}", request.messages);
    };
    let results = results.iter();
    results
        .map(|result| (result.content.clone(), result.is_error))
        .collect()
}

const TOOLS: &str = "agents: {worker: {only_tools: ['backend:read-file', 'backend:edit-file', 'backend:write-file', \
    'backend:glob', 'backend:grep', 'backend:shell', 'backend:where', 'backend:here', read-file]}}\n";
const FLOW: &str = "digraph { start -> work -> exit; work [agent=worker, prompt=Work] }";

fn edit(path: &str) -> (&'static str, Value) {
    let edits = json!([{"old_text": "backend", "new_text": "server"}]);
    ("backend__edit_file", json!({"path": path, "edits": edits}))
}

#[tokio::test]
async fn tools_of_a_repository_work_in_the_workspace_of_the_run_and_nowhere_else() {
    let ground = Ground::new();
    symlink(ground.at("work/frontend"), ground.at("work/backend/beside")).unwrap();
    let inside = ground.at("work/backend/src/name");
    let outside = ground.at("work/frontend/src/name");
    let outside = outside.to_str().unwrap();
    let model = Scripted::list([
        calls(&[
            ("backend__read_file", json!({"path": "src/name"})),
            ("backend__glob", json!({"pattern": "*"})),
            ("read_file", json!({"path": "frontend/src/name"})),
            ("backend__where", json!({})),
            ("backend__shell", json!({"command": "pwd"})),
            ("backend__here", json!({})),
        ]),
        calls(&[edit("src/name")]),
        calls(&[
            edit("../frontend/src/name"),
            edit("src/../../frontend/src/name"),
            edit(outside),
            edit("beside/src/name"),
            (
                "backend__write_file",
                json!({"path": "../frontend/new", "content": ""}),
            ),
            (
                "backend__write_file",
                json!({"path": "beside/new", "content": ""}),
            ),
            (
                "backend__read_file",
                json!({"path": ground.at("own/backend/src/name")}),
            ),
            ("backend__grep", json!({"pattern": "work", "path": "beside"})),
            edit(".git"),
        ]),
        report(json!({"status": "success"})),
    ]);
    let agents = ground.agents(TOOLS, model.clone());
    ground.run(&agents, FLOW, Some(ground.workspace())).await;
    let asked = model.asked();
    let names: Vec<&str> = asked[0].tools.iter().map(|tool| tool.name.as_str()).collect();
    assert!(
        names.contains(&"backend__edit_file") && !names.contains(&"edit_file"),
        "{names:?}"
    );
    let read = asked[0]
        .tools
        .iter()
        .find(|tool| tool.name == "backend__read_file");
    let described = &read.unwrap().description;
    assert!(
        described.starts_with("Works in the repository `backend`"),
        "{described}"
    );
    let first = results(&asked[1]);
    assert!(first.iter().all(|(_, failed)| !failed), "{first:?}");
    let work = ground.at("work/backend").canonicalize().unwrap();
    for (at, holds) in [
        (0, "work backend"),
        (1, "src/name"),
        (2, "work frontend"),
        (3, "work backend"),
        (3, work.to_str().unwrap()),
        (4, work.to_str().unwrap()),
        (5, "work/backend"),
    ] {
        assert!(first[at].0.contains(holds), "{holds} is not in {}", first[at].0);
    }
    assert!(!results(&asked[2])[0].1);
    assert_eq!(fs::read_to_string(inside).unwrap(), "work server\n");
    for (said, failed) in results(&asked[3]) {
        assert!(failed, "{said}");
        assert!(
            !said.contains("work frontend") && !said.contains("own backend"),
            "{said}"
        );
    }
    for (path, content) in [
        ("work/frontend/src/name", "work frontend\n"),
        ("own/backend/src/name", "own backend\n"),
        ("own/frontend/src/name", "own frontend\n"),
        ("work/backend/.git", "gitdir: /elsewhere\n"),
    ] {
        assert_eq!(ground.read(path), content);
    }
    assert!(!ground.at("work/frontend/new").exists());
}

#[tokio::test]
async fn what_no_repository_would_keep_is_not_written() {
    let ground = Ground::new();
    symlink("..", ground.at("work/backend/up")).unwrap();
    let write = |path: &str| ("write_file", json!({"path": path, "content": "new\n"}));
    let model = Scripted::list([
        calls(&[write("backend/new"), write("frontend/src/../new")]),
        calls(&[
            write("new"),
            write("src/new"),
            write("backend/../new"),
            write("backend/up/new"),
            write("backend/.git"),
        ]),
        report(json!({"status": "success"})),
    ]);
    let agents = ground.agents("", model.clone());
    let flow = FLOW.replace("agent=worker, ", "");
    ground.run(&agents, &flow, Some(ground.workspace())).await;
    let asked = model.asked();
    assert!(results(&asked[1]).iter().all(|(_, failed)| !failed));
    assert_eq!(ground.read("work/backend/new"), "new\n");
    assert_eq!(ground.read("work/frontend/new"), "new\n");
    let refused = results(&asked[2]);
    let (of_git, beside) = refused.split_last().unwrap();
    assert!(of_git.0.contains("belongs to git itself"), "{of_git:?}");
    for (said, failed) in beside {
        let reported = "lies in no repository, so nobody would keep it; give a path that begins with `backend/` or `frontend/`";
        assert!(*failed && said.contains(reported), "{said}");
    }
    assert!(!ground.at("work/new").exists() && !ground.at("work/src").exists());
}

#[tokio::test]
async fn without_a_workspace_tools_work_in_the_repositories_themselves() {
    let ground = Ground::new();
    let model = Scripted::list([
        calls(&[
            ("backend__read_file", json!({"path": "src/name"})),
            ("backend__where", json!({})),
            ("read_file", json!({"path": "src/name"})),
        ]),
        report(json!({"status": "success"})),
    ]);
    let agents = ground.agents(TOOLS, model.clone());
    let flow = FLOW.replace("agent=worker", "agent=worker, repo=frontend");
    ground.run(&agents, &flow, None).await;
    let said = results(&model.asked()[1]);
    for ((said, failed), holds) in said.iter().zip(["own backend", "own backend", "own frontend"]) {
        assert!(!failed && said.contains(holds), "{holds} is not in {said}");
    }
}

#[tokio::test]
async fn a_run_with_a_workspace_never_falls_back_on_a_persons_own_folder() {
    let ground = Ground::new();
    let model = Scripted::list([
        calls(&[
            ("backend__read_file", json!({"path": "src/name"})),
            ("backend__where", json!({})),
            ("backend__edit_file", json!({"path": "src/name", "edits": []})),
        ]),
        report(json!({"status": "success"})),
    ]);
    let agents = ground.agents(TOOLS, model.clone());
    let lacks = Folders(ground.at("work"), vec!["frontend"]);
    ground.run(&agents, FLOW, Some(lacks)).await;
    for (said, failed) in results(&model.asked()[1]) {
        assert!(
            failed && said.contains("the workspace of this run has no repository `backend`"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_stage_is_told_of_its_folders_and_of_open_conflicts() {
    let ground = Ground::new();
    let model = Scripted::list([
        report(json!({"status": "success", "context_updates": {"mood": "calm"}})),
        report(json!({"status": "success"})),
    ]);
    let agents = ground.agents("", model.clone());
    let flow = pipeline(
        "digraph { start -> merge -> first -> second -> exit; first [prompt=One]
            merge [shape=parallelogram, tool_command=true]; second [prompt=Two, repo=backend, fidelity=full, thread_id=new] }",
    );
    let engine = engine(&agents, ground.folder.path()).workspace(ground.workspace());
    let run = engine.build().unwrap().start(flow, ());
    assert!(run.await.unwrap().wait().await.unwrap().is_success());
    let said: Vec<String> = model
        .asked()
        .iter()
        .map(|request| match request.messages.last() {
            Some(Message::User { text }) => text.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    for text in [
        "\n\n# Where the files are\n\nThe working folder holds a folder for each repository of the project: `backend` in \
         `backend/` and `frontend` in `frontend/`. Files beside these folders are not kept.\n\n# Conflicts to resolve\n\n",
        "\n- `backend/src/name` (content), at line 1, by `left`\n",
        "\n\n# Your task\n\nOne",
    ] {
        assert!(said[0].contains(text), "{text:?} is not in:\n{}", said[0]);
    }
    // The conflicts described above must not be repeated among the values.
    assert_eq!(said[0].matches("src/name").count(), 1, "{}", said[0]);
    for text in [
        "The working folder is that of the repository `backend`; of the project there are also `frontend`",
        "\n- `src/name` (content), at line 1, by `left`\n",
    ] {
        assert!(said[1].contains(text), "{text:?} is not in:\n{}", said[1]);
    }
}

#[test]
fn stages_may_write_by_what_they_are_given() {
    let ground = Ground::new();
    let more = "tools:\n  count: {command: wc -l *, read_only: true}\n  mend: {command: cargo fmt}\n\
        backends: {coder: {kind: cli, command: coder}, codex: {preset: codex}, critic: {preset: codex, access: read}, \
        planner: {preset: opencode, access: read}}\n\
        agents: {reader: {only_tools: [read-file, grep, glob, search-code, 'backend:read-file', 'frontend:grep', count]}}\n";
    let agents = ground.agents(more, Scripted::list([]));
    let writes = |attributes: &str| {
        let text = format!("digraph {{ start -> work -> exit; work [prompt=x, {attributes}] }}");
        let flow = pipeline(&text);
        let resolution = agents.resolve(&flow);
        assert!(!resolution.has_errors(), "{:#?}", resolution.reports);
        let work = flow.find("work").unwrap();
        agents.may_write(flow.stage(work))
    };
    for attributes in [
        "backend=direct",
        "backend=simulation",
        "backend=critic",
        "agent=reader",
        "agent=reader, \"agent.mode\"=interactive",
        "\"agent.tools\"=\"\"",
        "\"agent.tools\"=\"\", \"tool_hooks.pre\"=\"./check\"",
    ] {
        assert!(!writes(attributes), "{attributes}");
    }
    for attributes in [
        "label=Usual",
        "\"agent.mode\"=interactive",
        "backend=coder",
        "backend=codex",
        "backend=planner, llm_model=\"x/m\"",
        "agent=reader, \"agent.tools\"=\"edit-file\"",
        "agent=reader, \"agent.tools\"=\"shell\"",
        "agent=reader, \"agent.tools\"=\"backend:write-file\"",
        "agent=reader, \"agent.tools\"=\"frontend:shell\"",
        "agent=reader, \"agent.tools\"=\"backend:where\"",
        "agent=reader, \"agent.tools\"=\"mend\"",
        "agent=reader, \"tool_hooks.post\"=\"cargo fmt\"",
    ] {
        assert!(writes(attributes), "{attributes}");
    }
}

fn sorted_names<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let mut names: Vec<String> = names.map(|name| name.replace('_', "-")).collect();
    names.sort_unstable();
    names
}

#[test]
fn the_configuration_knows_which_built_in_tools_only_read() {
    let mut registry = ToolRegistry::default();
    BuiltinTools.register(&mut registry);
    let known = sorted_names(BUILT_IN_TOOLS.iter().copied());
    assert_eq!(sorted_names(registry.names()), known);
    assert_eq!(sorted_names(BuiltinTools::NAMES.iter()), known);
    for name in BUILT_IN_TOOLS {
        let reads = registry.get(name).unwrap().is_read_only();
        assert_eq!(reads, READ_ONLY_TOOLS.contains(name), "{name}");
    }
}

#[test]
fn a_stage_names_a_repository_and_tools_that_are_there() {
    let ground = Ground::new();
    let agents = ground.agents("", Scripted::list([]));
    let flow = pipeline(
        "digraph { start -> work -> exit; work [prompt=x, repo=bakend, \"agent.tools\"=\"backend:raed-file\"] }",
    );
    let resolution = agents.resolve(&flow);
    let reported: String = resolution.reports.iter().map(render::concise).collect();
    for fault in [
        "error[unknown_repository]: unknown repository `bakend`",
        "error[unknown_tool]: unknown tool `backend:raed-file`",
    ] {
        assert!(reported.contains(fault), "{reported}");
    }
    let help = resolution.reports.iter().flat_map(|report| &report.diagnostics);
    let help: Vec<String> = help.map(|fault| format!("{:?}", fault.help)).collect();
    assert!(help.concat().contains("did you mean `backend`?"), "{help:?}");
    assert!(
        help.concat().contains("did you mean `backend:read-file`?"),
        "{help:?}"
    );
}

#[tokio::test]
async fn what_belongs_to_git_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::create_dir_all(root.join(".git/hooks")).unwrap();
    fs::create_dir_all(root.join("tree/sub")).unwrap();
    fs::write(root.join(".git/config"), "[core]\n").unwrap();
    fs::write(root.join("tree/.git"), "gitdir: ../.git\n").unwrap();
    symlink(".git", root.join("link")).unwrap();
    symlink("hooks", root.join(".git/more")).unwrap();
    symlink("../.git/config", root.join("tree/settings")).unwrap();
    let tools = builtin(root);
    for path in [
        ".git",
        ".git/config",
        ".git/hooks/pre-commit",
        "./.git/hooks/../config",
        "tree/../.git/config",
        "link/hooks/pre-commit",
        "link/more/pre-commit",
        "link/made/by/nobody",
        "tree/.git",
        "tree/settings",
        "tree/sub/.git",
        ".GIT/config",
        ".git./config",
        "git~1/config",
        ".g\u{200c}it/config",
        ".git::$INDEX_ALLOCATION/config",
    ] {
        let why = refused(&tools, "write_file", json!({"path": path, "content": "x"})).await;
        assert!(why.contains("belongs to git itself"), "{path}: {why}");
        let edits = json!([{"old_text": "core", "new_text": "x"}]);
        let why = refused(&tools, "edit_file", json!({"path": path, "edits": edits})).await;
        assert!(why.contains("belongs to git itself"), "{path}: {why}");
    }
    let mut left: Vec<PathBuf> = walk(root);
    left.sort();
    let kept = [".git/config", ".git/more", "link", "tree/.git", "tree/settings"].map(PathBuf::from);
    assert_eq!(left, kept);
    assert_eq!(fs::read_to_string(root.join(".git/config")).unwrap(), "[core]\n");
    // Files with similar names belong to the repository.
    for path in [".gitignore", ".github/workflow.yml", "git/a", "a.git/b"] {
        tools_support::said(&tools, "write_file", json!({"path": path, "content": "x"})).await;
    }
}

/// Returns the files and links below a folder.
fn walk(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path())
            } else {
                found.push(entry.path().strip_prefix(root).unwrap().to_owned())
            }
        }
    }
    found
}

/// The value of git's variables in the child process that runs the test.
const ELSEWHERE: &str = "/nowhere/of-another-repository";

#[test]
fn variables_of_git_never_reach_a_command() {
    let variables = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"];
    if std::env::var("GIT_DIR").as_deref() != Ok(ELSEWHERE) {
        // Environment variables belong to the process, so run the test in a child process.
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "repositories::variables_of_git_never_reach_a_command"]);
        variables.iter().for_each(|name| {
            again.env(name, ELSEWHERE);
        });
        let output = again.env("HERE_TO_STAY", "yes").output().unwrap();
        let reported = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success() && reported.contains("1 passed"),
            "{reported}"
        );
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let reported = runtime.unwrap().block_on(async {
        let names = variables.iter().chain(&["HERE_TO_STAY"]);
        let context = ToolContext::new(".").inherit_env(names.copied());
        let mut registry = ToolRegistry::default();
        BuiltinTools.register(&mut registry);
        let Value::Object(arguments) = json!({"command": "env"}) else {
            unreachable!("it is an object");
        };
        registry
            .get("shell")
            .unwrap()
            .call(arguments, context)
            .await
            .unwrap()
            .text
    });
    assert!(reported.contains("HERE_TO_STAY=yes"), "{reported}");
    assert!(!reported.contains(ELSEWHERE), "{reported}");
}
