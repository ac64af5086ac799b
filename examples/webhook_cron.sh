#!/bin/sh
# A webhook on a timetable, in three calls: schedule it, see how its calls ended, delete it.
#
#   mainspring up                      # in another terminal
#   sh examples/webhook_cron.sh https://api.example.com/hook
#
# No Python is needed where this runs. The first argument is the address that is called, the second the rule with seconds
# (here: every five minutes), the third the service. With a key, set KEY.
set -eu
HOOK=${1:?the address to call}
RULE=${2:-0 */5 * * * *}
SERVICE=${3:-http://localhost:3000}

call() { curl -fsS ${KEY:+-H "Authorization: Bearer $KEY"} -H 'Content-Type: application/json' "$@"; }

ANSWER=$(call -X POST "$SERVICE/api/jobs" -d "{
  \"schedule\": \"$RULE\", \"timezone\": \"Europe/Berlin\",
  \"endpoint\": \"$HOOK\", \"body\": {\"at\": \"{{timestamp}}\"}, \"retryAttempts\": 3
}")
ID=$(echo "$ANSWER" | sed 's/.*"jobId" *: *"\([^"]*\)".*/\1/')
echo "scheduled $ID"

echo "waiting for the first call to succeed, by the rule $RULE; its attempts: $SERVICE/api/jobs/$ID/executions" >&2
until call "$SERVICE/api/jobs/$ID/executions?limit=1" | grep -o '"status" *: *"success"'; do
  sleep 1
done

call -X DELETE "$SERVICE/api/jobs/$ID" > /dev/null
echo "deleted $ID"
