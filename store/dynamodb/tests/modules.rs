//! Unit tests of private modules, compiled into a test target with a name. `.ci/dynamodb` selects targets by name,
//! because features of dependencies would change with the selected packages.

#![allow(dead_code, missing_docs, clippy::pedantic, reason = "only the tests in these modules are used")]

#[path = "../src/attributes.rs"]
mod attributes;
#[path = "../src/item.rs"]
mod item;
#[path = "../src/keys.rs"]
mod keys;
#[path = "../src/packed.rs"]
mod packed;
#[path = "../src/units.rs"]
mod units;
