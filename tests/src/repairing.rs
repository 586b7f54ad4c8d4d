//! An operator who has corrected the clocks. The operator confirms them to the service, and repairs deadlines that were
//! set while a clock was ahead.

use engine::{Refusal, RunRef};
use history::Author;
use history::event::OperatorAction;
use store::ListQuery;

use crate::world::{DOMAIN, World};

/// Confirms the clock and repairs deadlines as far as the service allows it. The rest is left for the next call.
pub(crate) async fn repair_all(world: &World) {
    let node = world.node();
    if node.guard().confirm().await.is_err() || !world.repairs {
        return;
    }
    let query = || ListQuery { domain: DOMAIN.into(), limit: 100, ..ListQuery::default() };
    let mut page = None;
    while let Ok(found) = node.repair().late_runs(query(), page.as_ref()).await {
        for late in found.runs {
            let started = &late.run.started;
            let (domain, workflow_id) = (DOMAIN.into(), started.workflow_id.as_str().into());
            let at = RunRef { domain, workflow_id, run_id: Some(started.run_id) };
            let operator = OperatorAction { identity: Some("operator".to_owned()), reason: None };
            match node.repair().repair(&at, operator, Author::default()).await {
                // Some nodes have not noticed yet that their clocks agree again.
                Err(Refusal::ClockSuspect { .. }) => return,
                Ok(done) => world.facts().repaired += done.late.deadlines.len(),
                Err(_) => {}
            }
        }
        page = found.next;
        if page.is_none() {
            return;
        }
    }
}
