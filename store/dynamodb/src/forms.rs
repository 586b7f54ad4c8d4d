//! Number of the format ("form") in which this version of Baton writes the table. `docs/upgrading.md` explains how to
//! change the form.

/// Form of the table: its keys, indexes and attributes, and everything else in the table that has no separate number.
/// It is recorded in the item with the table's options, and checked before the table is used.
pub const TABLE: u64 = 2;
