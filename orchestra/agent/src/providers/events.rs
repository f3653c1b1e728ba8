//! A parser of server-sent events with bounded size. It scans each byte only once.

use std::collections::VecDeque;

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// The name; empty if the stream does not set one.
    pub(super) name: String,
    /// The data, with its lines joined.
    pub(super) data: String,
}

/// The error of an unreadable stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StreamError {
    /// An event, or a line of it, is longer than the limit.
    TooLarge,
    /// The stream is not valid UTF-8.
    Encoding,
}

/// A parser that converts bytes, split in any way, to events.
pub(super) struct Events {
    limit: usize,
    line: Vec<u8>,
    /// `true` if the last byte was a carriage return, which a line feed may follow.
    after_return: bool,
    first: bool,
    name: String,
    data: String,
    has_data: bool,
    ready: VecDeque<Event>,
}

impl Events {
    /// Creates a parser of events with at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Events {
        Events {
            limit,
            line: Vec::new(),
            after_return: false,
            first: true,
            name: String::new(),
            data: String::new(),
            has_data: false,
            ready: VecDeque::new(),
        }
    }

    /// Parses bytes. [`next`](Events::next) returns the events that they complete.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<(), StreamError> {
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_return) && first == b'\n' {
                bytes = bytes.get(1..).unwrap_or_default();
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            if self.line.len() + part.len() + self.data.len() > self.limit {
                return Err(StreamError::TooLarge);
            }
            self.line.extend_from_slice(part);
            if let Some((ending, rest)) = rest.split_first() {
                self.after_return = *ending == b'\r';
                self.end_line()?;
                bytes = rest;
            } else {
                bytes = rest;
            }
        }
        Ok(())
    }

    /// Returns the next complete event.
    pub(super) fn next(&mut self) -> Option<Event> {
        self.ready.pop_front()
    }

    fn end_line(&mut self) -> Result<(), StreamError> {
        let bytes = std::mem::take(&mut self.line);
        let line = std::str::from_utf8(&bytes).map_err(|_| StreamError::Encoding)?;
        let line = if std::mem::take(&mut self.first) {
            line.strip_prefix('\u{feff}').unwrap_or(line)
        } else {
            line
        };
        if line.is_empty() {
            let (name, mut data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
            if std::mem::take(&mut self.has_data) {
                data.pop();
                self.ready.push_back(Event { name, data });
            }
            return Ok(());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                self.data.push_str(value);
                self.data.push('\n');
                self.has_data = true;
            }
            // Ignore comments, and fields that no provider uses.
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use eventsource_stream::Eventsource;
    use futures_util::{FutureExt, StreamExt, stream};
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]], limit: usize) -> Result<Vec<Event>, StreamError> {
        let mut events = Events::new(limit);
        for piece in pieces {
            events.push(piece)?;
        }
        Ok(std::iter::from_fn(|| events.next()).collect())
    }

    fn event(name: &str, data: &str) -> Event {
        Event {
            name: name.to_owned(),
            data: data.to_owned(),
        }
    }

    #[test]
    fn events_are_whole_however_the_bytes_come() {
        let text = "\u{feff}event: start\r\ndata: {\"a\":\r\ndata: \"ä\"}\r\n\r\n: still here\n\ndata:two\rid: 7\r\rdata: cut";
        let expected = [event("start", "{\"a\":\n\"ä\"}"), event("", "two")];
        for size in 1..text.len() {
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            assert_eq!(read(&pieces, 100).unwrap(), expected, "in pieces of {size} bytes");
        }
    }

    #[test]
    fn what_is_too_long_is_refused_before_it_is_kept() {
        let line = [b"data: ".as_slice(), &[b'x'; 200]].concat();
        assert_eq!(read(&[&line], 100), Err(StreamError::TooLarge));
        let many = b"data: xxxxxxxxxx\n".repeat(20);
        assert_eq!(read(&[&many], 100), Err(StreamError::TooLarge));
        let apart = b"data: xxxxxxxxxx\n\n".repeat(20);
        assert_eq!(read(&[&apart], 100).unwrap().len(), 20);
    }

    #[test]
    fn bytes_that_are_no_text_are_said_to_be_none() {
        assert_eq!(read(&[b"data: \xff\n\n"], 100), Err(StreamError::Encoding));
    }

    proptest! {
        /// Compares the parser with a widely used one.
        #[test]
        fn another_reader_sees_the_same_events(
            lines in prop::collection::vec("(data|event|id|x|)(:| :|: |)[a-zä:]{0,6}(\n|\r\n|\n\n|\r\n\r\n)", 0..12),
            cuts in prop::collection::vec(1_usize..20, 1..20),
        ) {
            let text = lines.concat();
            let mut pieces = Vec::new();
            let mut rest = text.as_bytes();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break; }
                let (piece, more) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece);
                rest = more;
            }
            let other = stream::iter(pieces.iter().map(|piece| Ok::<_, std::convert::Infallible>(*piece)));
            let other = other.eventsource().map(Result::unwrap).collect::<Vec<_>>().now_or_never().unwrap();
            let other: Vec<Event> = other
                .into_iter()
                .map(|seen| event(if seen.event == "message" { "" } else { &seen.event }, &seen.data))
                .collect();
            prop_assert_eq!(read(&pieces, 10_000).unwrap(), other);
        }
    }
}
