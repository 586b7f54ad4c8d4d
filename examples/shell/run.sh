#!/usr/bin/env bash
# Starts the decider and the runner, starts one workflow, and shows how it ended. Needs a running service.
set -euo pipefail
cd "$(dirname "$0")"
url=${BATON_URL:-http://127.0.0.1:7420}/v1/domains/default
# The decider and the runner each run in a separate process group, which is killed as a whole. Otherwise a poll could
# outlive its script, then take a task and lose it.
set -m
./decider.sh & decider=$!
./runner.sh & runner=$!
trap 'kill -- -$decider -$runner 2>/dev/null' EXIT
id=shell-$$
curl -sf "$url/workflows" -H 'content-type: application/json' \
  -d "{\"workflowId\": \"$id\", \"workflowType\": \"greeting\", \"taskList\": \"shell\", \"input\": {\"name\": \"${1:-Ada}\"}}"
echo
curl -sf "$url/workflows/$id/result" -H 'Prefer: wait=20'
echo
curl -sf "$url/workflows/$id/history" | jq -r '.events[] | "\(.id)\t\(.type)"'
