//! Wire tests.
