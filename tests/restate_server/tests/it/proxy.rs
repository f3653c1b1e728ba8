use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use orchestra_restate_server_tests::{FaultProxy, Faults};

const LIMIT: Duration = Duration::from_secs(10);

/// A server of this test, the proxy before it, and a connection through it.
struct Network {
    listener: TcpListener,
    proxy: FaultProxy,
}

impl Network {
    fn new(seed: u64) -> Network {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = FaultProxy::start(listener.local_addr().unwrap(), seed).unwrap();
        Network { listener, proxy }
    }

    fn connect(&self) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(self.proxy.address()).unwrap();
        let (server, _) = self.listener.accept().unwrap();
        for stream in [&client, &server] {
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            stream.set_write_timeout(Some(LIMIT)).unwrap();
        }
        (client, server)
    }
}

fn receive(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// Sends bytes and returns those that arrive before the connection ends, and whether it ends in order.
fn send_until_end(client: &mut TcpStream, server: &mut TcpStream) -> (Vec<u8>, bool) {
    let bytes: Vec<u8> = (0..100_000_u32).map(|number| number.to_le_bytes()[0]).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| client.write_all(&bytes));
        let mut received = Vec::new();
        let end = server.read_to_end(&mut received);
        (received, end.is_ok())
    })
}

fn cut(mean_bytes: u64) -> Faults {
    Faults {
        mean_bytes,
        cut: 1,
        ..Faults::default()
    }
}

#[test]
fn without_faults_everything_arrives_in_both_directions() {
    let network = Network::new(1);
    let (mut client, mut server) = network.connect();
    let bytes = vec![7; 1 << 20];
    std::thread::scope(|scope| {
        scope.spawn(|| client.write_all(&bytes).unwrap());
        assert_eq!(receive(&mut server, bytes.len()), bytes);
    });
    server.write_all(b"answer").unwrap();
    assert_eq!(receive(&mut client, 6), b"answer");
    // The end of one direction leaves the other one open.
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(server.read(&mut [0; 8]).unwrap(), 0);
    server.write_all(b"last").unwrap();
    assert_eq!(receive(&mut client, 4), b"last");
    drop(server);
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
    let counts = network.proxy.counts();
    assert_eq!((counts.connections, counts.faults()), (1, 0));
    assert_eq!(counts.bytes, (1 << 20) + 10);
}

#[test]
fn cuts_follow_from_the_seed() {
    let cuts_of = |seed| {
        let network = Network::new(seed);
        network.proxy.faults(cut(1_000));
        let cuts = (0..20).map(|_| {
            let (mut client, mut server) = network.connect();
            let (bytes, in_order) = send_until_end(&mut client, &mut server);
            // After a reset, the bytes before it may be lost.
            in_order.then_some(bytes.len())
        });
        let cuts: Vec<Option<usize>> = cuts.collect();
        assert_eq!(network.proxy.counts().cuts, 20);
        cuts
    };
    let cuts = cuts_of(5);
    assert_eq!(cuts, cuts_of(5));
    assert_ne!(cuts, cuts_of(6));
    let in_order: Vec<usize> = cuts.iter().copied().flatten().collect();
    assert!((3..=17).contains(&in_order.len()), "{cuts:?}");
    assert!(
        in_order.iter().all(|bytes| (1..=2_000).contains(bytes)),
        "{cuts:?}"
    );
}

#[test]
fn a_half_closed_direction_ends_and_the_other_one_continues() {
    let network = Network::new(2);
    let (mut client, mut server) = network.connect();
    network.proxy.faults(Faults {
        mean_bytes: 1_000,
        half_close: 1,
        ..Faults::default()
    });
    let (bytes, in_order) = send_until_end(&mut client, &mut server);
    assert!(in_order && bytes.len() <= 2_000, "{}", bytes.len());
    network.proxy.faults(Faults::default());
    server.write_all(b"answer").unwrap();
    assert_eq!(receive(&mut client, 6), b"answer");
    // The rest is discarded, so that the client can go on.
    client.write_all(&[0; 1_000]).unwrap();
    assert_eq!(network.proxy.counts().half_closes, 1);
}

