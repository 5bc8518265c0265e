//! `kstats!`: rows of statistics.

/// Whether a statistic only grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KstatForm {
    /// Only grows: rates make sense.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// One statistic: its name, form and what it means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KstatRow {
    /// Full name, such as `arc.hits`.
    pub name: &'static str,
    /// Counter or gauge.
    pub form: KstatForm,
    /// One line.
    pub doc: &'static str,
}

/// One statistic with its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// What it is.
    pub row: &'static KstatRow,
    /// Its value.
    pub value: u64,
}

/// A struct made by [`kstats!`](crate::kstats).
pub trait Kstats: Send + Sync {
    /// The rows, in order of declaration.
    fn rows(&self) -> &'static [KstatRow];
    /// The present values, in the same order.
    fn samples(&self) -> Vec<Sample>;
}

/// Declares a struct of statistics.
///
/// ```
/// arcwell_base::kstats! {
///     /// What a shop counts.
///     pub struct ShopStats {
///         /// Customers that came in.
///         "shop.customers": customers, Counter;
///         /// Customers that are inside.
///         "shop.inside": inside, Gauge;
///     }
/// }
/// # use arcwell_base::table::Kstats;
/// let stats = ShopStats::default();
/// stats.customers.add(1);
/// stats.inside.set(1);
/// assert_eq!(stats.samples()[0].value, 1);
/// assert_eq!(stats.rows()[1].name, "shop.inside");
/// ```
#[macro_export]
macro_rules! kstats {
    (
        $(#[$outer:meta])*
        pub struct $table:ident {
            $( #[doc = $doc:literal] $name:literal : $field:ident, $form:ident; )*
        }
    ) => {
        $(#[$outer])*
        #[derive(Debug, Default)]
        pub struct $table {
            $( #[doc = $doc] pub $field: $crate::table::$form, )*
        }

        impl $table {
            /// The rows, in order of declaration.
            pub const ROWS: &'static [$crate::table::KstatRow] = &[
                $( $crate::table::KstatRow {
                    name: $name,
                    form: $crate::table::KstatForm::$form,
                    doc: $doc.trim_ascii(),
                }, )*
            ];
        }

        impl $crate::table::Kstats for $table {
            fn rows(&self) -> &'static [$crate::table::KstatRow] {
                Self::ROWS
            }

            fn samples(&self) -> Vec<$crate::table::Sample> {
                let values = [$( self.$field.value(), )*];
                Self::ROWS.iter().zip(values)
                    .map(|(row, value)| $crate::table::Sample { row, value })
                    .collect()
            }
        }
    };
}
