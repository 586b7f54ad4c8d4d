POST ./schedules

{"scheduleId": "daily", "schedule": {"spec": {"cron": ["0 3 * * *"], "timeZone": "Europe/Berlin", "jitter": "PT5S"}, "action": {"workflowId": "w", "workflowType": "t", "taskList": "l"}, "overlap": "skip", "note": "n"}}
---
POST ./schedules

{"scheduleId": "daily", "schedule": {"spec": {"cron": ["0 3 * * *"]}, "action": {"workflowId": "w", "workflowType": "t"}}}
---
POST ./schedules

{"scheduleId": "bad", "schedule": {"spec": {"cron": ["61 3 * * *"]}, "action": {"workflowId": "w", "workflowType": "t"}}}
---
POST ./schedules

{"scheduleId": "bad", "schedule": {"spec": {}, "action": {"workflowId": "w", "workflowType": "t"}}}
---
GET ./schedules
---
GET ./schedules/daily
---
GET ./schedules/none
---
GET ./schedules/daily/next?limit=3
---
PUT ./schedules/daily

{"spec": {"intervals": [{"every": "PT1H", "phase": "PT1M"}], "calendars": [{"hour": "1-5/2", "dayOfWeek": "mon"}], "exclude": [{"month": "dec"}]}, "action": {"workflowId": "w", "workflowType": "t", "taskList": "l"}, "overlap": "buffer-one"}
---
POST ./schedules/daily/pause

{"reason": "r"}
---
POST ./schedules/daily/trigger

{}
---
wait PT1S
---
GET ./workflows
---
POST ./schedules/daily/resume

{}
---
wait PT2H
---
GET ./schedules/daily
---
POST ./schedules/daily/backfill

{"from": "2023-11-01T00:00:00Z", "to": "2023-11-01T03:00:00Z", "overlap": "allow-all"}
---
wait PT1S
---
GET ./schedules/daily
---
POST ./schedules/daily/backfill

{"from": "2023-11-02T00:00:00Z", "to": "2023-11-01T03:00:00Z"}
---
DELETE ./schedules/daily
---
DELETE ./schedules/daily
