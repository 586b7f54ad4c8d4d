//! Version numbers of the engine's stored and transmitted formats. `docs/upgrading.md` describes the steps for
//! changing one.

/// Format of the heads of runs: the engine's data in addition to the state of a run. Each head starts with this
/// byte.
pub const HEADS: u8 = 1;

/// Format of the service's own records: domains, types, schedules, secrets, nodes. It is not stored with them; the
/// version of the directory or table covers it.
pub const RECORDS: u32 = 1;

/// Format of task tokens, page seals and query ids. They do not contain it: a token of another format is refused
/// like a forged one, and its task becomes available again when it times out.
pub const TOKENS: u32 = 1;

/// Format of messages between nodes. Each message contains it. A node refuses messages with a higher number, and
/// the sender then treats it as unreachable.
pub const MESSAGES: u32 = 1;
