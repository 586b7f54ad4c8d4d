use super::*;

/// The first stored form. Services must be able to read it forever, so this text must never change.
const GOLDEN: &str = r#"{"format":1,"schedule":{"spec":{"cron":["30 2 * * MON-FRI"],"exclude":[{"month":"DEC"}],"timeZone":"Europe/Berlin","jitter":"PT5M"},"action":{"workflowId":"report","workflowType":"report","input":{"n": 1.0},"activityTimeouts":{}},"overlap":"buffer-one","catchUpWindow":"PT6H","pauseOnFailure":true,"remainingActions":7,"note":"n"},"createdAt":"2026-11-21T10:00:00.000Z","state":{"actions":2,"cursor":"2026-11-24T01:30:00.000Z","paused":["2026-11-24T01:31:00.000Z","why"],"remaining":5,"asked":[{"number":0,"nominal":"2026-11-20T01:30:00.000Z","cause":"backfill","overlap":"allow-all"}],"waiting":[{"number":0,"nominal":"2026-11-24T01:30:00.000Z","cause":"time"}],"starting":[{"number":2,"nominal":"2026-11-23T09:00:00.000Z","cause":"trigger","end":"canceled"}],"running":[{"number":1,"workflowId":"report-2026-11-23T01:30:00Z","runId":"01923456-789a-7bcd-8ef0-123456789abc","end":"terminated","isTold":true}],"recent":[{"number":1,"nominal":"2026-11-23T01:30:00.000Z","cause":"time","at":"2026-11-23T01:30:00.001Z","run":["report-2026-11-23T01:30:00Z","01923456-789a-7bcd-8ef0-123456789abc"],"outcome":"running"},{"number":2,"nominal":"2026-11-23T09:00:00.000Z","cause":"trigger","at":"2026-11-23T09:00:00.000Z","outcome":{"closed":"failed"},"closedAt":"2026-11-23T09:00:05.000Z"}],"counts":{"started":1,"refused":2,"skipped":3,"missed":4},"looks":1,"requests":["000000000000002a"]}}"#;

#[test]
fn a_stored_schedule_can_still_be_read_and_is_written_as_it_was() {
    let head = |body: &str| Head {
        run: [7; 16],
        version: 3,
        body: body.to_owned().into(),
        due: None,
        row: None,
        expires_at: None,
    };
    let record = ScheduleRecord::decode(&head(GOLDEN)).unwrap();
    assert_eq!(serde_json::to_string(&record).unwrap(), GOLDEN);
    let later = GOLDEN.replacen("\"format\":1", "\"format\":2", 1);
    let refused = ScheduleRecord::decode(&head(&later)).unwrap_err().to_string();
    assert!(refused.contains("format 2, this version of Baton reads 1"), "{refused}");
}
