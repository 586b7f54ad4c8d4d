GET /
---
GET /healthz
---
GET /readyz
---
GET /metrics
---
GET /openapi.json
---
POST /v1/domains

{"name": "shop", "description": "what for", "retention": "P7D", "tags": {"team": "a"}}
---
# Twice.
POST /v1/domains

{"name": "shop"}
---
POST /v1/domains

{"name": ""}
---
POST /v1/domains

{"name": "shop", "color": "red"}
---
POST /v1/domains

not JSON
---
GET /v1/domains
---
GET /v1/domains/shop
---
GET /v1/domains/nowhere
---
PATCH /v1/domains/shop

{"description": null, "retention": "P1D"}
---
POST /v1/domains/shop/tags

{"add": {"stage": "test"}, "remove": ["team"]}
---
POST ./workflow-types

{"name": "order", "version": "1", "description": "ships", "defaults": {"taskList": "deciders", "executionTimeout": "PT1H", "deciderStartToClose": "PT30S"}}
---
POST ./workflow-types

{"name": "order", "version": "1"}
---
GET ./workflow-types
---
GET ./workflow-types?status=registered&limit=1
---
GET ./workflow-types/order%2F1
---
GET ./workflow-types/order%2F2
---
POST ./workflow-types/order%2F1/deprecate
---
POST ./workflows

{"workflowId": "w", "workflowType": "order/1"}
---
DELETE ./workflow-types/order%2F1
---
POST ./workflow-types

{"name": "order", "version": "2"}
---
POST ./workflow-types/order%2F2/deprecate
---
POST ./workflow-types/order%2F2/undeprecate
---
POST ./workflow-types/order%2F2/undeprecate
---
POST ./activity-types

{"name": "charge", "version": "1", "defaults": {"taskList": "runners", "timeouts": {"startToClose": "PT1M", "heartbeat": "PT10S"}}}
---
GET ./activity-types
---
GET ./activity-types/charge%2F1
---
POST ./activity-types/charge%2F1/deprecate
---
POST ./activity-types/charge%2F1/undeprecate
---
DELETE ./activity-types/charge%2F1
---
POST ./activity-types/charge%2F1/deprecate
---
DELETE ./activity-types/charge%2F1
---
POST /v1/domains/shop/deprecate
---
POST /v1/domains/shop/workflows

{"workflowId": "w", "workflowType": "order"}
---
POST /v1/domains/shop/undeprecate
---
POST /v1/domains/shop/undeprecate
---
DELETE /v1/domains/shop
---
POST /v1/domains/shop/deprecate
---
wait PT2M
---
DELETE /v1/domains/shop
---
DELETE /v1/domains/shop
---
GET /v1/nothing
---
PUT /v1/domains
