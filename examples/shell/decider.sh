#!/usr/bin/env bash
# A decider in shell with two steps. It schedules an activity that greets, then one that shouts the greeting, and then
# closes the run. Needs curl and jq. BATON_URL is the URL of the service.
set -euo pipefail
url=${BATON_URL:-http://127.0.0.1:7420}/v1
post() { curl -sf "$1" -H 'content-type: application/json' -H 'prefer: wait=60' -d @-; }

# Computes all decisions from the whole history.
program='
  def is_end: .type | IN("ActivitySuccess", "ActivityFailed", "ActivityTimedOut", "ActivityScheduledTimeout",
    "ActivityCanceled", "ActivityScheduleFailed");
  def step($id; $input; done):
    ([.events[] | select(.activityId == $id and is_end)] | last) as $last
    | if $last.type == "ActivitySuccess" then done
      elif $last != null then [{type: "FailWorkflow", reason: ($id + "-failed"), details: $last}]
      elif any(.events[]; .type == "ActivityScheduled" and .activityId == $id) then []
      else [{type: "ScheduleActivity", activityId: $id, activityType: $id, input: $input}] end;
  def result($id): last(.events[] | select(.type == "ActivitySuccess" and .activityId == $id)) | .result;
  if any(.events[]; .type == "WorkflowCancelRequested") then [{type: "CancelWorkflow"}]
  else step("greet"; .events[0].input; step("shout"; result("greet");
    [{type: "SucceedWorkflow", result: {greeting: result("greet"), shouted: result("shout")}}]))
  end'

poll='' attempt=1 polls=0
while true; do
  # A poll whose response is lost is repeated with the same id. It returns the turn that was started for the lost
  # response.
  if [ -z "$poll" ] || [ $attempt -gt 32 ]; then poll=$$-$RANDOM-$RANDOM-$((polls += 1)) attempt=1; fi
  # With `full`, the task contains the whole history. By default, it contains only the events since the last turn.
  task=$(printf '{"history": "full", "pollId": "%s", "attempt": %d}' "$poll" "$attempt" |
    post "$url/domains/default/task-lists/shell/decider/poll") || { attempt=$((attempt + 1)); sleep 1; continue; }
  poll=''
  [ -n "$task" ] || continue # no task
  turn=$url/decider-tasks/$(jq -r .token <<<"$task")
  # A long history is read in pages.
  while next=$(jq -e .next <<<"$task"); do
    page=$(curl -sf "$turn/history?after=$next") || continue 2
    task=$(jq -cs '{events: (.[0].events + .[1].events), next: .[1].next}' <<<"$task $page")
  done
  # If the program fails, gives the turn back, so that the run shows the reason at once instead of a timeout later.
  decisions=$(jq -c "$program" <<<"$task" 2>&1) || {
    jq -n --arg error "$decisions" '{reason: "jq", details: $error}' | post "$turn/fail" >/dev/null || true
    continue
  }
  post "$turn/complete" <<<"{\"decisions\": $decisions}" >/dev/null && continue
  echo "an answer was refused" >&2
  # The answer was too late, or a decision is not allowed. In the second case, the run shows the reason.
  post "$turn/fail" <<<'{"reason": "answer-refused"}' >/dev/null || true
done
