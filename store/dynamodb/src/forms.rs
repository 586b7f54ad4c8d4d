//! Number of the form that this store writes. `docs/upgrading.md` explains how to change it.

/// Form of the table: its keys, indexes and attributes. It is recorded in the item with the table's layout and checked
/// before anything else; it applies to everything in the table without a separate number.
pub const TABLE: u64 = 2;
