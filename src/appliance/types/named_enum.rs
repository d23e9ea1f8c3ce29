// SPDX-License-Identifier: Apache-2.0
//! [`named_enum!`](crate::named_enum): enums whose variants have names in messages, reports or files.

/// Declares an enum and the name of each variant beside it. The function behind it gives the name; another name there adds the
/// function that finds a variant by its name. `ALL` are the variants in order.
///
/// ```
/// jetwatch_types::named_enum! {
///     /// A light.
///     #[derive(Debug, Clone, Copy, PartialEq)]
///     pub enum Light {
///         /// Traffic stops.
///         Red = "red",
///         /// Traffic goes.
///         Green = "green",
///     }
///
///     /// The name in messages.
///     pub fn name, from_name;
/// }
///
/// assert_eq!(Light::ALL.map(Light::name), ["red", "green"]);
/// assert_eq!(Light::from_name("green"), Some(Light::Green));
/// ```
#[macro_export]
macro_rules! named_enum {
    (
        $(#[$of_enum:meta])*
        $vis:vis enum $type:ident {
            $($(#[$of_variant:meta])* $variant:ident = $name:literal,)+
        }

        $(#[$of_method:meta])*
        $method_vis:vis fn $method:ident $(, $find:ident)?;
    ) => {
        $(#[$of_enum])*
        $vis enum $type {
            $($(#[$of_variant])* $variant,)+
        }

        impl $type {
            /// All variants, in order.
            $method_vis const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            $(#[$of_method])*
            #[must_use]
            $method_vis const fn $method(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            $(
                /// The variant with this name.
                #[must_use]
                $method_vis fn $find(name: &str) -> Option<Self> {
                    Self::ALL.into_iter().find(|one| one.$method() == name)
                }
            )?
        }
    };
}
