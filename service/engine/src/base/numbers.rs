//! Version numbers of the engine's stored formats and of its messages. `docs/upgrading.md` describes how to change
//! them.

/// Format of the engine's own data in the heads of runs. The state of a run, which is also in the head, has a separate
/// format number. Each head starts with this byte.
pub const HEADS: u8 = 1;

/// Format of the service's own records: domains, types, schedules, secrets and nodes. The records do not contain the
/// number, because the version of the store's directory or table covers it.
pub const RECORDS: u32 = 1;

/// Format of task tokens, page tokens and query ids. Tokens and ids do not contain this number. A token of another
/// format fails verification like a forged token, and its task is handed out again when it times out.
pub const TOKENS: u32 = 1;

/// Format of messages between nodes. Each message contains the number. A node refuses messages with a higher number
/// than its own, and the sender then treats that node as unreachable.
pub const MESSAGES: u32 = 1;
