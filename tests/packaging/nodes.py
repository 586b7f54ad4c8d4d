#!/usr/bin/env python3
"""Starts two nodes with the options and the environment of the Kubernetes manifest. Each has a separate address, and
the host name of its pod."""

import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
WORK = Path(sys.argv[1])
WAIT = 60
NODES = {"baton-0": "127.0.0.2", "baton-1": "127.0.0.3"}
# Replaces the IAM role and AWS: credentials, and the address of DynamoDB Local.
TABLE_ENV = {
    "AWS_ACCESS_KEY_ID": "local",
    "AWS_SECRET_ACCESS_KEY": "local",
    "BATON_ENDPOINT_URL": "http://127.0.0.1:8000",
}


def wait_for(what, is_there):
    end = time.monotonic() + WAIT
    while not is_there():
        assert time.monotonic() < end, f"{what} takes more than {WAIT} s"
        time.sleep(0.05)


objects = list(yaml.safe_load_all((ROOT / "service/packaging/kubernetes/baton.yaml").read_text()))


def named(kind, name="baton"):
    [found] = [it for it in objects if it["kind"] == kind and it["metadata"]["name"] == name]
    return found


stateful_set = named("StatefulSet")
spec = stateful_set["spec"]["template"]["spec"]
[container] = spec["containers"]
[port] = container["ports"]
fields = {"metadata.name": lambda pod: pod, "metadata.namespace": lambda _: "default"}

# Objects that refer to each other must use the same names.
labels = stateful_set["spec"]["template"]["metadata"]["labels"]
for kind, name in [("Service", "baton"), ("Service", "baton-nodes")]:
    service = named(kind, name)["spec"]
    assert service["selector"].items() <= labels.items(), name
    assert [(it["port"], it["targetPort"]) for it in service["ports"]] == [(7420, port["name"])], name
assert named("PodDisruptionBudget")["spec"]["selector"]["matchLabels"].items() <= labels.items()
assert stateful_set["spec"]["serviceName"] == "baton-nodes" and port["containerPort"] == 7420
assert spec["serviceAccountName"] == named("ServiceAccount")["metadata"]["name"]
mounts = {it["name"]: Path(it["mountPath"]) for it in container["volumeMounts"]}
assert set(mounts) == {it["name"] for it in spec["volumes"]}

# Files of the Secrets with the permissions that the kubelet sets: owned by root and readable by the group.
user, group = spec["securityContext"]["runAsUser"], spec["securityContext"]["fsGroup"]
secrets = {
    "baton-config": named("Secret", "baton-config")["stringData"],
    "baton-tls": {
        "tls.crt": (WORK / "nodes.crt").read_text(),
        "tls.key": (WORK / "nodes.key").read_text(),
        "ca.crt": (WORK / "ca.crt").read_text(),
    },
}


def write_secrets():
    for volume in spec["volumes"]:
        folder = mounts[volume["name"]]
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in secrets[volume["secret"]["secretName"]].items():
            file = folder / name
            file.unlink(missing_ok=True)
            file.write_text(text)
            os.chown(file, 0, group)
            file.chmod(volume["secret"]["defaultMode"])


def start(pod):
    env = {"PATH": os.environ["PATH"]} | TABLE_ENV
    for entry in container["env"]:
        source = entry.get("valueFrom")
        env[entry["name"]] = fields[source["fieldRef"]["fieldPath"]](pod) if source else entry["value"]
    args = [re.sub(r"\$\((\w+)\)", lambda name: env[name[1]], argument) for argument in container["args"]]
    assert "--listen=0.0.0.0:7420" in args
    args = [argument.replace("--listen=0.0.0.0", f"--listen={NODES[pod]}") for argument in args]
    log = open(WORK / f"{pod}.log", "wb")
    return subprocess.Popen(["baton", *args], env=env, user=user, group=group, extra_groups=[], stderr=log, cwd="/")


def log_of(pod):
    return (WORK / f"{pod}.log").read_text()


