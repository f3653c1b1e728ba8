use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use orchestra_restate::{LocalServer, LocalServerError};
use orchestra_restate_server_tests::server_or_skip;

const HELPER: &str = "server::helper_that_is_killed";
/// The program and the data folder of the helper.
const INSIDE: [&str; 2] = ["HELPER_SERVER", "HELPER_DATA"];

/// Returns the status line of a reply.
fn get(url: &str, path: &str) -> String {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply.lines().next().unwrap_or_default().to_owned()
}

fn assert_healthy(server: &LocalServer) {
    assert!(server.is_running());
    assert_eq!(get(server.ingress_url(), "/restate/health"), "HTTP/1.1 200 OK");
    assert_eq!(get(server.admin_url(), "/health"), "HTTP/1.1 200 OK");
}

#[tokio::test]
async fn a_server_that_was_killed_starts_again_with_its_data() {
    let Some(program) = server_or_skip("a_server_that_was_killed_starts_again_with_its_data") else {
        return;
    };
    let data = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let mut server = LocalServer::builder(program, data.path()).start().await.unwrap();
    let mut times = vec![("start", started.elapsed())];
    assert_healthy(&server);
    let urls = (server.ingress_url().to_owned(), server.admin_url().to_owned());
    let first = server.process_id();
    for _ in 0..2 {
        let started = Instant::now();
        server.kill().await;
        times.push(("kill", started.elapsed()));
        assert!(!server.is_running() && server.process_id().is_none());
        let end = server.ended().await.to_string();
        assert!(end.contains("signal 9"), "{end}");
        let started = Instant::now();
        server.restart().await.unwrap();
        times.push(("restart", started.elapsed()));
        assert_healthy(&server);
        assert_eq!((server.ingress_url(), server.admin_url()), (&*urls.0, &*urls.1));
        assert_ne!(server.process_id(), first);
    }
    let started = Instant::now();
    server.stop().await;
    times.push(("stop", started.elapsed()));
    assert!(!server.is_running());
    println!("{times:?}");
}

#[tokio::test]
async fn a_data_folder_has_one_server() {
    let Some(program) = server_or_skip("a_data_folder_has_one_server") else {
        return;
    };
    let data = tempfile::tempdir().unwrap();
    let server = LocalServer::builder(&program, data.path()).start().await.unwrap();
    let second = LocalServer::builder(&program, data.path()).start().await;
    let error = second.unwrap_err();
    assert!(matches!(error, LocalServerError::Ended { .. }), "{error}");
    assert_healthy(&server);
}

#[test]
fn a_server_ends_with_the_process_that_started_it() {
    let Some(program) = server_or_skip("a_server_ends_with_the_process_that_started_it") else {
        return;
    };
    let data = tempfile::tempdir().unwrap();
    let mut helper = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", HELPER])
        .envs([(INSIDE[0], program.as_path()), (INSIDE[1], data.path())])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(helper.stdout.take().unwrap()).lines();
    let mut urls = lines
        .map_while(Result::ok)
        .filter(|line| line.starts_with("http://"));
    let url = urls.next().unwrap();
    assert_eq!(get(&url, "/health"), "HTTP/1.1 200 OK");
    helper.kill().unwrap();
    helper.wait().unwrap();
    let limit = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(url.strip_prefix("http://").unwrap()).is_ok() {
        assert!(Instant::now() < limit, "the server still listens");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The part of the test above that is killed.
#[tokio::test]
#[ignore = "a part of another test"]
async fn helper_that_is_killed() {
    let [Some(program), Some(data)] = INSIDE.map(|name| std::env::var_os(name).map(PathBuf::from)) else {
        return;
    };
    let server = LocalServer::builder(program, data).start().await.unwrap();
    println!("\n{}", server.admin_url());
    std::future::pending::<()>().await;
}
