//! FLOOR 3: the only room that knows the whole chain.