#[test]
fn a_stall_ends_with_its_faults_and_loses_nothing() {
    let network = Network::new(3);
    let (mut client, mut server) = network.connect();
    network.proxy.faults(Faults {
        mean_bytes: 10,
        stall: 1,
        stall_time: Duration::from_secs(600),
        ..Faults::default()
    });
    client.write_all(&[1; 100]).unwrap();
    server.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut received = [0; 100];
    let mut length = 0;
    let error = loop {
        match server.read(&mut received[length..]) {
            Ok(more) => length += more,
            Err(error) => break error,
        }
    };
    assert!(matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    ));
    assert!((1..=20).contains(&length), "{length}");
    assert_eq!(network.proxy.counts().stalls, 1);
    network.proxy.faults(Faults::default());
    server.set_read_timeout(Some(LIMIT)).unwrap();
    assert_eq!(receive(&mut server, 100 - length), vec![1; 100 - length]);
}

#[test]
fn delays_take_their_time_and_keep_the_order() {
    let network = Network::new(4);
    let (mut client, mut server) = network.connect();
    network.proxy.faults(Faults {
        mean_bytes: 1_000,
        delay: 1,
        delay_limit: Duration::from_millis(4),
        ..Faults::default()
    });
    let bytes: Vec<u8> = (0..50_000_u32).map(|number| number.to_le_bytes()[0]).collect();
    let started = Instant::now();
    client.write_all(&bytes).unwrap();
    assert_eq!(receive(&mut server, bytes.len()), bytes);
    let delays = network.proxy.counts().delays;
    assert!((20..=100).contains(&delays), "{delays}");
    // The mean of a delay is 2 ms.
    assert!(
        started.elapsed() >= Duration::from_millis(20),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn all_connections_are_cut_or_refused_on_request() {
    let network = Network::new(5);
    let mut connections: Vec<_> = (0..3).map(|_| network.connect()).collect();
    // The last connection is open once it has forwarded something.
    for (client, server) in &mut connections {
        client.write_all(b"x").unwrap();
        receive(server, 1);
    }
    assert_eq!(network.proxy.cut_all(), 3);
    for (client, server) in &mut connections {
        assert!(client.read(&mut [0; 1]).is_err());
        assert!(server.read(&mut [0; 1]).is_err());
    }
    assert_eq!(network.proxy.counts().cuts, 3);
    network.proxy.faults(Faults {
        refuse: true,
        ..Faults::default()
    });
    let mut refused = TcpStream::connect(network.proxy.address()).unwrap();
    assert!(refused.read(&mut [0; 1]).is_err());
    assert_eq!(network.proxy.counts().refused, 1);
    network.proxy.faults(Faults::default());
    let (mut client, mut server) = network.connect();
    client.write_all(b"x").unwrap();
    assert_eq!(receive(&mut server, 1), b"x");
}

#[test]
fn later_connections_lead_to_another_target() {
    let network = Network::new(6);
    let (mut before, mut first) = network.connect();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    network.proxy.target(other.local_addr().unwrap());
    let mut client = TcpStream::connect(network.proxy.address()).unwrap();
    let (mut second, _) = other.accept().unwrap();
    client.write_all(b"second").unwrap();
    before.write_all(b"first").unwrap();
    assert_eq!(receive(&mut second, 6), b"second");
    assert_eq!(receive(&mut first, 5), b"first");
    // A target that nobody listens at breaks the connection.
    drop(other);
    let mut lost = TcpStream::connect(network.proxy.address()).unwrap();
    lost.set_read_timeout(Some(LIMIT)).unwrap();
    assert!(lost.read(&mut [0; 1]).is_err());
}
