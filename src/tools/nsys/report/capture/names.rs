// SPDX-License-Identifier: Apache-2.0
//! Indices of threads and of range names, assigned while rows are read and resolved after the last row.

use foldhash::HashMap;
use jetwatch_telemetry::CATEGORY_OF_SOURCE;

use super::super::Result;
use super::super::interner::{Interner, position_or_push};
use super::super::schema::{Export, STRINGS, THREADS};
use super::Name;
use super::fields::for_each_row;

/// The texts of `StringIds`, each with its number.
#[derive(Debug)]
pub(super) struct StringTable {
    names: HashMap<i64, Name>,
}

/// The number of the text that stands for missing ones.
const UNKNOWN: Name = 0;

impl StringTable {
    /// Reads them all, and the list that the numbers point into.
    pub(super) fn read(export: &Export) -> Result<(Self, Vec<String>)> {
        let mut list = vec!["unknown".to_owned()];
        let mut names = HashMap::default();
        for_each_row(export, &STRINGS, "", |fields| {
            names.insert(fields.required(0)?, list.len() as Name);
            // Texts come from the profiled program; invalid UTF-8 is replaced.
            list.push(String::from_utf8_lossy(fields.text(1)?).into_owned());
            Ok(())
        })?;
        Ok((Self { names }, list))
    }

    /// The number of a text; that of `unknown` for a missing id.
    pub(super) fn name(&self, id: i64) -> Name {
        self.find(id).unwrap_or(UNKNOWN)
    }

    /// The number of a text, if it exists.
    pub(super) fn find(&self, id: i64) -> Option<Name> {
        self.names.get(&id).copied()
    }
}

/// What names a range: process, domain, and a registered text or one of its own, which has a negative number here.
#[derive(Debug, Default)]
pub(super) struct RangeNames {
    keys: Interner<(i64, i64, i64)>,
    own: HashMap<Vec<u8>, i64>,
    own_texts: Vec<String>,
}

/// Bits of a thread's number that name its process on its machine, as nsys compares them.
const PROCESS: i64 = 0x0000_ffff_ff00_0000;

impl RangeNames {
    /// A number for a range with a registered text.
    pub(super) fn registered(&mut self, global: i64, domain: i64, text: i64) -> u32 {
        self.keys.number((global & PROCESS, domain, text))
    }

    /// A number for a range with a text of its own.
    pub(super) fn inline(&mut self, global: i64, domain: i64, text: &[u8]) -> u32 {
        let id = match self.own.get(text) {
            Some(id) => *id,
            None => {
                let id = !(self.own_texts.len() as i64);
                self.own.insert(text.to_vec(), id);
                let text = String::from_utf8_lossy(text).into_owned();
                self.own_texts.push(text);
                id
            }
        };
        self.registered(global, domain, id)
    }

    /// Appends the names to `list` with their domains before them, as nsys writes them, equal ones once; returns the name of each number.
    pub(super) fn resolve(
        self,
        domains: &HashMap<(i64, i64), String>,
        texts: &StringTable,
        list: &mut Vec<String>,
    ) -> Vec<Name> {
        let mut known: HashMap<String, Name> = HashMap::default();
        let mut names = Vec::with_capacity(self.keys.keys.len());
        for (process, domain, text) in self.keys.keys {
            let text = match usize::try_from(!text) {
                Ok(own) => self.own_texts[own].clone(),
                Err(_) => list[texts.name(text) as usize].clone(),
            };
            let name = match domains.get(&(process, domain)) {
                Some(domain) => format!("{domain}:{text}"),
                None => text,
            };
            let next = list.len() as Name;
            let number = *known.entry(name.clone()).or_insert(next);
            if number == next {
                list.push(name);
            }
            names.push(number);
        }
        names
    }
}

/// NVTX categories: numbers of a program's own choice, and their names. jetwatch names those of sources `source:NAME`.
#[derive(Debug, Default)]
pub(super) struct Categories {
    names: HashMap<(i64, i64, i64), String>,
    numbers: Interner<(i64, i64, i64)>,
}

impl Categories {
    /// Keeps the name of a category.
    pub(super) fn named(&mut self, global: i64, domain: i64, category: i64, name: String) {
        let key = (global & PROCESS, domain, category);
        self.names.insert(key, name);
    }

    /// A number for a category, from 1; 0 beyond the 255th.
    pub(super) fn number(&mut self, global: i64, domain: i64, category: i64) -> u8 {
        let number = self.numbers.number((global & PROCESS, domain, category));
        u8::try_from(number + 1).unwrap_or(0)
    }

    /// Names of sources, the first of which stands for none, and the source of each number.
    pub(super) fn sources(self) -> (Vec<String>, Vec<u8>) {
        let mut sources = vec![String::new()];
        let mut of_category = vec![0];
        for key in self.numbers.keys.iter().take(usize::from(u8::MAX)) {
            let place = of_category.len();
            of_category.push(0);
            let name = self.names.get(key).map(String::as_str).unwrap_or_default();
            let Some(source) = name.strip_prefix(CATEGORY_OF_SOURCE) else {
                continue;
            };
            let index = position_or_push(&mut sources, source.to_owned());
            of_category[place] = u8::try_from(index).unwrap_or(0);
        }
        (sources, of_category)
    }
}

/// The part of a thread's number that domains are kept by.
pub(super) const fn process_of(global: i64) -> i64 {
    global & PROCESS
}

/// What the operating system calls threads, by nsys's numbers.
pub(super) fn system_names(
    export: &Export,
    texts: &StringTable,
    list: &[String],
) -> Result<HashMap<i64, String>> {
    let mut names = HashMap::default();
    if export.has(&THREADS) {
        for_each_row(export, &THREADS, "", |fields| {
            let (name, global) = (texts.find(fields.required(0)?), fields.optional(1)?);
            if let Some((name, global)) = name.zip(global) {
                names.insert(global, list[name as usize].clone());
            }
            Ok(())
        })?;
    }
    Ok(names)
}
