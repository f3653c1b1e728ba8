//! Reading and writing messages. Invalid input is an error of its own message: the messages after it are read all the
//! same.

use std::io::{self, BufRead, Read, Write};

use serde_json::json;

use crate::protocol::{ErrorCode, Message};

/// The maximum length of a message in bytes. A longer message is skipped.
const MAX_MESSAGE: u64 = 64 << 20;
/// The maximum length of a header line in bytes.
const MAX_HEADER: u64 = 4096;

/// The next input of a client.
pub(crate) enum Input {
    /// A message.
    Message(Message),
    /// A message that cannot be read, with the reason.
    Invalid(String),
    /// The end of the input.
    End,
}

/// Reads the next message.
///
/// # Errors
/// Fails if the input cannot be read.
pub(crate) fn read(input: &mut impl BufRead) -> io::Result<Input> {
    let mut length = None;
    let mut invalid = None;
    loop {
        let mut line = Vec::new();
        let read = input.by_ref().take(MAX_HEADER).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(Input::End);
        }
        let line = line.trim_ascii();
        if line.is_empty() {
            match (length, invalid.take()) {
                (Some(length), _) => return read_body(input, length),
                (None, Some(reason)) => return Ok(Input::Invalid(reason)),
                // An empty line between messages.
                (None, None) => continue,
            }
        }
        match header(line) {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse::<u64>().ok();
                if length.is_none() {
                    invalid = Some(format!("`{value}` is not a length"));
                }
            }
            Some(_) => {}
            None => invalid = Some("a header line has no `:`".to_owned()),
        }
    }
}

/// Splits a header line into name and value.
fn header(line: &[u8]) -> Option<(&str, &str)> {
    let (name, value) = std::str::from_utf8(line).ok()?.split_once(':')?;
    Some((name.trim(), value.trim()))
}

fn read_body(input: &mut impl BufRead, length: u64) -> io::Result<Input> {
    if length > MAX_MESSAGE {
        let skipped = io::copy(&mut input.by_ref().take(length), &mut io::sink())?;
        return Ok(if skipped < length {
            Input::End
        } else {
            Input::Invalid(format!("it has {length} bytes, and may have {MAX_MESSAGE}"))
        });
    }
    let mut body = Vec::new();
    input.by_ref().take(length).read_to_end(&mut body)?;
    if (body.len() as u64) < length {
        return Ok(Input::End);
    }
    Ok(match serde_json::from_slice(&body) {
        Ok(message) => Input::Message(message),
        Err(error) => Input::Invalid(error.to_string()),
    })
}

/// An output to a client.
pub(crate) enum Output {
    /// A message.
    Message(Message),
    /// The answer to a message that cannot be read, with the reason. The id of its request is unknown.
    Invalid(String),
}

/// Writes an output.
///
/// # Errors
/// Fails if the output cannot be written.
pub(crate) fn write(output: &mut impl Write, message: Output) -> io::Result<()> {
    match message {
        Output::Message(message) => message.write(output),
        Output::Invalid(reason) => {
            let error = json!({ "code": ErrorCode::ParseError as i32, "message": format!("invalid message: {reason}") });
            let body = json!({ "jsonrpc": "2.0", "id": null, "error": error }).to_string();
            write!(output, "Content-Length: {}\r\n\r\n{body}", body.len())?;
            output.flush()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_message_does_not_prevent_the_next_one() {
        let valid = "{\"jsonrpc\":\"2.0\",\"method\":\"exit\"}";
        let invalid = [
            "Content-Length: 3\r\n\r\n{]}".to_owned(),
            "Content-Length: many\r\n\r\n".to_owned(),
            "nonsense\r\n\r\n".to_owned(),
            "Content-Length: 2\r\n\r\n{}".to_owned(),
            format!(
                "Content-Length: {0}\r\n\r\n{1}{2}",
                400_000,
                "[".repeat(200_000),
                "]".repeat(200_000)
            ),
        ];
        for invalid in invalid {
            let text = format!(
                "{invalid}content-length:{}\r\nContent-Type: x\r\n\r\n{valid}",
                valid.len()
            );
            let mut input = text.as_bytes();
            assert!(
                matches!(read(&mut input).unwrap(), Input::Invalid(_)),
                "{invalid:.40}"
            );
            assert!(matches!(
                read(&mut input).unwrap(),
                Input::Message(Message::Notification(_))
            ));
            assert!(matches!(read(&mut input).unwrap(), Input::End));
        }
    }

    #[test]
    fn a_message_that_is_too_long_is_skipped_without_being_stored() {
        let head = format!("Content-Length: {}\r\n\r\n", MAX_MESSAGE + 1);
        let body = io::repeat(b' ').take(MAX_MESSAGE + 1);
        let mut input = io::BufReader::new(head.as_bytes().chain(body));
        assert!(matches!(read(&mut input).unwrap(), Input::Invalid(_)));
        let cut = "Content-Length: 99999999999999\r\n\r\n{";
        assert!(matches!(read(&mut cut.as_bytes()).unwrap(), Input::End));
    }
}
