//! Bodies of the output of activities.

use history::bounded;
use history::limits::OUTPUT_CHUNKS_MAX;
use history::{EventId, Payload, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

bodies! {@request
    /// Output that a runner appends to its activity.
    AppendOutput {
        /// Chunks, oldest first: texts or other JSON values of at most 64 KiB each. At most 1,000.
        #[serde(default, deserialize_with = "bounded::list::<OUTPUT_CHUNKS_MAX, _, _>")]
        #[at_most(OUTPUT_CHUNKS_MAX)]
        chunks: Vec<Payload>,
        /// Number of chunks that this attempt has appended before. With it, the request can be repeated: chunks that
        /// have arrived before are not appended again. If the number is higher than the number of chunks that have
        /// arrived, the missing offsets are skipped.
        sequence: Option<u32>,
    }
}

answers! {
    /// The response to appended output.
    AppendedOutput {
        /// Id of the stream.
        stream: String,
        /// Offset of the next chunk.
        next: u64,
        /// True if the activity should stop.
        cancel_requested: bool,
        /// True if an operator has paused the activity or its run. The runner may continue and answer.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        paused: bool,
    }
    /// A chunk of an activity's output.
    OutputChunk {
        /// Position in the stream: 0, 1, 2, …
        offset: u64,
        /// Number of the attempt that appended the chunk.
        attempt: u32,
        /// Time at which the service received the chunk.
        at: Timestamp,
        /// Text or other JSON value. Absent for callers without permission to see payloads.
        #[serde(default, deserialize_with = "history::payload_present")]
        data: Option<Payload>,
    }
    /// The event that ended an activity. Both members are absent if the event could not be found.
    OutputEnd {
        /// Id of the event.
        event_id: Option<EventId>,
        /// Type of the event: the end of the activity, such as `ActivitySuccess`, or of its run.
        event: Option<String>,
    }
    /// Output of an activity, from an offset.
    ActivityOutput {
        /// Run id.
        run_id: Uuid,
        /// Event id of the activity's ActivityScheduled.
        scheduled_event_id: EventId,
        /// Id of the stream, to be sent when reading continues; absent if the activity has appended nothing. If the
        /// stream is lost and the activity appends again, the new stream has another id.
        stream: Option<String>,
        /// Offset of the oldest chunk that is kept. If it is higher than `from`, older chunks were dropped.
        first: u64,
        /// Chunks, oldest first. If an offset is missing, its chunk was lost.
        chunks: Vec<OutputChunk>,
        /// Value of `from` for the next page.
        next: u64,
        /// Present if the activity has ended and this is the last page.
        end: Option<OutputEnd>,
    }
}
