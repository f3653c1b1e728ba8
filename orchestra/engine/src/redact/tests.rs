use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use proptest::prelude::*;
use serde_json::json;

use super::*;

const SECRET: &str = "sk-Live_0123456789/ab+cd=\"\\é&%~key";

fn each(text: &str, write: impl Fn(u8) -> String) -> String {
    text.bytes().map(write).collect()
}

fn characters(text: &str, write: impl Fn(char) -> String) -> String {
    text.chars().map(write).collect()
}

fn special(byte: u8) -> bool {
    !(byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte))
}

fn json(text: &str) -> String {
    serde_json::to_string(text).unwrap().trim_matches('"').to_owned()
}

fn hex(text: &str) -> String {
    each(text, |byte| format!("{byte:02x}"))
}

fn separated(text: &str, before: &str, between: &str) -> String {
    let bytes: Vec<String> = text.bytes().map(|byte| format!("{before}{byte:02x}")).collect();
    bytes.join(between)
}

/// Returns a text as a dump. `row` formats the offset of a line, its bytes, and their printable form.
fn dump(text: &str, row: impl Fn(usize, &[u8], &str) -> String) -> String {
    let rows = text.as_bytes().chunks(16).enumerate().map(|(number, bytes)| {
        let shown: String = bytes
            .iter()
            .map(|byte| {
                if byte.is_ascii_graphic() {
                    char::from(*byte)
                } else {
                    '.'
                }
            })
            .collect();
        row(number * 16, bytes, &shown)
    });
    rows.collect()
}

fn xxd(text: &str) -> String {
    dump(text, |at, bytes, shown| {
        let words: Vec<String> = bytes
            .chunks(2)
            .map(|word| word.iter().map(|byte| format!("{byte:02x}")).collect())
            .collect();
        format!("{at:08x}: {:39}  {shown}\n", words.join(" "))
    })
}

fn hexdump(text: &str) -> String {
    dump(text, |at, bytes, shown| {
        let half = |bytes: &[u8]| {
            bytes
                .iter()
                .map(|byte| format!("{byte:02x} "))
                .collect::<String>()
        };
        let (left, right) = bytes.split_at(bytes.len().min(8));
        format!("{at:08x}  {:24} {:24} |{shown}|\n", half(left), half(right))
    })
}

fn octal_dump(text: &str, swapped: bool) -> String {
    dump(text, |at, bytes, _| {
        let words = bytes.chunks(2).map(|word| match (swapped, word) {
            (true, [low, high]) => format!(" {high:02x}{low:02x}"),
            (true, [low]) => format!(" 00{low:02x}"),
            (_, word) => word.iter().map(|byte| format!(" {byte:02x}")).collect(),
        });
        format!("{at:07o}{}\n", words.collect::<String>())
    })
}

fn quoted_printable(text: &str, all: bool) -> String {
    each(text, |byte| {
        if all || special(byte) {
            format!("={byte:02X}")
        } else {
            char::from(byte).to_string()
        }
    })
}

fn percent(text: &str, all: bool, upper: bool) -> String {
    each(text, |byte| match (all || special(byte), upper) {
        (true, true) => format!("%{byte:02X}"),
        (true, false) => format!("%{byte:02x}"),
        _ => char::from(byte).to_string(),
    })
}

fn html(text: &str) -> String {
    let named = text.replace('&', "&amp;").replace('<', "&lt;");
    named.replace('"', "&quot;").replace('\'', "&apos;")
}

fn unicode_escapes(text: &str) -> String {
    text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()
}

