//! The declaration of a row: each column once, with its type, the function that reads it, and its default.

/// Declares the type of a row, and how generated code holds such rows: as numbers, which are written as characters. For each
/// row these are a bit mask of the columns that differ from their defaults, and the numbers of these columns.
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

            /// Writes rows as the characters of a raw byte string.
            #[doc(hidden)]
            pub fn write(rows: &[$row]) -> Vec<u8> {
                let mut bytes = Vec::new();
                let mut columns = Vec::new();
                for row in rows {
                    let mut mask = 0;
                    let mut bit: u32 = 1 << $row::COLUMNS;
                    $(
                        bit >>= 1;
                        if row.$column != $row::DEFAULT.$column {
                            mask |= bit;
                            $crate::table::words::Column::write(row.$column, &mut columns);
                        }
                    )+
                    $crate::table::digits::push(mask, &mut bytes);
                    bytes.append(&mut columns);
                }
                bytes
            }

            /// Reads the rows that [`write`](Self::write) wrote.
            #[doc(hidden)]
            pub const fn read<const N: usize>(bytes: &[u8]) -> [$row; N] {
                let mut rows = [$row::DEFAULT; N];
                let mut position = 0;
                let at = &mut position;
                let mut index = 0;
                while index < N {
                    let row = &mut rows[index];
                    let mask = $crate::table::digits::next!(bytes, at);
                    let mut bit: u32 = 1 << $row::COLUMNS;
                    $(
                        bit >>= 1;
                        if mask & bit != 0 {
                            row.$column = $crate::table::words::$read(bytes, at);
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
