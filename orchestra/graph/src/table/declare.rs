//! The declaration of a row: each column once, with its type, the function that reads it, and its default.

/// Declares the type of a row, and how generated code holds such rows: as numbers. For each row these are a bit mask of
/// the columns that differ from their defaults, and the numbers of these columns.
macro_rules! row {
    (
        $(#[$about:meta])*
        $visibility:vis struct $row:ident {
            $(
                $(#[$doc:meta])*
                pub $column:ident: $type:ty as $read:ident = $default:expr,
            )+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        $visibility struct $row {
            $(
                $(#[$doc])*
                pub $column: $type,
            )+
        }

        impl $row {
            /// A row whose columns all have their defaults.
            pub const DEFAULT: $row = $row { $($column: $default,)+ };

            const COLUMNS: usize = [$(stringify!($column)),+].len();

            /// Writes rows as numbers.
            #[doc(hidden)]
            pub fn write(rows: &[$row]) -> Vec<u32> {
                let mut words = Vec::new();
                for row in rows {
                    let start = words.len();
                    words.push(0);
                    let mut mask = 0;
                    let mut bit: u32 = 1 << $row::COLUMNS;
                    $(
                        bit >>= 1;
                        if row.$column != $row::DEFAULT.$column {
                            mask |= bit;
                            $crate::table::words::Column::write(row.$column, &mut words);
                        }
                    )+
                    words[start] = mask;
                }
                words
            }

            /// Reads the rows that [`write`](Self::write) wrote.
            #[doc(hidden)]
            pub const fn read<const N: usize>(words: &[u32]) -> [$row; N] {
                let mut rows = [$row::DEFAULT; N];
                let mut at = 0;
                let mut index = 0;
                while index < N {
                    let row = &mut rows[index];
                    let mask = words[at];
                    at += 1;
                    let mut bit: u32 = 1 << $row::COLUMNS;
                    $(
                        bit >>= 1;
                        if mask & bit != 0 {
                            row.$column = $crate::table::words::$read(words, &mut at);
                        }
                    )+
                    index += 1;
                }
                rows
            }
        }
    };
}
pub(super) use row;
