//! Numbers of the file formats ("forms") that this version of Baton writes. Each file contains the number of its form.
//! A build that does not know the number refuses the file with an error. `docs/upgrading.md` explains how to change a
//! form.

/// Form of the data directory: its files, the key-value pairs in `tree.redb` and in the log, and everything that has no
/// separate number. It is recorded in `FORMAT`, and checked before anything else is read.
pub const DIRECTORY: u32 = 4;

/// Earlier forms that this version of Baton can read. When a store with such a form is opened, the current number is
/// recorded, and checksums are added to the values. In form 3, values in `tree.redb` have no checksums. Form 2 is like
/// form 3, but no values stay in the log.
pub(crate) const DIRECTORY_BEFORE: [u32; 2] = [3, 2];

/// Form of the log segments. It is recorded at the beginning of each segment.
pub const LOG: u32 = 1;

/// Form of heads and rows. It is recorded in the first byte of each.
pub const RECORDS: u8 = 1;
