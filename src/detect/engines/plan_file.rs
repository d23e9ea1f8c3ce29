//! What a file that is said to be an engine is, without loading it.
