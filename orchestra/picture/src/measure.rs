//! The width of text. Pictures are made without fonts, so widths are those of Helvetica, which viewers match closely.

/// Widths of the printable ASCII characters, in thousandths of the font size.
const ASCII: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556,
    556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278,
    500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469,
    556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500,
    278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
];

/// Returns the width of a line at a font size.
pub(crate) fn width(line: &str, size: f64) -> f64 {
    let thousandths: u64 = line.chars().map(character_width).sum();
    thousandths as f64 * size / 1000.0
}

fn character_width(character: char) -> u64 {
    match character {
        ' '..='~' => u64::from(ASCII[character as usize - 32]),
        '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200f}' | '\u{fe00}'..='\u{fe0f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe4f}'
        | '\u{ff00}'..='\u{ff60}' => 1_000,
        '\u{1f000}'..='\u{1faff}' | '\u{2600}'..='\u{27bf}' => 1_250,
        '\u{20000}'.. => 1_000,
        _ => 600,
    }
}
