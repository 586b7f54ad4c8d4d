//! Tests of the SWF protocol with the AWS SDK.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod activities;
mod causes;
mod coverage;
mod decisions;
mod golden;
mod lambda;
mod limits;
mod lists;
mod operations;
mod runs;
mod signatures;
mod visibility;
