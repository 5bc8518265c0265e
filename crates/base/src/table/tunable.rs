//! `tunables!`: rows of values that can be set.

use std::fmt;
use std::time::Duration;

use crate::size::{ByteSize, parse_duration};

/// How a tunable's value is written and read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Bytes, with a unit.
    Bytes,
    /// A plain number.
    Count,
    /// Time; held in milliseconds.
    Millis,
    /// `on` or `off`; held as 1 and 0.
    Switch,
    /// Per cent, without the sign.
    Percent,
    /// One of these words; held as its place.
    Choice(&'static [&'static str]),
}

impl Form {
    /// A held value as people read it.
    pub fn print(self, value: u64) -> String {
        match self {
            Form::Bytes => ByteSize(value).to_string(),
            Form::Count => value.to_string(),
            Form::Millis => format!("{:?}", Duration::from_millis(value)),
            Form::Switch => if value == 0 { "off" } else { "on" }.to_owned(),
            Form::Percent => format!("{value}%"),
            Form::Choice(words) => words.get(value as usize).copied().unwrap_or("?").to_owned(),
        }
    }

    fn parse(self, text: &str) -> Result<u64, String> {
        match self {
            Form::Bytes => text.parse::<ByteSize>().map(|s| s.0).map_err(|e| e.to_string()),
            Form::Count => text.parse().map_err(|_| format!("'{text}' is not a whole number")),
            Form::Millis => parse_duration(text).map(|d| d.as_millis() as u64).map_err(|e| e.to_string()),
            Form::Percent => {
                text.trim_end_matches('%').parse().map_err(|_| format!("'{text}' is not a percentage"))
            }
            Form::Switch => match text {
                "on" | "1" | "true" | "yes" => Ok(1),
                "off" | "0" | "false" | "no" => Ok(0),
                _ => Err(format!("'{text}' is not on or off")),
            },
            Form::Choice(words) => words
                .iter()
                .position(|word| *word == text)
                .map(|place| place as u64)
                .ok_or_else(|| format!("'{text}' is not one of {}", words.join(", "))),
        }
    }
}

/// One tunable: all that is said of it anywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TunableRow {
    /// Full name, such as `arc.size_max`.
    pub name: &'static str,
    /// How its value is written.
    pub form: Form,
    /// Value when nobody sets it.
    pub default: u64,
    /// Smallest value.
    pub min: u64,
    /// Largest value.
    pub max: u64,
    /// Whether it takes effect while running (else only at open).
    pub live: bool,
    /// One line.
    pub doc: &'static str,
}

impl TunableRow {
    /// Reads a value as people write it, and checks its range.
    ///
    /// # Errors
    /// [`BadSetting`] with the name, what was given and what is allowed.
    pub fn parse(&self, text: &str) -> Result<u64, BadSetting> {
        let bad = |why| BadSetting { name: self.name.to_owned(), why };
        let value = self.form.parse(text).map_err(bad)?;
        if (self.min..=self.max).contains(&value) {
            return Ok(value);
        }
        let (min, max) = (self.form.print(self.min), self.form.print(self.max));
        Err(bad(format!("'{text}' is not between {min} and {max}")))
    }
}

/// A tunable with its present value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// What it is.
    pub row: &'static TunableRow,
    /// Its value.
    pub value: u64,
}

/// Why a tunable could not be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadSetting {
    name: String,
    why: String,
}

impl BadSetting {
    /// The error for a name that no table has.
    pub fn unknown(name: &str) -> Self {
        BadSetting { name: name.to_owned(), why: "there is no such tunable".to_owned() }
    }

    /// The error for a row that is fixed once open.
    pub fn not_live(name: &str) -> Self {
        BadSetting { name: name.to_owned(), why: "can only be set at start".to_owned() }
    }
}

impl fmt::Display for BadSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.why)
    }
}

impl std::error::Error for BadSetting {}

/// A struct made by [`tunables!`](crate::tunables).
pub trait Tunables: Send + Sync {
    /// The rows, in order of declaration.
    fn rows(&self) -> &'static [TunableRow];
    /// The present values, in the same order.
    fn settings(&self) -> Vec<Setting>;
    /// Stores a value that [`TunableRow::parse`] allowed. `false` when the name is not in this table.
    fn store(&self, name: &str, value: u64) -> bool;

