//! The number of the form that this store writes. `docs/upgrading.md` says what a change of it asks for.

/// The table: its keys, its indexes, and which attributes items have. It stands in the item that says how the table is divided, and is looked
/// at before anything else: it speaks for everything in the table that has no number of its own.
pub const TABLE: u64 = 2;