/// Returns the text in every encoding, with the name of the encoding.
fn encodings(text: &str) -> Vec<(&'static str, String)> {
    let utf16 = |big: bool| {
        let units = text.encode_utf16();
        let bytes = units.flat_map(|unit| {
            if big {
                unit.to_be_bytes()
            } else {
                unit.to_le_bytes()
            }
        });
        bytes.collect::<Vec<u8>>()
    };
    vec![
        ("as it is", text.to_owned()),
        ("JSON", json(text)),
        ("JSON in JSON", json(&json(text))),
        ("JSON, thrice", json(&json(&json(text)))),
        ("JSON with escaped slashes", json(text).replace('/', "\\/")),
        ("JSON, all escaped", unicode_escapes(text)),
        (
            "JSON, all escaped in upper case",
            unicode_escapes(text).to_uppercase().replace("\\U", "\\u"),
        ),
        ("JSON, all escaped, in JSON", json(&unicode_escapes(text))),
        (
            "JavaScript",
            characters(text, |character| format!("\\u{{{:x}}}", character as u32)),
        ),
        (
            "escape()",
            characters(text, |character| format!("%u{:04X}", character as u32)),
        ),
        ("hexadecimal escapes", each(text, |byte| format!("\\x{byte:02x}"))),
        (
            "hexadecimal escapes in JSON",
            each(text, |byte| format!("\\\\x{byte:02X}")),
        ),
        ("octal escapes", each(text, |byte| format!("\\{byte:03o}"))),
        (
            "shell",
            each(text, |byte| match byte {
                byte if byte.is_ascii() && special(byte) => format!("\\{}", char::from(byte)),
                byte if byte.is_ascii() => char::from(byte).to_string(),
                byte => format!("\\{byte:03o}"),
            }),
        ),
        ("URL", percent(text, false, true)),
        ("URL in lower case", percent(text, false, false)),
        ("URL, all escaped", percent(text, true, true)),
        ("URL, all escaped in lower case", percent(text, true, false)),
        ("URL, twice", percent(&percent(text, false, true), false, true)),
        ("form", percent(text, false, true).replace("%20", "+")),
        ("HTML", html(text)),
        ("HTML, twice", html(&html(text))),
        (
            "HTML, decimal",
            characters(text, |character| format!("&#{};", character as u32)),
        ),
        (
            "HTML, hexadecimal",
            characters(text, |character| format!("&#x{:X};", character as u32)),
        ),
        ("quoted-printable", quoted_printable(text, false)),
        ("quoted-printable, all escaped", quoted_printable(text, true)),
        ("base64", STANDARD.encode(text)),
        ("base64 without padding", STANDARD_NO_PAD.encode(text)),
        ("base64 of URLs", URL_SAFE.encode(text)),
        ("base64 of URLs without padding", URL_SAFE_NO_PAD.encode(text)),
        ("base64 in a URL", percent(&STANDARD.encode(text), false, true)),
        ("base64 of UTF-16", STANDARD.encode(utf16(false))),
        ("hexadecimal", hex(text)),
        ("hexadecimal in upper case", hex(text).to_uppercase()),
        ("with colons", separated(text, "", ":")),
        (
            "with hyphens in upper case",
            separated(text, "", "-").to_uppercase(),
        ),
        ("with blanks", separated(text, "", " ")),
        ("a list of C", separated(text, "0x", ", ")),
        (
            "a list of C in upper case",
            separated(text, "0x", ",").to_uppercase(),
        ),
        ("xxd", xxd(text)),
        ("hexdump -C", hexdump(text)),
        ("hexdump", octal_dump(text, true)),
        ("od -t x1", octal_dump(text, false)),
        ("UTF-16", String::from_utf8_lossy(&utf16(false)).into_owned()),
        (
            "UTF-16, big end first",
            String::from_utf8_lossy(&utf16(true)).into_owned(),
        ),
        ("backwards", text.chars().rev().collect()),
    ]
}

/// Wraps a text into lines of `width` bytes.
fn wrapped(text: &str, width: usize, end: &str) -> String {
    let lines: Vec<Cow<'_, str>> = text
        .as_bytes()
        .chunks(width)
        .map(String::from_utf8_lossy)
        .collect();
    lines.join(end)
}

fn in_pieces(redactor: &Redactor, text: &str, length: usize) -> String {
    let mut stream = redactor.stream();
    let mut shown: Vec<u8> = Vec::new();
    for piece in text.as_bytes().chunks(length) {
        shown.extend(stream.push_bytes(piece));
    }
    shown.extend(stream.finish_bytes());
    String::from_utf8_lossy(&shown).into_owned()
}

