"""Extracts the programs from the page, starts them, and compares the resulting runs with the text of the page."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request

PAGE, PROGRAMS = sys.argv[1:]
URL = os.environ["BATON_URL"] + "/v1/domains/default/workflows"
PATIENCE = 60


def call(path="", body=None, wait=0):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Prefer": f"wait={wait}"}
    with urllib.request.urlopen(urllib.request.Request(URL + path, data, headers), timeout=wait + 30) as response:
        return json.load(response)


def start(workflow_id, order):
    body = {"workflowId": workflow_id, "workflowType": "order", "taskList": "python", "input": order}
    call("", body)


def result(workflow_id):
    ended = call(f"/{workflow_id}/result", wait=PATIENCE)
    assert ended["status"] != "open", ended
    return ended


def kinds(workflow_id):
    return [event["type"] for event in call(f"/{workflow_id}/history")["events"]]


def until(what, holds):
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"in vain: {what}"
        time.sleep(0.1)


def program(name):
    return subprocess.Popen([sys.executable, name], cwd=PROGRAMS, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})


def stop(process):
    process.terminate()
    process.wait()


def every_order_goes_as_the_page_says(prefix):
    start(f"{prefix}-good", {"amount": 12})
    start(f"{prefix}-dear", {"amount": 1001})
    start(f"{prefix}-canceled", {"amount": 12})
    call(f"/{prefix}-canceled/cancel", {})
    good = result(f"{prefix}-good")
    assert (good["status"], good["result"]) == ("success", {"receipt": "r-17", "parcel": "p-4"}), good
    history = kinds(f"{prefix}-good")
    assert history.count("ActivityScheduled") == 2 and history.count("TimerExpired") == 1, history
    assert "repeating" not in call(f"/{prefix}-good")
    dear = result(f"{prefix}-dear")
    assert (dear["status"], dear["reason"], dear["details"]) == ("failed", "charge-failed", "Declined"), dear
    assert result(f"{prefix}-canceled")["status"] == "canceled"
    start(f"{prefix}-wrong", {})
    until("the decider gives its turn back", lambda: "failing" in call(f"/{prefix}-wrong"))
    failing = call(f"/{prefix}-wrong")["failing"]
    assert (failing["reason"], failing["details"]) == ("KeyError", "'amount'"), failing
    call(f"/{prefix}-wrong/terminate", {})


with open(PAGE) as page:
    blocks = re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", page.read(), re.M | re.S)
os.makedirs(PROGRAMS)
for name, text in blocks:
    with open(os.path.join(PROGRAMS, name), "w") as file:
        file.write(text)
names = {name for name, _ in blocks}
assert names == {"baton.py", "runner.py", "order.py", "decider.py", "folding_decider.py"}, names

running = [program("runner.py"), program("decider.py")]
try:
    every_order_goes_as_the_page_says("full")
    # Each program can complete a run that the other one has begun.
    start("moved", {"amount": 12})
    until("the timer is set", lambda: "TimerScheduled" in kinds("moved"))
    stop(running.pop())
    running.append(program("folding_decider.py"))
    assert result("moved")["status"] == "success"
    assert kinds("moved").count("ActivityScheduled") == 2, kinds("moved")
    every_order_goes_as_the_page_says("windows")
    # The same with tasks of at most two events: histories have several pages, and windows lack their older events.
    for name, poll in [("decider.py", '"history": "full"'), ("folding_decider.py", '"identity": "folding_decider.py"')]:
        with open(os.path.join(PROGRAMS, name)) as file:
            text = file.read()
        assert text.count(poll) == 1, name
        with open(os.path.join(PROGRAMS, f"paged_{name}"), "w") as file:
            file.write(text.replace(poll, f'{poll}, "maxEvents": 2'))
        stop(running.pop())
        running.append(program(f"paged_{name}"))
        every_order_goes_as_the_page_says(f"paged-{name}")
    assert all(process.poll() is None for process in running), "a program has ended"
finally:
    for process in running:
        stop(process)
print("the decider in Python goes as it is written")