def curl(*args):
    whole = ["curl", "--silent", "--show-error", "--max-time", "40", "--cacert", WORK / "ca.crt", *args]
    return subprocess.run(whole, capture_output=True, text=True)


def url(pod):
    return f"https://{pod}.baton-nodes.default.svc:7420"


def passes(pod, probe):
    # Like the kubelet, connects by address and does not verify the certificate.
    get = probe["httpGet"]
    assert get["port"] == port["name"] and get["scheme"] == "HTTPS"
    return curl("--fail", "--insecure", f"https://{NODES[pod]}:{port['containerPort']}{get['path']}").returncode == 0


with open("/etc/hosts", "a") as hosts:
    hosts.writelines(f"{address} {pod}.baton-nodes.default.svc\n" for pod, address in NODES.items())

# The manifest contains an example credential, which the service must refuse.
write_secrets()
example = start("baton-0")
assert example.wait(WAIT) == 1 and "`ops`" in log_of("baton-0"), log_of("baton-0")

made = subprocess.run(["baton", "credential", "new", "ops", "--operator", "--print"], capture_output=True, text=True, check=True)
assert tomllib.loads(secrets["baton-config"]["baton.toml"])["credentials"][0].keys() == tomllib.loads(made.stdout)["credentials"][0].keys()
secrets["baton-config"]["baton.toml"] = made.stdout
secret = made.stderr.split("`: ")[1].strip()
write_secrets()

engine = subprocess.Popen([ROOT / ".ci/dynamodb-local", "8000"])
wait_for("DynamoDB Local", lambda: curl("http://127.0.0.1:8000").returncode == 0)
create = ["baton", "dynamodb", "create-table", "--table", "baton", "--region", "eu-west-1", "--unprotected"]
subprocess.run(create, env=os.environ | TABLE_ENV, check=True)
nodes = {pod: start(pod) for pod in NODES}
for pod, node in nodes.items():
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        wait_for(f"{probe} of {pod}", lambda: passes(pod, container[probe]) or node.poll() is not None)
        assert node.poll() is None, log_of(pod)
    assert "other users have access" not in log_of(pod), log_of(pod)

# A task that is created at one node is delivered to a poll that waits at another node.
bearer = ["--header", f"Authorization: Bearer {secret}", "--header", "content-type: application/json", "--fail-with-body"]
environment = os.environ | {"BATON_SECRET": secret, "BATON_CA_FILE": str(WORK / "ca.crt"), "BATON_URL": url("baton-0")}
took = []
for index in range(5):
    run = f"w-{index}"
    path = "/v1/domains/default/task-lists/l/decider/poll"
    poll = subprocess.Popen(
        ["curl", "--silent", "--cacert", WORK / "ca.crt", *bearer, "--request", "POST", "--header", "prefer: wait=30", url("baton-1") + path],
        stdout=subprocess.PIPE,
        text=True,
    )
    subprocess.run(["baton", "workflow", "start", run, "--type", "t", "--list", "l"], env=environment, check=True, stdout=subprocess.DEVNULL)
    began = time.monotonic()
    turn = poll.communicate(timeout=WAIT)[0]
    took.append(time.monotonic() - began)
    token = re.search(r'"token": *"([^"]+)"', turn)[1]
    body = '{"decisions": [{"type": "SucceedWorkflow", "result": "used"}]}'
    done = curl(*bearer, "--data", body, f"{url('baton-1')}/v1/decider-tasks/{token}/complete")
    assert done.returncode == 0, done
    result = subprocess.run(["baton", "workflow", "result", run], env=environment, check=True, capture_output=True, text=True)
    assert "used" in result.stdout, result
# If the nodes sent no messages to each other, the poll would find the task in the table only after five seconds.
assert sorted(took)[len(took) // 2] < 4, took

for pod, node in nodes.items():
    node.send_signal(signal.SIGTERM)
    assert node.wait(spec["terminationGracePeriodSeconds"]) == 0, log_of(pod)
    for line in log_of(pod).splitlines():
        assert '"level":"ERROR"' not in line and "certificate" not in line, line
engine.kill()
print("two nodes of the manifest take work, and tasks of each other")
