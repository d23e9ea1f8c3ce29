//! Figures by hand.
