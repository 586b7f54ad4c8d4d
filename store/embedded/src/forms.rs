//! The numbers of the forms that this store writes. What stands in a file says which number it has, and a build that does not know the
//! number refuses the file and says so. `docs/upgrading.md` says what a change of one asks for.

/// The data directory: which files there are, and which pairs are in `tree.redb` and in the log under which keys. It stands in `FORMAT`, and
/// is looked at before anything else: it speaks for everything in the directory that has no number of its own.
pub const DIRECTORY: u32 = 3;

/// The form before, in which all values are in `tree.redb`. It is read, too: a store of it is one in which no value stays in the log.
pub(crate) const DIRECTORY_BEFORE: u32 = 2;

/// The segments of the log. It stands at the beginning of each.
pub const LOG: u32 = 1;

/// Heads and rows. It is the first byte of each.
pub const RECORDS: u8 = 1;

/// Archives: every file of one that is no copy. It stands in the first line of each.
pub const ARCHIVE: u32 = 1;
