//! The changes of runs in git repositories.

use std::path::Path;
use std::process::Command;

use orchestra_workspace::GitWorkspace;

use crate::support::{TestServer, entry};

const WRITES: &str = r#"digraph writes {
    start -> first -> second -> exit
    first [shape=parallelogram, tool_command="printf 'one\n<script>alert(1)</script>\n' > page.html"]
    second [shape=parallelogram, tool_command="printf 'two\n' >> page.html; head -c 300000 /dev/zero > zeros"]
}"#;

fn git(folder: &Path, arguments: &[&str]) {
    let identity = ["-c", "user.name=A", "-c", "user.email=a@b.example"];
    let command = Command::new("git")
        .current_dir(folder)
        .args(identity)
        .args(arguments)
        .output();
    let output = command.expect("git");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_tells_what_it_changed_and_between_which_checkpoints() {
    let dir = tempfile::tempdir().expect("a folder");
    let repository = dir.path().join("app");
    std::fs::create_dir(&repository).expect("a folder");
    git(&repository, &["init", "-q"]);
    git(&repository, &["commit", "-q", "--allow-empty", "-m", "first"]);
    // A program that the repository names for differences is not run.
    git(&repository, &["config", "diff.external", "touch was-run; false"]);
    let workspace = GitWorkspace::builder(dir.path().join("worktrees"))
        .repository("app", &repository)
        .build()
        .expect("a workspace");
    let server = TestServer::in_folder(
        dir.path(),
        |engine| engine.workspace(workspace),
        |server| server.entry(entry("writes", WRITES)),
    )
    .await;
    let run = server.begin("writes").await;
    server.until_status(&run, "success").await;

    let all = server.get(&format!("/api/v1/runs/{run}/changes")).await.json();
    let app = &all["repositories"][0];
    assert_eq!((&app["repository"], &app["cut"]), (&"app".into(), &false.into()));
    let file = |at: usize| {
        (
            app["files"][at]["path"].clone(),
            app["files"][at]["added"].clone(),
        )
    };
    assert_eq!(file(0), ("page.html".into(), 3.into()));
    assert_eq!(file(1), ("zeros".into(), serde_json::Value::Null));
    let patch = app["patch"].as_str().expect("a patch");
    assert!(patch.contains("+<script>alert(1)</script>\n+two\n"), "{patch}");
    assert!(
        patch.len() < 2_000,
        "a large binary file is only named: {}",
        patch.len()
    );
    assert!(!repository.join("was-run").exists());

    let points = server
        .get(&format!("/api/v1/runs/{run}/checkpoints"))
        .await
        .json();
    let points = points["checkpoints"].as_array().expect("checkpoints");
    let first = points
        .iter()
        .find(|point| point["node"] == "first")
        .expect("a checkpoint");
    let first = first["checkpoint"].as_str().expect("a name");
    let later = server
        .get(&format!("/api/v1/runs/{run}/changes?from={first}"))
        .await
        .json();
    let patch = later["repositories"][0]["patch"].as_str().expect("a patch");
    assert!(patch.contains("+two") && !patch.contains("+one"), "{patch}");
    let earlier = server
        .get(&format!("/api/v1/runs/{run}/changes?to={first}"))
        .await
        .json();
    let patch = earlier["repositories"][0]["patch"].as_str().expect("a patch");
    assert!(patch.contains("+one") && !patch.contains("+two"), "{patch}");
    let unknown = server
        .get(&format!("/api/v1/runs/{run}/changes?from=cp_999999"))
        .await;
    assert_eq!(
        (unknown.status, unknown.code().as_str()),
        (404, "unknown_checkpoint")
    );

    std::fs::remove_dir_all(&repository).expect("removed");
    let gone = server.get(&format!("/api/v1/runs/{run}/changes")).await;
    assert_eq!(gone.status, 422, "{}", gone.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_repositories_has_no_changes() {
    let server = TestServer::start().await;
    let run = server.begin("release").await;
    let reply = server.get(&format!("/api/v1/runs/{run}/changes")).await;
    assert_eq!(reply.json()["repositories"], serde_json::json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn showing_changes_fetches_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let repository = dir.path().join("app");
    std::fs::create_dir(&repository).expect("a folder");
    git(&repository, &["init", "-q"]);
    git(&repository, &["commit", "-q", "--allow-empty", "-m", "first"]);
    let workspace = GitWorkspace::builder(dir.path().join("worktrees"))
        .repository("app", &repository)
        .build()
        .expect("a workspace");
    let server = TestServer::in_folder(
        dir.path(),
        |engine| engine.workspace(workspace),
        |server| server.entry(entry("writes", WRITES)),
    )
    .await;
    let run = server.begin("writes").await;
    server.until_status(&run, "success").await;

    // The repository names a remote for what is missing, and everything but its refs is missing.
    let remote = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    remote.set_nonblocking(true).expect("set");
    let url = format!("http://{}/app", remote.local_addr().expect("an address"));
    for (key, value) in [
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", url.as_str()),
    ] {
        git(&repository, &["config", key, value]);
    }
    let listed = Command::new("git")
        .current_dir(&repository)
        .args([
            "cat-file",
            "--batch-all-objects",
            "--batch-check=%(objecttype) %(objectname)",
        ])
        .output()
        .expect("git");
    let listed = String::from_utf8(listed.stdout).expect("a list");
    for blob in listed.lines().filter_map(|line| line.strip_prefix("blob ")) {
        let (folder, name) = blob.split_at(2);
        std::fs::remove_file(repository.join(".git/objects").join(folder).join(name))
            .expect("a loose object");
    }
    let reply = server.get(&format!("/api/v1/runs/{run}/changes")).await;
    assert_eq!(reply.status, 422, "{}", reply.text());
    let called = remote.accept();
    assert!(called.is_err(), "the remote was called");
}
