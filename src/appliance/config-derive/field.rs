// SPDX-License-Identifier: Apache-2.0
//! One field of a section: its attributes, and what follows from them.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, Expr, ExprLit, ExprRange, ExprUnary, Field, GenericArgument, Ident, Lit,
    LitStr, Meta, Path, PathArguments, RangeLimits, Result, Token, Type, UnOp, parenthesized,
};

/// One field with its attributes `#[key(…)]`.
pub(crate) struct KeyField {
    pub(crate) ident: Ident,
    ty: Type,
    about: String,
    name: Option<LitStr>,
    range: Option<ExprRange>,
    exclusive_min: bool,
    unit: Option<LitStr>,
    text: Option<Expr>,
    secret: bool,
    default: Option<Expr>,
    default_with: Option<Expr>,
    required: bool,
    check: Option<Path>,
    parse: Option<Path>,
    value: Option<Expr>,
    read: Option<Expr>,
    keys: Option<Type>,
    flatten: bool,
    no_key: bool,
    words: Vec<(LitStr, Path)>,
}

impl KeyField {
    /// Reads the attributes of `field`.
    pub(crate) fn new(field: &Field) -> Result<Self> {
        let Some(ident) = field.ident.clone() else {
            return Err(Error::new(field.span(), "a key needs a field with a name"));
        };
        let mut key = Self {
            ident,
            ty: field.ty.clone(),
            about: description(&field.attrs)?,
            name: None,
            range: None,
            exclusive_min: false,
            unit: None,
            text: None,
            secret: false,
            default: None,
            default_with: None,
            required: false,
            check: None,
            parse: None,
            value: None,
            read: None,
            keys: None,
            flatten: false,
            no_key: false,
            words: Vec::new(),
        };
        for attribute in &field.attrs {
            if attribute.path().is_ident("key") {
                key.parse_attribute(attribute)?;
            }
        }
        if key.is_one_key() && key.about.is_empty() {
            return Err(Error::new(
                field.span(),
                "a key needs a doc comment: it is its description",
            ));
        }
        Ok(key)
    }

    fn parse_attribute(&mut self, attribute: &Attribute) -> Result<()> {
        attribute.parse_nested_meta(|meta| {
            let word = meta.path.require_ident()?.to_string();
            match word.as_str() {
                "name" => self.name = Some(meta.value()?.parse()?),
                "range" => self.range = Some(meta.value()?.parse()?),
                "exclusive_min" => self.exclusive_min = true,
                "unit" => self.unit = Some(meta.value()?.parse()?),
                "text" => self.text = Some(meta.value()?.parse()?),
                "secret" => self.secret = true,
                "default" => self.default = Some(meta.value()?.parse()?),
                "default_with" => self.default_with = Some(meta.value()?.parse()?),
                "required" => self.required = true,
                "check" => self.check = Some(meta.value()?.parse()?),
                "parse" => self.parse = Some(meta.value()?.parse()?),
                "value" => self.value = Some(meta.value()?.parse()?),
                "read" => self.read = Some(meta.value()?.parse()?),
                "keys" => self.keys = Some(meta.value()?.parse()?),
                "flatten" => self.flatten = true,
                "no_key" => self.no_key = true,
                "words" => {
                    let content;
                    parenthesized!(content in meta.input);
                    let pairs = Punctuated::<(LitStr, Path), Token![,]>::parse_terminated_with(
                        &content,
                        |input| {
                            let word = Ident::parse_any(input)?;
                            input.parse::<Token![=]>()?;
                            let word = LitStr::new(&word.to_string(), word.span());
                            Ok((word, input.parse()?))
                        },
                    )?;
                    self.words = pairs.into_iter().collect();
                }
                _ => return Err(meta.error("no attribute of a key")),
            }
            Ok(())
        })
    }

    fn is_one_key(&self) -> bool {
        !self.flatten && !self.no_key && self.keys.is_none()
    }

    fn key_name(&self) -> String {
        self.name
            .as_ref()
            .map_or_else(|| self.ident.unraw().to_string(), LitStr::value)
    }

