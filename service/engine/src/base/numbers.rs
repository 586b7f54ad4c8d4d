//! The numbers of the forms that the engine writes and says. `docs/upgrading.md` says what a change of one asks for.

/// Heads of runs: what the engine keeps beside the state of a run. It is the first byte of each.
pub const HEADS: u8 = 1;

/// The service's own records: domains, types, schedules, secrets, nodes. It stands nowhere: that of the directory or of the table speaks
/// for it.
pub const RECORDS: u32 = 1;

/// Tokens of tasks, seals of pages and ids of queries. It stands nowhere: a token of another form is refused as any that was not made here,
/// and its task comes back when it times out.
pub const TOKENS: u32 = 1;

/// What nodes say to each other. Each message says which it has; a node refuses those with a higher one, and whoever hears that goes on as
/// with a node that cannot be reached.
pub const MESSAGES: u32 = 1;
