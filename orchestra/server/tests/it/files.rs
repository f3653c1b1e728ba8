//! The files of runs, and those of the page.

use crate::support::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn files_come_from_the_run_folder_alone() {
    let server = TestServer::start().await;
    let run = server.begin("release").await;
    server.until_asked(&run).await;
    let folder = server.folder(&run).path().to_owned();
    let outside = server.runs_dir.with_file_name("secret.txt");
    std::fs::write(&outside, "outside").expect("written");
    std::fs::write(folder.join("note.html"), "<script>alert(1)</script>").expect("written");
    #[cfg(unix)]
    std::os::unix::fs::symlink(&outside, folder.join("link.txt")).expect("linked");
    let path = format!("/api/v1/runs/{run}/files");
    let list = server.get(&path).await.json();
    let files = list["files"].as_array().expect("files");
    let find = |name: &str| files.iter().find(|file| file["path"] == name);
    assert!(find("link.txt").is_none());
    let events = find("events.jsonl").expect("the events");
    let read = server
        .get(&format!("{path}/{}", events["id"].as_str().expect("an id")))
        .await;
    assert_eq!(
        (read.status, read.header("content-disposition")),
        (200, Some("inline"))
    );
    assert_eq!(read.header("content-security-policy"), Some("sandbox"));
    let page = find("note.html").expect("the page");
    let read = server
        .get(&format!("{path}/{}", page["id"].as_str().expect("an id")))
        .await;
    assert_eq!(read.header("content-type"), Some("application/octet-stream"));
    assert_eq!(
        read.header("content-disposition"),
        Some("attachment; filename=\"note.html\"")
    );
    let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    for name in [
        "../secret.txt",
        "link.txt",
        "/etc/passwd",
        "",
        "..",
        "a/../../secret.txt",
        "./link.txt",
    ] {
        let reply = server.get(&format!("{path}/{}", hex(name))).await;
        assert_eq!(reply.status, 404, "{name}");
    }
    for id in ["zz", "..", "%2e%2e", "616"] {
        assert_eq!(server.get(&format!("{path}/{id}")).await.status, 404, "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_open_and_shows_nothing_by_itself() {
    let server = TestServer::start().await;
    let page = server.request("GET", "/ui/").send().await;
    assert_eq!(
        (page.status, page.header("content-type")),
        (200, Some("text/html; charset=utf-8"))
    );
    let policy = page.header("content-security-policy").expect("a policy");
    for part in [
        "default-src 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    let lower = page.text().to_ascii_lowercase();
    assert!(
        !lower.contains("<style") && !lower.contains("style=") && !lower.contains("onload="),
        "{lower}"
    );
    let tag = page.header("etag").expect("a tag").to_owned();
    let again = server
        .request("GET", "/ui/")
        .header("If-None-Match", &tag)
        .send()
        .await;
    assert_eq!(again.status, 304);
    let to = server.request("GET", "/").send().await;
    assert_eq!((to.status, to.header("location")), (303, Some("/ui/")));
    for path in [
        "/ui/unknown.js",
        "/ui/../Cargo.toml",
        "/ui/..%2fsrc%2flib.rs",
        "/ui/%2e%2e/x",
    ] {
        assert_eq!(server.request("GET", path).send().await.status, 404, "{path}");
    }
}
