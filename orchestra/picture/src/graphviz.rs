//! Drawing with Graphviz, if it is installed.
// The crate graphviz-rust starts `dot` through a temporary file and waits without limit, so it is not used here.

use std::io::{self, ErrorKind, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::PictureError;

/// Maximum number of bytes that are read from the output of `dot`.
const MAX_OUTPUT: u64 = 256 << 20;

/// Draws DOT as SVG with an installed Graphviz. Kills the program if it takes longer than the timeout.
///
/// # Errors
///
/// Fails if Graphviz is not installed, rejects the text, or takes too long.
///
/// ```
/// use orchestra_picture::{PictureError, svg_by_graphviz};
/// match svg_by_graphviz("digraph { a -> b }", std::time::Duration::from_secs(10)) {
///     Ok(svg) => assert!(svg.contains("</svg>")),
///     Err(error) => assert!(matches!(error, PictureError::NoGraphviz(_))),
/// }
/// ```
pub fn svg_by_graphviz(dot: &str, timeout: Duration) -> Result<String, PictureError> {
    let mut command = Command::new("dot");
    command.arg("-Tsvg");
    // If `SERVER_NAME` is set, Graphviz does not open images that a text names.
    command.env("SERVER_NAME", "orchestra");
    run_graphviz(command, dot, timeout)
}

fn run_graphviz(mut command: Command, dot: &str, timeout: Duration) -> Result<String, PictureError> {
    let start = Instant::now();
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(PictureError::NoGraphviz)?;
    let (output, errors) = match connect(&mut child, dot) {
        Ok(pipes) => pipes,
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            return Err(PictureError::NoGraphviz(error));
        }
    };
    let status = wait(&mut child, start, timeout)?;
    let rest = || {
        timeout
            .saturating_sub(start.elapsed())
            .max(Duration::from_millis(500))
    };
    let received = |from: Piped| -> Option<Vec<u8>> { from?.recv_timeout(rest()).ok() };
    if !status.success() {
        let text = received(errors).unwrap_or_default();
        let text = String::from_utf8_lossy(&text)
            .trim()
            .chars()
            .take(2_000)
            .collect();
        return Err(PictureError::Graphviz(text));
    }
    let output = received(output).ok_or(PictureError::TimedOut(timeout))?;
    let svg = String::from_utf8(output);
    svg.map_err(|_| PictureError::Graphviz("its output is not UTF-8".to_owned()))
}

/// The content of one of the child's pipes.
type Piped = Option<Receiver<Vec<u8>>>;

/// Writes the input of the child, and reads its output and its errors. Separate threads prevent full pipes from
/// blocking; a thread whose pipe a grandchild holds open is abandoned.
fn connect(child: &mut Child, dot: &str) -> io::Result<(Piped, Piped)> {
    if let Some(mut stdin) = child.stdin.take() {
        let dot = dot.to_owned();
        thread::Builder::new().spawn(move || stdin.write_all(dot.as_bytes()))?;
    }
    let output = child.stdout.take().map(read).transpose()?;
    let errors = child.stderr.take().map(read).transpose()?;
    Ok((output, errors))
}

fn read(from: impl Read + Send + 'static) -> io::Result<Receiver<Vec<u8>>> {
    let (sender, receiver) = channel();
    thread::Builder::new().spawn(move || {
        let mut bytes = Vec::new();
        let result = from.take(MAX_OUTPUT).read_to_end(&mut bytes);
        if result.is_ok() {
            // The receiver may already be gone.
            let _ = sender.send(bytes);
        }
    })?;
    Ok(receiver)
}

fn wait(
    child: &mut Child,
    start: Instant,
    timeout: Duration,
) -> Result<std::process::ExitStatus, PictureError> {
    let mut pause = Duration::from_millis(1);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Err(error) if error.kind() != ErrorKind::Interrupted => {
                return Err(PictureError::Graphviz(error.to_string()));
            }
            _ => {}
        }
        if start.elapsed() >= timeout {
            // Both calls fail only if the child has already ended.
            let _ = child.kill();
            let _ = child.wait();
            return Err(PictureError::TimedOut(timeout));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let start = Instant::now();
        let result = run_graphviz(shell("exec sleep 60"), "x", Duration::from_millis(200));
        assert!(matches!(result, Err(PictureError::TimedOut(_))));
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_text_larger_than_the_pipe_neither_blocks_nor_breaks() {
        let large = "x".repeat(4 << 20);
        let result = run_graphviz(shell("exec cat"), &large, Duration::from_secs(20));
        assert_eq!(result.map(|svg| svg.len()).ok(), Some(large.len()));
        let result = run_graphviz(shell("echo bad >&2; exit 3"), &large, Duration::from_secs(20));
        assert!(matches!(result, Err(PictureError::Graphviz(text)) if text == "bad"));
    }

    #[test]
    fn a_missing_program_is_a_typed_error() {
        let result = run_graphviz(Command::new("/nonexistent/dot"), "", Duration::from_secs(1));
        assert!(matches!(result, Err(PictureError::NoGraphviz(_))));
    }
}
