//! The speed of redaction: for typical tool output, and for output full of escapes and encodings.
//!
//! `cargo bench -p orchestra-engine --bench redact`

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Instant;

use orchestra_engine::Redactor;

const SIZE: usize = 8 << 20;

fn filled(line: &str) -> String {
    line.repeat(SIZE / line.len() + 1)
}

fn main() {
    let secrets: Vec<String> = (0..12_u64)
        .map(|number| {
            let value = |salt: u64| (number + salt).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            format!("sk-{:016x}-{:016X}", value(1), value(77))
        })
        .collect();
    let began = Instant::now();
    let redactor = Redactor::new(&secrets);
    println!(
        "{:<34} {:>8.2} ms",
        "made for 12 secrets",
        began.elapsed().as_secs_f64() * 1e3
    );
    let log =
        "2026-01-02T03:04:05Z INFO  compiled orchestra-engine v0.1.0 (/home/me/src) in 12.3 s, 0 warnings\n";
    let escapes = "{\"a\":\"b\\n\\u0041\\\"c\",\"url\":\"x%20y%2Fz\",\"html\":\"&lt;b&gt; &amp; &#65;\"}\n";
    let hex = "00000010: 736b 2d4c 6976 655f 3031 3233 3435 3637  sk-Live_01234567\n";
    let base64 = "c2stTGl2ZV8wMTIzNDU2Nzg5YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXphYmNkZWZnaGlqa2xtbg\n";
    let near = "sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-\n";
    for (name, line) in [
        ("log", log),
        ("escapes", escapes),
        ("xxd", hex),
        ("base64", base64),
        ("near", near),
    ] {
        let text = filled(line);
        let began = Instant::now();
        black_box(redactor.bytes(black_box(text.as_bytes())));
        let whole = began.elapsed();
        let mut stream = redactor.stream();
        let began = Instant::now();
        for piece in text.as_bytes().chunks(64 * 1024) {
            black_box(stream.push_bytes(piece));
        }
        black_box(stream.finish_bytes());
        let speed = |took: std::time::Duration| text.len() as f64 / took.as_secs_f64() / 1e6;
        println!(
            "{name:<34} {:>8.1} MB/s whole, {:>8.1} MB/s in pieces",
            speed(whole),
            speed(began.elapsed())
        );
    }
    let short = "compiled 3 files in 12 ms";
    let began = Instant::now();
    for _ in 0..100_000 {
        black_box(redactor.text(black_box(short)));
    }
    println!(
        "{:<34} {:>8.1} ns",
        "a text of 25 bytes",
        began.elapsed().as_secs_f64() * 1e9 / 1e5
    );
}
