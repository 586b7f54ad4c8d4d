//! Bit mixing for ids that must always have the same value when they are computed again.

/// Mixes bits with the finalizer of `SplitMix64`: every bit of the input affects every bit of the output. The function
/// must never change, because run ids are stored.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}
