//! From the located tree to the checked `Config`.
