// SPDX-License-Identifier: Apache-2.0
//! Benchmarks of single parts, each a program of its own beside this file: `make bench BENCH=NAME`. Whole processes
//! are compared by `benches/scripts/`. A package of its own, so that neither the program nor its tests compile what only benchmarks need.
