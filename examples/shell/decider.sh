#!/usr/bin/env bash
# A decider in shell: greets once, then closes. Needs curl and jq. BATON_URL says where the service is.
set -euo pipefail
url=${BATON_URL:-http://127.0.0.1:7420}/v1
while true; do
  task=$(curl -sf -X POST "$url/domains/default/task-lists/shell/decider/poll" -H 'Prefer: wait=60') || { sleep 1; continue; }
  [ -n "$task" ] || continue # nothing came
  decisions=$(jq -c '
    if any(.events[]; .type == "ActivitySuccess")
    then [{type: "SucceedWorkflow", result: (.events | map(select(.type == "ActivitySuccess")) | last | .result)}]
    elif .previousStartedEventId == 0
    then [{type: "ScheduleActivity", activityId: "greet", activityType: "greet", input: .events[0].input}]
    else [] end' <<<"$task")
  curl -sf "$url/decider-tasks/$(jq -r .token <<<"$task")/complete" -H 'content-type: application/json' \
    -d "{\"decisions\": $decisions}" >/dev/null || echo "an answer was refused" >&2
done
