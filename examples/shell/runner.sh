#!/usr/bin/env bash
# A runner in shell with two activities: it greets the person in the input, and shouts a text. Needs curl and jq.
# BATON_URL is the URL of the service.
set -euo pipefail
url=${BATON_URL:-http://127.0.0.1:7420}/v1
post() { curl -sf "$1" -H 'content-type: application/json' -H 'prefer: wait=60' -d @-; }
poll='' attempt=1 polls=0
while true; do
  # A poll whose response is lost is repeated with the same id. It returns the task that was started for the lost
  # response.
  if [ -z "$poll" ] || [ $attempt -gt 32 ]; then poll=$$-$RANDOM-$RANDOM-$((polls += 1)) attempt=1; fi
  task=$(printf '{"pollId": "%s", "attempt": %d}' "$poll" "$attempt" |
    post "$url/domains/default/task-lists/shell/activity/poll") || { attempt=$((attempt + 1)); sleep 1; continue; }
  poll=''
  [ -n "$task" ] || continue # no task
  activity=$url/activity-tasks/$(jq -r .token <<<"$task")
  success=$(jq -c '
    if .activityType == "greet" then {result: "Hello, \(.input.name // "stranger")!"}
    elif .activityType == "shout" then {result: (.input | ascii_upcase)}
    else error("unknown activity type \(.activityType)") end' <<<"$task" 2>&1) || {
    jq -n --arg error "$success" '{reason: "jq", details: $error}' | post "$activity/failure" >/dev/null || true
    continue
  }
  post "$activity/success" <<<"$success" >/dev/null || echo "an answer was refused" >&2
done
