#!/usr/bin/env bash
# A runner in shell: greets whoever the input names. Needs curl and jq. BATON_URL says where the service is.
set -euo pipefail
url=${BATON_URL:-http://127.0.0.1:7420}/v1
while true; do
  task=$(curl -sf -X POST "$url/domains/default/task-lists/shell/activity/poll" -H 'Prefer: wait=60') || { sleep 1; continue; }
  [ -n "$task" ] || continue # nothing came
  curl -sf "$url/activity-tasks/$(jq -r .token <<<"$task")/success" -H 'content-type: application/json' \
    -d "$(jq -c '{result: "Hello, \(.input.name // "stranger")!"}' <<<"$task")" >/dev/null || echo "an answer was refused" >&2
done
