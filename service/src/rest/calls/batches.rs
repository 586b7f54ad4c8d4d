//! Calls for batches.

use client::body;

use super::super::batches;
use super::super::document::{CallTable, Doc};
use super::codes::NO_BATCH;
use crate::access::{CallEffect as E, Level as L};

pub(super) fn all<const DOC: bool>(calls: CallTable<DOC>) -> CallTable<DOC> {
    calls
        .get(
            "/v1/domains/{domain}/batches",
            L::Reader,
            batches::list,
            Doc::of("listBatches", "List batches, newest first")
                .answers::<body::Batches>(200, "Page of batches.")
                .refuses(400, &["bad-page"]),
        )
        .post(
            "/v1/domains/{domain}/batches",
            L::DomainOperator,
            E::Changes,
            batches::create,
            Doc::of("createBatch", "Create a batch: one operation on many runs")
                .answers::<body::DescribedBatch>(201, "The batch was created.")
                .answers::<body::BatchDryRun>(200, "Runs that the batch would select; nothing was changed (`dryRun`).")
                .refuses(409, &["limit-exceeded"]),
        )
        .get(
            "/v1/domains/{domain}/batches/{id}",
            L::Reader,
            batches::show,
            Doc::of("describeBatch", "Describe a batch with its progress and its first refusals")
                .answers::<body::DescribedBatch>(200, "The batch.")
                .refuses(404, NO_BATCH),
        )
        .delete(
            "/v1/domains/{domain}/batches/{id}",
            L::DomainOperator,
            E::Changes,
            batches::delete,
            Doc::of("deleteBatch", "Delete a stopped or completed batch; its runs are not affected")
                .answers::<serde_json::Map<String, serde_json::Value>>(200, "The batch was deleted.")
                .refuses(404, NO_BATCH)
                .refuses(409, &["batch-running"]),
        )
        .post(
            "/v1/domains/{domain}/batches/{id}/stop",
            L::DomainOperator,
            E::Changes,
            batches::stop,
            Doc::of("stopBatch", "Stop a batch; it can be resumed")
                .answers::<body::DescribedBatch>(200, "The batch.")
                .refuses(404, NO_BATCH)
                .refuses(409, &["batch-completed"]),
        )
        .post(
            "/v1/domains/{domain}/batches/{id}/resume",
            L::DomainOperator,
            E::Changes,
            batches::resume,
            Doc::of("resumeBatch", "Resume a stopped batch")
                .answers::<body::DescribedBatch>(200, "The batch.")
                .refuses(404, NO_BATCH)
                .refuses(409, &["batch-completed"]),
        )
        .put(
            "/v1/domains/{domain}/batches/{id}/pace",
            L::DomainOperator,
            E::Changes,
            batches::set_pace,
            Doc::of("changeBatchPace", "Change the pace of a batch")
                .answers::<body::DescribedBatch>(200, "The batch.")
                .refuses(404, NO_BATCH)
                .refuses(409, &["batch-completed"]),
        )
}
