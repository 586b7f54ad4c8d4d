//! Test of two concurrent rollouts over the same hosts.

use std::cell::RefCell;
use std::rc::Rc;

use baton_decider_kit::flow::Flow;
use baton_decider_kit::testing::{TestService, Work};
use baton_decider_kit::{Duration, Status};

use crate::flow::{Operation, Rollout, STEPS, operation, rollout};

#[test]
fn operations_on_a_host_never_overlap() {
    let mut service = TestService::new();
    service.decider("rollout", Flow::new(rollout));
    service.decider("operation", Flow::new(operation));
    let done = Rc::new(RefCell::new(Vec::new()));
    for step in STEPS {
        let done = Rc::clone(&done);
        service.activity(step, move |call| {
            let Operation { host, version } = call.input();
            done.borrow_mut().push((host, version, step));
            Work::success(&()).takes(Duration::from_secs(5))
        });
    }
    let hosts: Vec<String> = (1..=4).map(|number| format!("host-{number}")).collect();
    for version in ["1.4", "1.5"] {
        let rollout = Rollout { hosts: hosts.clone(), version: version.to_owned() };
        service.start("rollout", &format!("rollout-{version}"), &rollout);
    }
    let busy = ["1.4", "1.5"].map(|version| {
        let closed = service.finish(&format!("rollout-{version}"));
        assert_eq!(closed.status, Status::Success, "{:?}", closed.reason);
        closed.result::<usize>()
    });
    assert!(busy.iter().sum::<usize>() > 0, "no operation had to wait: {busy:?}");
    for host in hosts {
        let done = done.borrow();
        let here: Vec<_> = done.iter().filter(|(it, ..)| *it == host).collect();
        assert_eq!(here.len(), 2 * STEPS.len());
        for operation in here.chunks(STEPS.len()) {
            let (_, version, _) = operation[0];
            assert!(operation.iter().all(|(_, it, _)| it == version), "{operation:?}");
            assert!(operation.iter().map(|(.., step)| *step).eq(STEPS), "{operation:?}");
        }
    }
}
