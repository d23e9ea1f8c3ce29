// SPDX-License-Identifier: Apache-2.0
//! `#[derive(Section)]`: the keys of a struct, their reader, and their defaults.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Path, Result, Type};

use crate::field::KeyField;

/// The implementations for the struct `input`.
pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(input.span(), "Section is derived for structs"));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new(input.span(), "a section needs named fields"));
    };
    if !input.generics.params.is_empty() {
        return Err(Error::new(
            input.generics.span(),
            "a section has no parameters",
        ));
    }
    let options = Options::new(input)?;
    let fields: Vec<KeyField> = fields
        .named
        .iter()
        .map(KeyField::new)
        .collect::<Result<_>>()?;
    let name = &input.ident;
    let specs: Vec<TokenStream> = fields.iter().map(KeyField::specs).collect::<Result<_>>()?;
    let also = &options.also;
    let idents: Vec<_> = fields.iter().map(|field| &field.ident).collect();
    let readers = fields.iter().map(KeyField::reader);
    let checks = options.checks.iter();
    let default = options.default.then(|| default_of(input));
    Ok(quote! {
        #[automatically_derived]
        impl ::jetwatch_config::Section for #name {
            const KEYS: &'static [::jetwatch_config::KeySpec] = {
                const PARTS: &[&[::jetwatch_config::KeySpec]] = &[
                    #(#specs,)*
                    #(<#also as ::jetwatch_config::Section>::KEYS,)*
                ];
                const ALL: [::jetwatch_config::KeySpec; ::jetwatch_config::count_keys(PARTS)] =
                    ::jetwatch_config::join_keys(PARTS);
                &ALL
            };

            fn from_map(map: &::jetwatch_config::Map<'_>) -> ::core::option::Option<Self> {
                // Every key is read before the first absence ends the reading, so that all problems are reported.
                #(let #idents = #readers;)*
                // These keys have no field; checks read them again.
                #(let _ = <#also as ::jetwatch_config::Section>::from_map(map);)*
                #(#checks(map);)*
                ::core::option::Option::Some(Self { #(#idents: #idents?,)* })
            }
        }

        #default
    })
}

fn default_of(input: &DeriveInput) -> TokenStream {
    let name = &input.ident;
    quote! {
        const _: () = ::jetwatch_config::assert_all_optional(
            <#name as ::jetwatch_config::Section>::KEYS,
        );

        #[automatically_derived]
        impl ::core::default::Default for #name {
            fn default() -> Self {
                ::jetwatch_config::defaults()
            }
        }
    }
}

/// What `#[section(…)]` says of the whole struct.
#[derive(Default)]
struct Options {
    also: Vec<Type>,
    checks: Vec<Path>,
    default: bool,
}

impl Options {
    fn new(input: &DeriveInput) -> Result<Self> {
        let mut options = Self::default();
        for attribute in &input.attrs {
            if !attribute.path().is_ident("section") {
                continue;
            }
            attribute.parse_nested_meta(|meta| {
                match meta.path.require_ident()?.to_string().as_str() {
                    "also" => options.also.push(meta.value()?.parse()?),
                    "check" => options.checks.push(meta.value()?.parse()?),
                    "default" => options.default = true,
                    _ => return Err(meta.error("no attribute of a section")),
                }
                Ok(())
            })?;
        }
        Ok(options)
    }
}