    /// Reads and sets a value. With `running`, only rows that are live.
    ///
    /// # Errors
    /// [`BadSetting`] when the name is unknown, the value not allowed, or the row not live.
    fn set(&self, name: &str, text: &str, running: bool) -> Result<(), BadSetting> {
        let row = self.rows().iter().find(|row| row.name == name);
        let row = row.ok_or_else(|| BadSetting::unknown(name))?;
        if running && !row.live {
            return Err(BadSetting::not_live(name));
        }
        self.store(name, row.parse(text)?);
        Ok(())
    }
}

/// Declares a struct of tunables, each an atomic that is read with one relaxed load.
///
/// A row is `"name": field, Form = default, min..=max, live|open;`.
///
/// ```
/// arcwell_base::tunables! {
///     /// How a shop is run.
///     pub struct ShopTunables {
///         /// Customers that may be inside.
///         "shop.inside_max": inside_max, Count = 10, 1..=100, live;
///         /// Whether the lights are on.
///         "shop.lights": lights, Switch = 1, 0..=1, open;
///     }
/// }
/// # use arcwell_base::table::Tunables;
/// let shop = ShopTunables::default();
/// shop.set("shop.inside_max", "20", true).unwrap();
/// assert_eq!(shop.inside_max(), 20);
/// assert!(shop.set("shop.lights", "off", true).is_err());
/// assert_eq!(shop.set("shop.inside_max", "0", true).unwrap_err().to_string(),
///     "shop.inside_max: '0' is not between 1 and 100");
/// ```
#[macro_export]
macro_rules! tunables {
    (
        $(#[$outer:meta])*
        pub struct $table:ident {
            $(
                #[doc = $doc:literal]
                $name:literal : $field:ident, $form:ident $(($words:expr))? = $default:expr,
                    $min:literal ..= $max:expr, $live:ident;
            )*
        }
    ) => {
        $(#[$outer])*
        #[derive(Debug)]
        pub struct $table {
            $( $field: $crate::atomic::AtomicU64, )*
        }

        impl $table {
            /// The rows, in order of declaration.
            pub const ROWS: &'static [$crate::table::TunableRow] = &[
                $( $crate::table::TunableRow {
                    name: $name,
                    form: $crate::table::Form::$form $(($words))?,
                    default: $default,
                    min: $min,
                    max: $max,
                    live: $crate::tunables!(@live $live),
                    doc: $doc.trim_ascii(),
                }, )*
            ];

            $(
                #[doc = $doc]
                #[inline]
                pub fn $field(&self) -> u64 {
                    self.$field.load($crate::atomic::Ordering::Relaxed)
                }
            )*
        }

        impl Default for $table {
            fn default() -> Self {
                $table { $( $field: $crate::atomic::AtomicU64::new($default), )* }
            }
        }

        impl $crate::table::Tunables for $table {
            fn rows(&self) -> &'static [$crate::table::TunableRow] {
                Self::ROWS
            }

            fn settings(&self) -> Vec<$crate::table::Setting> {
                let values = [$( self.$field(), )*];
                Self::ROWS.iter().zip(values)
                    .map(|(row, value)| $crate::table::Setting { row, value })
                    .collect()
            }

            fn store(&self, name: &str, value: u64) -> bool {
                let cell = match name {
                    $( $name => &self.$field, )*
                    _ => return false,
                };
                cell.store(value, $crate::atomic::Ordering::Relaxed);
                true
            }
        }
    };
    (@live live) => { true };
    (@live open) => { false };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_printed_as_it_is_read() {
        for (form, value) in [
            (Form::Bytes, 131_072),
            (Form::Count, 17),
            (Form::Millis, 1_500),
            (Form::Switch, 1),
            (Form::Percent, 75),
            (Form::Choice(&["all", "metadata", "none"]), 1),
        ] {
            assert_eq!(form.parse(&form.print(value)), Ok(value), "{form:?}");
        }
    }

    #[test]
    fn a_bad_choice_names_the_good_ones() {
        let error = Form::Choice(&["all", "none"]).parse("some").unwrap_err();
        assert_eq!(error, "'some' is not one of all, none");
    }
}
