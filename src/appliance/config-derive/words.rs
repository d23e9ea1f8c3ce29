// SPDX-License-Identifier: Apache-2.0
//! `#[derive(Words)]`: the words of an enum, which are its variants in lower case unless `#[word = "…"]` gives another.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Expr, ExprLit, Fields, Lit, Meta, Result, Variant};

/// The implementations for the enum `input`.
pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Enum(data) = &input.data else {
        return Err(Error::new(input.span(), "Words is derived for enums"));
    };
    let name = &input.ident;
    let mut variants = Vec::new();
    let mut words = Vec::new();
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new(variant.span(), "a word has no fields"));
        }
        variants.push(&variant.ident);
        words.push(word_of(variant)?);
    }
    Ok(quote! {
        #[automatically_derived]
        impl #name {
            /// Its word in the file.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    #(Self::#variants => #words,)*
                }
            }
        }

        #[automatically_derived]
        impl ::jetwatch_config::KeyValue for #name {
            const TYPE: ::jetwatch_config::ValueType =
                ::jetwatch_config::ValueType::Words(&[#(#words),*]);

            fn read(map: &::jetwatch_config::Map<'_>, name: &str) -> ::core::option::Option<Self> {
                map.choice(name, &[#(Self::#variants),*])
            }
        }
    })
}

fn word_of(variant: &Variant) -> Result<String> {
    for attribute in &variant.attrs {
        if !attribute.path().is_ident("word") {
            continue;
        }
        if let Meta::NameValue(pair) = &attribute.meta
            && let Expr::Lit(ExprLit {
                lit: Lit::Str(word),
                ..
            }) = &pair.value
        {
            return Ok(word.value());
        }
        return Err(Error::new(attribute.span(), "expected #[word = \"…\"]"));
    }
    Ok(variant.ident.to_string().to_lowercase())
}
