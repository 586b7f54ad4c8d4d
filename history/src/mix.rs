//! What ids are made with that are always the same for the same thing.

/// The finalizer of `SplitMix64`: every bit of the input changes every bit of the output. Never changes: run ids are stored.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}
