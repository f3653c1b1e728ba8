//! Paged access to the index rows of a run.

use std::rc::Rc;

use orchestra_sessions::{Page, SessionError, SessionIndex};
use serde::ser::{Error as _, SerializeSeq as _};
use serde::{Serialize, Serializer};

/// Number of rows in a page.
const ROWS: usize = 1_000;

pub(crate) type Read<T> = fn(&SessionIndex, &str, Page) -> Result<Vec<T>, SessionError>;

/// The rows of one kind of a run, which are read page by page.
pub(crate) struct Rows<T> {
    index: Rc<SessionIndex>,
    run: String,
    read: Read<T>,
    seq: fn(&T) -> u64,
}

impl<T> Rows<T> {
    pub(crate) fn new(index: &Rc<SessionIndex>, run: &str, read: Read<T>, seq: fn(&T) -> u64) -> Rows<T> {
        Rows {
            index: index.clone(),
            run: run.to_owned(),
            read,
            seq,
        }
    }

    /// Returns the latest rows, at most `most`.
    pub(crate) fn last(&self, most: usize) -> Result<Vec<T>, SessionError> {
        (self.read)(&self.index, &self.run, Page::Last { most })
    }

    /// Returns all rows with their sequence numbers.
    pub(crate) fn each(&self) -> impl Iterator<Item = Result<(u64, T), SessionError>> {
        let (mut part, mut after, mut ended) = (Vec::new().into_iter(), 0, false);
        std::iter::from_fn(move || {
            if part.len() == 0 && !ended {
                let page = Page::After {
                    seq: after,
                    most: ROWS,
                };
                match (self.read)(&self.index, &self.run, page) {
                    Ok(rows) => part = rows.into_iter(),
                    Err(error) => {
                        ended = true;
                        return Some(Err(error));
                    }
                }
            }
            let row = part.next()?;
            after = (self.seq)(&row);
            Some(Ok((after, row)))
        })
    }
}

impl<T: Serialize> Serialize for Rows<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sequence = serializer.serialize_seq(None)?;
        for row in self.each() {
            let (_, row) = row.map_err(S::Error::custom)?;
            sequence.serialize_element(&row)?;
        }
        sequence.end()
    }
}

/// Returns the sequence number of the next row. An error sorts first.
pub(crate) fn seq<T>(row: Option<&Result<(u64, T), SessionError>>) -> Option<u64> {
    row.map(|row| row.as_ref().map_or(0, |(seq, _)| *seq))
}
