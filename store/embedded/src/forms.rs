//! The numbers of the forms that this store writes. What stands in a file says which number it has, and a build that does not know the
//! number refuses the file and says so. `docs/upgrading.md` says what a change of one asks for.

/// The data directory: which files there are, and which pairs are in `tree.redb` and in the log under which keys. It stands in `FORMAT`, and
/// is looked at before anything else: it speaks for everything in the directory that has no number of its own.
pub const DIRECTORY: u32 = 4;

/// Earlier forms that are read; a start writes the number of today and gives the values their checksums. In 3 the values in `tree.redb`
/// have no checksums, and in 2 no value stays in the log besides.
pub(crate) const DIRECTORY_BEFORE: [u32; 2] = [3, 2];

/// The segments of the log. It stands at the beginning of each.
pub const LOG: u32 = 1;

/// Heads and rows. It is the first byte of each.
pub const RECORDS: u8 = 1;

/// Archives: every file of one that is no copy. It stands in the first line of each.
pub const ARCHIVE: u32 = 1;
