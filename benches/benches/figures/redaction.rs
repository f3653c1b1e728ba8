//! Redaction: the speed for typical tool output, and for output full of escapes and encodings.

use std::hint::black_box;

use aho_corasick::AhoCorasick;
use orchestra_benches::measure::{Bench, median, seconds};
use orchestra_engine::Redactor;

const SIZE: usize = 8 << 20;

fn filled(line: &str) -> String {
    line.repeat(SIZE / line.len() + 1)
}

pub(crate) fn measure(bench: &mut Bench) {
    if !bench.wants("redaction") {
        return;
    }
    let secrets: Vec<String> = (0..12_u64)
        .map(|number| {
            let value = |salt: u64| (number + salt).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            format!("sk-{:016x}-{:016X}", value(1), value(77))
        })
        .collect();
    // The lower bound: a search for the plain secrets alone, without their encoded forms.
    let plain = AhoCorasick::new(&secrets).expect("the secrets are few");
    let made = median(5, 1_000, || {
        black_box(Redactor::new(&secrets));
    });
    bench.record("redaction made for 12 secrets", "ms", made, None, None);
    let redactor = Redactor::new(&secrets);
    let log =
        "2026-01-02T03:04:05Z INFO  compiled orchestra-engine v0.1.0 (/home/me/src) in 12.3 s, 0 warnings\n";
    let escapes = "{\"a\":\"b\\n\\u0041\\\"c\",\"url\":\"x%20y%2Fz\",\"html\":\"&lt;b&gt; &amp; &#65;\"}\n";
    let hex = "00000010: 736b 2d4c 6976 655f 3031 3233 3435 3637  sk-Live_01234567\n";
    let base64 = "c2stTGl2ZV8wMTIzNDU2Nzg5YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXphYmNkZWZnaGlqa2xtbg\n";
    let near = "sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-\n";
    for (name, line) in [
        ("a log", log),
        ("escapes", escapes),
        ("a hex dump", hex),
        ("base64", base64),
        ("the beginnings of secrets", near),
    ] {
        let text = filled(line);
        let speed = |took: f64| text.len() as f64 / took / 1e6;
        let limit = speed(seconds(|| {
            black_box(plain.find_iter(black_box(&text)).count());
        }));
        let whole = speed(seconds(|| {
            black_box(redactor.bytes(black_box(text.as_bytes())));
        }));
        let pieces = speed(seconds(|| {
            let mut stream = redactor.stream();
            for piece in text.as_bytes().chunks(64 * 1024) {
                black_box(stream.push_bytes(piece));
            }
            black_box(stream.finish_bytes());
        }));
        bench.record(&format!("redaction of {name}, whole"), "MB/s", whole, limit, None);
        bench.record(
            &format!("redaction of {name}, in pieces"),
            "MB/s",
            pieces,
            limit,
            None,
        );
    }
    let short = "compiled 3 files in 12 ms";
    let each = median(5, 100_000, || {
        for _ in 0..100_000 {
            black_box(redactor.text(black_box(short)));
        }
    });
    bench.record("redaction of 25 bytes", "us", each, None, None);
}
