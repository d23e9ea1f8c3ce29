//! A YAML file as a tree that knows its lines.

/// A parsed file.
pub struct Document;

/// One value of the tree with its place.
pub struct Node;