/// Returns whether too much of an encoding is shown. The ends of base64 and of two-byte words depend on the adjacent
/// text.
fn shows(clean: &str, encoded: &str) -> bool {
    let encoded: Vec<char> = encoded.chars().filter(|letter| !letter.is_whitespace()).collect();
    let clean: String = clean.chars().filter(|letter| !letter.is_whitespace()).collect();
    encoded
        .windows((encoded.len() / 4).max(12))
        .any(|window| clean.contains(&window.iter().collect::<String>()))
}

#[test]
fn every_encoding_is_found_wrapped_and_cut_anywhere() {
    // All encodings of an ASCII secret are valid text.
    let ascii = SECRET.replace('é', "e");
    let redactor = Redactor::new([SECRET, &ascii]);
    let mut found = 0;
    for before in ["", "a", "some longer text before, as it stands in files, "] {
        for secret in [SECRET, &ascii] {
            let alone = encodings(secret);
            let around = encodings(&format!("{before}{secret}; and behind"));
            for ((name, alone), (_, around)) in alone.into_iter().zip(around) {
                // The lossy conversion replaces bytes, so the secret is no longer there.
                let lossy = secret == SECRET && (name.contains("UTF-16") || name == "backwards");
                if lossy && name != "base64 of UTF-16" {
                    continue;
                }
                let lines = name.starts_with("xxd") || name.starts_with("hexdump") || name.starts_with("od");
                let widths: &[usize] = if lines { &[1000] } else { &[60, 64, 76, 1000] };
                for (width, end) in widths
                    .iter()
                    .map(|width| (*width, if *width == 76 { "\r\n" } else { "\n" }))
                {
                    let soft = if name.starts_with("quoted") { "=" } else { "" };
                    // An escape that is wrapped in the middle is no longer an escape.
                    let text = match name {
                        _ if around.is_ascii() && !around.contains(['\\', '%', '&', '='])
                            || lines
                            || width == 1000 =>
                        {
                            wrapped(&around, width, end)
                        }
                        _ if name.starts_with("base64") && !around.contains('%') => {
                            wrapped(&around, width, end)
                        }
                        _ if name.starts_with("quoted") => {
                            let at = around.len() / 2;
                            let at = (at..).find(|at| !around[at - 2..*at].contains('=')).unwrap();
                            format!("{}{soft}{end}{}", &around[..at], &around[at..])
                        }
                        _ => continue,
                    };
                    let clean = redactor.text(&text).into_owned();
                    assert!(
                        clean.contains(REDACTED),
                        "{name} at {width}:\n{text}\nbecame\n{clean}"
                    );
                    assert!(
                        !shows(&clean, &alone),
                        "{name} at {width}:\n{text}\nbecame\n{clean}"
                    );
                    let lengths: &[usize] = if width == 1000 { &[1, 64] } else { &[7] };
                    for length in lengths.iter().copied() {
                        assert_eq!(
                            in_pieces(&redactor, &text, length),
                            clean,
                            "{name} in pieces of {length}"
                        );
                    }
                    found += 1;
                }
            }
        }
    }
    assert!(found > 500, "{found}");
}

#[test]
fn a_longer_text_around_base64_is_found_at_each_place() {
    let redactor = Redactor::new([SECRET]);
    for length in 0..6 {
        let text = format!("{}{SECRET}{}", "x".repeat(length), "y".repeat(length));
        for encoded in [STANDARD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
            for width in [60, 64, 76] {
                let clean = redactor.text(&wrapped(&encoded, width, "\r\n")).into_owned();
                assert!(clean.contains(REDACTED), "{encoded} became {clean}");
            }
        }
    }
}

