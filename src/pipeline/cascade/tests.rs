//! Tests of the follower's side of the cascade.