    /// The specifications of its keys: a slice expression.
    pub(crate) fn specs(&self) -> Result<TokenStream> {
        let ty = &self.ty;
        if self.no_key {
            return Ok(quote!(&[]));
        }
        if self.flatten {
            return Ok(quote!(<#ty as ::jetwatch_config::Section>::KEYS));
        }
        if let Some(keys) = &self.keys {
            return Ok(quote!(<#keys as ::jetwatch_config::Section>::KEYS));
        }
        let (name, about) = (self.key_name(), &self.about);
        let value = self.value_type()?;
        let default = self.default_value();
        Ok(quote! {
            &[::jetwatch_config::KeySpec::new(#name, #value, #default, #about)]
        })
    }

    fn value_type(&self) -> Result<TokenStream> {
        if let Some(value) = &self.value {
            return Ok(quote!(#value));
        }
        if !self.words.is_empty() {
            let words = self.words.iter().map(|(word, _)| word);
            return Ok(quote!(::jetwatch_config::ValueType::Words(&[#(#words),*])));
        }
        if self.secret {
            return Ok(quote!(::jetwatch_config::ValueType::Secret));
        }
        if let Some(form) = &self.text {
            let kind = match last_segment(&self.ty).is_some_and(|ident| ident == "Vec") {
                true => quote!(Texts),
                false => quote!(Text),
            };
            return Ok(quote!(::jetwatch_config::ValueType::#kind(#form)));
        }
        if let Some(range) = &self.range {
            let (Some(min), Some(max), RangeLimits::Closed(_)) =
                (&range.start, &range.end, &range.limits)
            else {
                return Err(Error::new(range.span(), "expected a range MIN..=MAX"));
            };
            if is_float(min) {
                let min_accepted = !self.exclusive_min;
                return Ok(quote! {
                    ::jetwatch_config::ValueType::Number {
                        min: #min,
                        min_accepted: #min_accepted,
                        max: #max,
                    }
                });
            }
            let unit = self.unit();
            return Ok(quote! {
                ::jetwatch_config::ValueType::Integer { min: #min, max: #max, unit: #unit }
            });
        }
        let ty = &self.ty;
        Ok(quote!(<#ty as ::jetwatch_config::KeyValue>::TYPE))
    }

    fn unit(&self) -> TokenStream {
        if let Some(unit) = &self.unit {
            return quote!(::jetwatch_config::Unit::Of(#unit));
        }
        let name = self.key_name();
        match last_segment(inner(&self.ty)).is_some_and(|ident| ident == "Duration") {
            true if name.ends_with("_ms") => quote!(::jetwatch_config::Unit::Milliseconds),
            true => quote!(::jetwatch_config::Unit::Seconds),
            false => quote!(::jetwatch_config::Unit::None),
        }
    }

    fn default_value(&self) -> TokenStream {
        let ty = &self.ty;
        if self.required {
            return quote!(::jetwatch_config::DefaultValue::Required);
        }
        let Some(default) = &self.default else {
            if self.default_with.is_some() {
                return quote!(::jetwatch_config::DefaultValue::Absent);
            }
            if self.parse.is_some() || self.check.is_some() || self.read.is_some() {
                // Its type need not be one that can be read, so only its form counts.
                return match is_option(ty) {
                    true => quote!(::jetwatch_config::DefaultValue::Absent),
                    false => quote!(::jetwatch_config::DefaultValue::Required),
                };
            }
            return match self.words.is_empty() {
                true => quote!(<#ty as ::jetwatch_config::KeyValue>::WHEN_ABSENT),
                false if is_option(ty) => quote!(::jetwatch_config::DefaultValue::Absent),
                false => quote!(::jetwatch_config::DefaultValue::Required),
            };
        };
        let is_number = self.range.as_ref().and_then(|range| range.start.as_deref());
        let kind = match (default, is_number) {
            (_, Some(min)) if is_float(min) => quote!(Number),
            (_, Some(_)) => quote!(Integer),
            (Expr::Lit(ExprLit { lit, .. }), None) => match lit {
                Lit::Bool(_) => quote!(Boolean),
                Lit::Int(_) => quote!(Integer),
                Lit::Float(_) => quote!(Number),
                _ => quote!(Text),
            },
            _ => quote!(Text),
        };
        quote!(::jetwatch_config::DefaultValue::#kind(#default))
    }

    /// The expression that reads it from `map`: an `Option`, `None` after a problem was recorded.
    pub(crate) fn reader(&self) -> TokenStream {
        let ty = &self.ty;
        if let Some(read) = &self.read {
            return quote!((#read)(map));
        }
        if self.flatten {
            return quote!(<#ty as ::jetwatch_config::Section>::from_map(map));
        }
        let name = self.key_name();
        let (base, is_bare) = if let Some(parse) = &self.parse {
            (quote!(map.parsed(#name, #parse)), true)
        } else if let Some(check) = &self.check {
            (quote!(map.checked(#name, #check)), true)
        } else if self.words.is_empty() {
            (
                quote!(<#ty as ::jetwatch_config::KeyValue>::read(map, #name)),
                false,
            )
        } else {
            let values = self.words.iter().map(|(_, value)| value);
            (quote!(map.choice(#name, &[#(#values),*])), true)
        };
        let base = match is_bare && is_option(ty) {
            true => quote!(map.optional(#name, || #base)),
            false => base,
        };
        match &self.default_with {
            Some(default) => quote! {
                if map.has(#name) { #base } else { ::core::option::Option::Some((#default)(map)) }
            },
            None => base,
        }
    }
}

/// The first paragraph of the doc comment, on one line.
fn description(attributes: &[Attribute]) -> Result<String> {
    let mut lines: Vec<String> = Vec::new();
    for attribute in attributes {
        if !attribute.path().is_ident("doc") {
            continue;
        }
        if let Meta::NameValue(pair) = &attribute.meta
            && let Expr::Lit(ExprLit {
                lit: Lit::Str(line),
                ..
            }) = &pair.value
        {
            let line = line.value().trim().to_owned();
            if line.is_empty() {
                break;
            }
            lines.push(line);
        } else {
            return Err(Error::new(Span::call_site(), "a description is plain text"));
        }
    }
    Ok(lines.join(" "))
}

fn is_float(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(ExprLit {
            lit: Lit::Float(_), ..
        }) => true,
        Expr::Unary(ExprUnary {
            op: UnOp::Neg(_),
            expr,
            ..
        }) => is_float(expr),
        _ => false,
    }
}

fn is_option(ty: &Type) -> bool {
    last_segment(ty).is_some_and(|ident| ident == "Option")
}

fn last_segment(ty: &Type) -> Option<&Ident> {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|segment| &segment.ident),
        _ => None,
    }
}

/// `T` of `Option<T>`, else the type itself.
fn inner(ty: &Type) -> &Type {
    if let Type::Path(path) = ty
        && let Some(segment) = path.path.segments.last()
        && segment.ident == "Option"
        && let PathArguments::AngleBracketed(arguments) = &segment.arguments
        && let Some(GenericArgument::Type(inner)) = arguments.args.first()
    {
        return inner;
    }
    ty
}
