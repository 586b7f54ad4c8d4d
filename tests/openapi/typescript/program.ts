// Completes a run and reads its history. Uses the types that openapi-typescript generates from the document. tsc checks
// that the program fits the document, and running it checks that the service does.

import assert from "node:assert/strict";

import type { components, paths } from "./api.js";

type Schemas = components["schemas"];
type Event = Schemas["Event"];

const url = process.argv[2];

async function call<Answer>(method: string, path: string, body?: unknown): Promise<Answer> {
  const headers = { "content-type": "application/json", prefer: "wait=20" };
  const answer = await fetch(url + path, { method, headers, body: body === undefined ? null : JSON.stringify(body) });
  const text = await answer.text();
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
  return JSON.parse(text) as Answer;
}

/** Describes an event. Its type determines which fields exist. */
function told(event: Event): string {
  switch (event.type) {
    case "WorkflowStarted":
      return `${event.workflowType} on ${event.taskList}`;
    case "Signal":
      return `${event.name}: ${JSON.stringify(event.input)}`;
    case "ActivityScheduled":
      return `${event.activityId}, ${event.retry?.maximumAttempts} tries`;
    case "TimerScheduled":
      return `${event.timerId} after ${event.after}`;
    case "Marker":
      return event.name;
    case "WorkflowSuccess":
      return JSON.stringify(event.result);
    default:
      return "";
  }
}

const workflows = "/v1/domains/default/workflows";

const start: Schemas["StartWorkflow"] = { workflowId: "w", workflowType: "order", taskList: "orders", input: { n: 1 } };
await call<Schemas["Started"]>("POST", workflows, start);
const signal: Schemas["SignalWorkflow"] = { input: "now" };
await call<Schemas["Recorded"]>("POST", `${workflows}/w/signals/go`, signal);

type Poll = paths["/v1/domains/{domain}/task-lists/{list}/decider/poll"]["post"];
type Task = Poll["responses"]["200"]["content"]["application/json"];
const task = await call<Task>("POST", "/v1/domains/default/task-lists/orders/decider/poll", {});
const decisions: Schemas["Decision"][] = [
  { type: "ScheduleActivity", activityId: "a", activityType: "charge", retry: { maximumAttempts: 3 } },
  { type: "StartTimer", timerId: "t", after: "PT1H" },
  { type: "RecordMarker", name: "noted", details: [1, null, { deep: true }] },
  { type: "SucceedWorkflow", result: { total: 12 } },
];
// @ts-expect-error: a timer has no activity.
decisions satisfies [{ type: "StartTimer"; activityId: string }];
const answer: Schemas["CompleteTurn"] = { decisions };
await call<Schemas["Answered"]>("POST", `/v1/decider-tasks/${task.token}/complete`, answer);

const { events } = await call<Schemas["History"]>("GET", `${workflows}/w/history`);
const found = events.map((event) => [event.id, event.type, told(event)]);
for (const line of found) {
  console.log(line.join(" "));
}
assert.deepEqual(found, [
  [1, "WorkflowStarted", "order on orders"],
  [2, "DeciderScheduled", ""],
  [3, "Signal", 'go: "now"'],
  [4, "DeciderStarted", ""],
  [5, "DeciderCompleted", ""],
  [6, "ActivityScheduled", "a, 3 tries"],
  [7, "TimerScheduled", "t after PT1H"],
  [8, "Marker", "noted"],
  [9, "WorkflowSuccess", '{"total":12}'],
]);
console.log("1 passed, 0 failed");
