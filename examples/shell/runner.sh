#!/usr/bin/env bash
# A runner in shell: greets whoever the input names. Needs curl and jq. BATON_URL says where the service is.
set -euo pipefail
url=${BATON_URL:-http://127.0.0.1:7420}/v1
poll='' attempt=1 polls=0
while true; do
  # A poll whose answer is lost is repeated under its id: the task that was started for it comes again.
  if [ -z "$poll" ] || [ $attempt -gt 32 ]; then poll=$$-$RANDOM-$RANDOM-$((polls += 1)) attempt=1; fi
  task=$(curl -sf "$url/domains/default/task-lists/shell/activity/poll" -H 'Prefer: wait=60' -H 'content-type: application/json' \
    -d "{\"pollId\": \"$poll\", \"attempt\": $attempt}") || { attempt=$((attempt + 1)); sleep 1; continue; }
  poll=''
  [ -n "$task" ] || continue # nothing came
  curl -sf "$url/activity-tasks/$(jq -r .token <<<"$task")/success" -H 'content-type: application/json' \
    -d "$(jq -c '{result: "Hello, \(.input.name // "stranger")!"}' <<<"$task")" >/dev/null || echo "an answer was refused" >&2
done
