#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// Writes a program that takes the place of a server.
fn write_program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
}

/// Starts a program in the place of a server. Returns the error and the data folder.
fn start(text: &str, set: impl FnOnce(LocalServerBuilder) -> LocalServerBuilder) -> LocalServerError {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("restate-server");
    write_program(&program, text);
    let server = set(LocalServer::builder(&program, folder.path().join("data")));
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(server.start()).unwrap_err()
}

const VERSION: &str = r#"[ "$1" = --version ] && echo "restate-server 1.7.12" && exit"#;

#[test]
fn versions_are_compared_by_their_numbers() {
    let number = |text: &str| parse_version(text).map(|(_, number)| number);
    assert_eq!(parse_version("restate-server 1.7.12\n"), Some(("1.7.12", (1, 7))));
    assert!(number("restate-server 1.10.0-dev").unwrap() > OLDEST);
    assert!(number("restate-server 1.6.3").unwrap() < OLDEST);
    assert_eq!(number("restate 1.7.12"), None);
    assert_eq!(number("restate-server x"), None);
    assert_eq!(number(""), None);
}

#[test]
fn the_explicit_program_precedes_the_project_and_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let (project, bin) = (folder.path().join("project"), folder.path().join("bin"));
    let find = |explicit: Option<&Path>| {
        LocalServer::find(
            explicit,
            &[&folder.path().to_owned(), &project],
            Some(bin.as_os_str()),
        )
    };
    assert!(matches!(find(None), Err(LocalServerError::NotInstalled)));
    let (in_path, in_project) = (bin.join("restate-server"), project.join(installed()));
    write_program(&in_path, "");
    assert_eq!(find(None).unwrap(), in_path);
    write_program(&in_project, "");
    assert_eq!(find(None).unwrap(), in_project);
    assert_eq!(find(Some(&in_path)).unwrap(), in_path);
    let missing = find(Some(&bin.join("none"))).unwrap_err();
    assert!(matches!(missing, LocalServerError::NotAFile { .. }));
}

#[test]
fn a_program_that_is_old_or_no_server_is_refused() {
    let error = start("echo restate-server 1.6.3", |server| server);
    assert!(
        matches!(&error, LocalServerError::TooOld { version, .. } if version == "1.6.3"),
        "{error}"
    );
    let error = start("echo something else >&2; exit 3", |server| server);
    let text = error.to_string();
    assert!(matches!(error, LocalServerError::UnknownVersion { .. }), "{text}");
    assert!(
        text.contains("something else") && text.contains(LocalServer::INSTALL),
        "{text}"
    );
}

#[test]
fn a_server_that_ends_or_does_not_answer_is_an_error() {
    let error = start(&format!("{VERSION}\necho broken >&2; exit 7"), |server| server);
    let text = error.to_string();
    assert!(
        matches!(&error, LocalServerError::Ended { how, .. } if how == "exit code 7"),
        "{text}"
    );
    assert!(text.ends_with("\nbroken"), "{text}");
    let limit = Duration::from_millis(200);
    let error = start(&format!("{VERSION}\nsleep 600"), |server| {
        server.start_timeout(limit)
    });
    assert!(matches!(error, LocalServerError::NotReady { .. }), "{error}");
}

#[test]
fn a_port_in_use_is_an_error_or_avoided() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let error = start(VERSION, |server| server.admin_port(port));
    assert!(
        matches!(error, LocalServerError::Port { port: found, .. } if found == port),
        "{error}"
    );
    // Each start chooses other ports, and the last one reports the error.
    let folder = tempfile::tempdir().unwrap();
    let tried = folder.path().join("tried");
    let text = format!(
        "{VERSION}\necho \"$RESTATE_BIND_PORT\" >> {}\necho Address already in use; exit 1",
        tried.display()
    );
    let error = start(&text, |server| server);
    assert!(error.is_port_in_use(), "{error}");
    assert_eq!(fs::read_to_string(tried).unwrap().lines().count(), 4);
}