#[test]
fn values_that_say_nothing_and_other_texts_stay() {
    let redactor = Redactor::new(["", "1", "abc", "true", "/"]);
    assert!(redactor.is_empty());
    assert_eq!(redactor.text("true is 1/1"), "true is 1/1");
    let redactor = Redactor::new([SECRET]);
    let mut value = json!({"a": [1, "b", {"c": SECRET}], SECRET: 7});
    redactor.value(&mut value);
    assert_eq!(value, json!({"a": [1, "b", {"c": REDACTED}], REDACTED: 7}));
    // Parts of the secret, and texts in the forms that are searched.
    let parts = "sk-Live_ 0123456789 /ab+cd= %7E \\n\\u0041 &amp; =3D 00000010: 736b 2d4c 6976  sk-Liv\n";
    assert_eq!(redactor.text(parts), parts);
    // A short secret has no encoded forms, because they would match unrelated texts.
    let short = Redactor::new(["1234"]);
    assert_eq!(short.text("31 32 33 34, pin 1234"), "31 32 33 34, pin [redacted]");
}

#[test]
fn each_line_of_a_key_file_is_a_secret() {
    let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQ\n-----END PRIVATE KEY-----\n";
    let redactor = Redactor::new([key]);
    assert_eq!(
        redactor.text("got MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"),
        "got [redacted]"
    );
    assert_eq!(redactor.text(key.trim()), REDACTED);
    assert_eq!(redactor.text(&json(key.trim())), REDACTED);
    assert_eq!(redactor.text(&json(&json(key.trim()))), REDACTED);
}

#[test]
fn a_long_secret_is_known_by_its_pieces_and_held_back_in_part() {
    let secret: String = (0..4_000_u32)
        .map(|number| format!("{:x}", number.wrapping_mul(2_654_435_761)))
        .collect();
    let redactor = Redactor::new([&secret]);
    let clean = redactor.text(&secret[1000..9000]).into_owned();
    assert!(clean.len() < 1000, "{}", clean.len());
    let mut stream = redactor.stream();
    let mut most = 0;
    for piece in secret.as_bytes().chunks(100) {
        stream.push_bytes(piece);
        most = most.max(stream.held.len());
    }
    assert!(most < 1024, "{most} bytes are held back");
}

#[test]
fn what_separates_symbols_is_not_held_back_without_end() {
    let redactor = Redactor::new([SECRET]);
    let half = STANDARD.encode(SECRET)[..20].to_owned();
    let mut stream = redactor.stream();
    stream.push(&half);
    for _ in 0..10_000 {
        stream.push("\n \r\n\0");
        assert!(stream.held.len() < 1024, "{}", stream.held.len());
    }
}

#[test]
fn a_line_is_shown_when_it_ends_although_a_secret_may_begin_with_its_last_letter() {
    let redactor = Redactor::new([SECRET]);
    let mut stream = redactor.stream();
    assert_eq!(stream.push("it works\n"), "it works\n");
    assert_eq!(stream.push("task\r\n"), "task\r\n");
    let encoded = STANDARD.encode(SECRET);
    let (first, rest) = encoded.split_at(3);
    assert_eq!(stream.push(&format!("{first}\n")), format!("{first}\n"));
    let shown = stream.push(rest) + &stream.finish();
    assert!(
        shown.starts_with(REDACTED) && shown.len() < REDACTED.len() + 4,
        "{shown}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pieces_give_what_the_whole_gives(
        parts in proptest::collection::vec(prop_oneof![
            Just(SECRET.to_owned()),
            Just("sk-L".to_owned()),
            Just("overlap-overlap".to_owned()),
            Just(xxd(SECRET)),
            Just(hexdump(SECRET)),
            Just(STANDARD.encode(SECRET)),
            Just(percent(SECRET, false, true)),
            "[a-z+/ é%\\\\&=0x\n\r]{0,12}",
        ], 0..12),
        cuts in proptest::collection::vec(0usize..600, 0..20),
    ) {
        let redactor = Redactor::new([SECRET, "overlap-overlap", "lap-over"]);
        let text = parts.concat();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.sort_unstable();
        let mut stream = redactor.stream();
        let mut shown = Vec::new();
        let mut from = 0;
        for cut in cuts.into_iter().chain([text.len()]) {
            shown.extend(stream.push_bytes(&text.as_bytes()[from..cut]));
            from = cut;
        }
        shown.extend(stream.finish_bytes());
        prop_assert_eq!(String::from_utf8(shown).unwrap(), redactor.text(&text).into_owned());
    }
}
