//! A network between a server and its workers that breaks as it is told.

mod connection;
mod faults;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use connection::{Ending, relay, reset};
use faults::{Counters, Random};
pub use faults::{Counts, Faults};

const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A TCP proxy on loopback that delays, stalls, half-closes and cuts connections.
///
/// Faults are derived from a seed: the n-th connection meets the same faults after the same numbers of bytes. It runs
/// on a thread of its own, and ends on drop.
///
/// ```
/// use std::io::{Read as _, Write as _};
/// use std::net::{TcpListener, TcpStream};
/// use orchestra_restate_server_tests::{FaultProxy, Faults};
///
/// let server = TcpListener::bind("127.0.0.1:0")?;
/// let proxy = FaultProxy::start(server.local_addr()?, 1)?;
/// let mut client = TcpStream::connect(proxy.address())?;
/// let (mut peer, _) = server.accept()?;
/// client.write_all(b"hello")?;
/// let mut bytes = [0; 5];
/// peer.read_exact(&mut bytes)?;
/// assert_eq!(&bytes, b"hello");
///
/// // The proxy cuts the connection after a few bytes, at most 20.
/// proxy.faults(Faults { mean_bytes: 10, cut: 1, ..Faults::default() });
/// let _ = client.write_all(&[0; 100]);
/// let _ = peer.read_to_end(&mut Vec::new());
/// assert_eq!(proxy.counts().cuts, 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// The state that the thread shares with the test.
#[derive(Debug)]
struct Shared {
    target: Mutex<SocketAddr>,
    faults: watch::Sender<Faults>,
    /// Cancelled, and replaced by another one, to cut all connections.
    cut: Mutex<CancellationToken>,
    counters: Counters,
    seed: u64,
}

impl FaultProxy {
    /// Starts a proxy without faults on a free port.
    ///
    /// # Errors
    /// Fails if there is no free port or the thread cannot be started.
    pub fn start(target: SocketAddr, seed: u64) -> io::Result<FaultProxy> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            target: Mutex::new(target),
            faults: watch::Sender::new(Faults::default()),
            cut: Mutex::default(),
            counters: Counters::default(),
            seed,
        });
        let stop = CancellationToken::new();
        let (inside, stopped) = (Arc::clone(&shared), stop.clone());
        let thread = std::thread::Builder::new()
            .name("fault-proxy".to_owned())
            .spawn(move || {
                // The end of the runtime closes all connections.
                runtime.block_on(async {
                    if let Ok(listener) = TcpListener::from_std(listener) {
                        tokio::select! {
                            () = stopped.cancelled() => {}
                            () = accept(&listener, &inside) => {}
                        }
                    }
                });
            })?;
        Ok(FaultProxy {
            address,
            shared,
            stop,
            thread: Some(thread),
        })
    }

    /// Returns the address of the proxy.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of the proxy, such as `http://127.0.0.1:40000`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets where later connections lead, such as to a worker that was started again.
    pub fn target(&self, target: SocketAddr) {
        *self.shared.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }

    /// Replaces the faults, also those of open connections. Delays and stalls end.
    pub fn faults(&self, faults: Faults) {
        self.shared.faults.send_replace(faults);
    }

    /// Resets all open connections. Returns their number.
    pub fn cut_all(&self) -> u64 {
        let mut cut = self.shared.cut.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *cut).cancel();
        self.shared.counters.open.load(Ordering::Relaxed)
    }

    /// Returns the number of faults of each kind so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.counters.counts()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Accepts connections, each of which has its own task.
async fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut number = 0;
    loop {
        // Such as too many open files, which passes.
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        number += 1;
        shared.counters.connections.fetch_add(1, Ordering::Relaxed);
        if shared.faults.borrow().refuse {
            shared.counters.refused.fetch_add(1, Ordering::Relaxed);
            reset(&client);
            continue;
        }
        let cut = {
            let cut = shared.cut.lock().unwrap_or_else(PoisonError::into_inner);
            shared.counters.open.fetch_add(1, Ordering::Relaxed);
            cut.clone()
        };
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            connect(client, number, &shared, &cut).await;
            shared.counters.open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Relays one connection until it ends.
async fn connect(mut client: TcpStream, number: u64, shared: &Shared, cut: &CancellationToken) {
    let target = *shared.target.lock().unwrap_or_else(PoisonError::into_inner);
    let Ok(mut server) = TcpStream::connect(target).await else {
        return reset(&client);
    };
    // Small writes must arrive as they are sent.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let randoms = [0, 1].map(|direction| Random::new(shared.seed, 2 * number + direction));
    let ending = tokio::select! {
        () = cut.cancelled() => Ending::Cut { resets: true },
        ending = relay(&mut client, &mut server, randoms, shared) => ending,
    };
    let resets = match ending {
        Ending::Closed => false,
        Ending::Broken => true,
        Ending::Cut { resets } => {
            shared.counters.cuts.fetch_add(1, Ordering::Relaxed);
            resets
        }
    };
    if resets {
        reset(&client);
        reset(&server);
    }
}
