//! Numbers of the file formats ("forms") that this store writes. Each file contains the number of its form. A build
//! that does not know the number refuses the file with an error. `docs/upgrading.md` explains how to change a form.

/// Form of the data directory: its files, and the pairs and keys in `tree.redb` and in the log. It is recorded in
/// `FORMAT` and checked before anything else; it applies to everything in the directory without a separate number.
pub const DIRECTORY: u32 = 4;

/// Earlier forms that can be read. A start writes the current number and adds checksums to the values. In form 3,
/// values in `tree.redb` have no checksums; in form 2, moreover, no value is kept in the log.
pub(crate) const DIRECTORY_BEFORE: [u32; 2] = [3, 2];

/// Form of the segments of the log, recorded at the beginning of each.
pub const LOG: u32 = 1;

/// Form of heads and rows, recorded in the first byte of each.
pub const RECORDS: u8 = 1;
