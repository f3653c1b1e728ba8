//! One connection of a proxy.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::time::sleep;

use super::Shared;
use super::faults::{Fault, Faults, Random};

const CHUNK: usize = 16 << 10;

/// The end of a connection.
pub(super) enum Ending {
    /// Both sides have closed it.
    Closed,
    /// One side has broken it.
    Broken,
    /// The proxy has cut it.
    Cut {
        /// With a reset, else in order.
        resets: bool,
    },
}

impl From<io::Error> for Ending {
    fn from(_: io::Error) -> Self {
        Ending::Broken
    }
}

/// Makes the end of a connection a reset. Unsent bytes are lost.
pub(super) fn reset(stream: &TcpStream) {
    // A connection that has ended already cannot be reset.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// Relays both directions until both have ended, or one of them cuts the connection.
pub(super) async fn relay(
    client: &mut TcpStream,
    server: &mut TcpStream,
    [up, down]: [Random; 2],
    shared: &Shared,
) -> Ending {
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let up = Direction::new(from_client, to_server, up, shared);
    let down = Direction::new(from_server, to_client, down, shared);
    match tokio::try_join!(up.relay(), down.relay()) {
        Ok(((), ())) => Ending::Closed,
        Err(ending) => ending,
    }
}

/// One direction of a connection.
struct Direction<'c> {
    from: ReadHalf<'c>,
    to: WriteHalf<'c>,
    random: Random,
    shared: &'c Shared,
    changes: watch::Receiver<Faults>,
    faults: Faults,
    /// The number of bytes before the next fault.
    distance: Option<u64>,
    /// Half-closed: the rest is discarded.
    is_closed: bool,
}

impl<'c> Direction<'c> {
    fn new(from: ReadHalf<'c>, to: WriteHalf<'c>, random: Random, shared: &'c Shared) -> Self {
        let mut changes = shared.faults.subscribe();
        changes.mark_changed();
        Direction {
            from,
            to,
            random,
            shared,
            changes,
            faults: Faults::default(),
            distance: None,
            is_closed: false,
        }
    }

    async fn relay(mut self) -> Result<(), Ending> {
        let mut buffer = vec![0; CHUNK];
        loop {
            let length = self.from.read(&mut buffer).await?;
            let chunk = buffer.get(..length).unwrap_or_default();
            if chunk.is_empty() {
                if !self.is_closed {
                    self.to.shutdown().await?;
                }
                return Ok(());
            }
            self.forward(chunk).await?;
        }
    }

    /// Forwards bytes, with the faults that are due amid them.
    async fn forward(&mut self, mut chunk: &[u8]) -> Result<(), Ending> {
        while !chunk.is_empty() && !self.is_closed {
            if self.changes.has_changed().unwrap_or(false) {
                self.faults = *self.changes.borrow_and_update();
                self.distance = self.faults.draw_distance(&mut self.random);
            }
            let before = self.distance.and_then(|distance| usize::try_from(distance).ok());
            let (part, rest) = chunk.split_at(before.unwrap_or(usize::MAX).min(chunk.len()));
            self.to.write_all(part).await?;
            chunk = rest;
            let sent = part.len() as u64;
            self.shared.counters.bytes.fetch_add(sent, Ordering::Relaxed);
            self.distance = self.distance.map(|distance| distance - sent);
            if self.distance == Some(0) {
                let fault = self.faults.draw(&mut self.random);
                self.distance = self.faults.draw_distance(&mut self.random);
                self.apply(fault).await?;
            }
        }
        Ok(())
    }

    async fn apply(&mut self, fault: Fault) -> Result<(), Ending> {
        let counters = &self.shared.counters;
        let (counter, time) = match fault {
            Fault::Delay(time) => (&counters.delays, time),
            Fault::Stall(time) => (&counters.stalls, time),
            Fault::HalfClose => {
                counters.half_closes.fetch_add(1, Ordering::Relaxed);
                self.is_closed = true;
                self.to.shutdown().await?;
                return Ok(());
            }
            Fault::Cut { resets } => return Err(Ending::Cut { resets }),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        tokio::select! {
            () = sleep(time) => {}
            // Other faults end it.
            _ = self.changes.changed() => self.changes.mark_changed(),
        }
        Ok(())
    }
}
