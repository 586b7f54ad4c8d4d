"""Stand-ins for `docker` and `systemctl`, with the functions that docs/install.md needs. They start the processes
that the files of service/packaging describe, as the specified users but without isolation. The first argument is the
name of the program. The directory STAND_IN has the state of running processes."""

import json
import os
import pwd
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STATE = Path(os.environ["STAND_IN"])
UNITS = Path("/etc/systemd/system")
# Time limit for anything to become ready or to end, in seconds.
WAIT = 60


def fail(why):
    sys.exit(f"{sys.argv[1]} (stand-in): {why}")


def wait_for(what, is_there):
    end = time.monotonic() + WAIT
    while not is_there():
        if time.monotonic() > end:
            fail(f"{what} takes more than {WAIT} s")
        time.sleep(0.05)


def start(name, argv, env, ids, before=()):
    """Starts a process that outlives this one, with exactly this environment. Its output goes to its log file."""
    uid, gid = ids
    with open(STATE / f"{name}.log", "ab") as log:
        as_user = dict(user=uid, group=gid, extra_groups=[], umask=0o077)
        process = subprocess.Popen(
            [*before, *argv], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True, **as_user
        )
    (STATE / f"{name}.pid").write_text(str(process.pid))
    return process


def pid(name):
    file = STATE / f"{name}.pid"
    return int(file.read_text()) if file.exists() else None


def is_running(name):
    try:
        return Path(f"/proc/{pid(name)}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def stop(name):
    """Sends SIGTERM and waits for the end of the process, which must log that it stopped in order."""
    if is_running(name):
        os.kill(pid(name), signal.SIGTERM)
        wait_for(f"the end of {name}", lambda: not is_running(name))
        if name != "dynamodb" and "stopped" not in log_of(name):
            fail(f"{name} did not stop in order: {log_of(name)}")
    (STATE / f"{name}.pid").unlink(missing_ok=True)


def log_of(name):
    return (STATE / f"{name}.log").read_text()


# --- docker


def dockerfile():
    """Returns the settings for containers in the last stage of the Dockerfile."""
    text = re.sub(r"\\\n", " ", (ROOT / "service/packaging/Dockerfile").read_text())
    found = {"ENV": {}}
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            found = {"ENV": {}}
        elif word == "ENV":
            found["ENV"] |= dict(entry.split("=", 1) for entry in shlex.split(rest))
        elif word == "HEALTHCHECK":
            found[word] = json.loads(rest.partition("CMD ")[2])
        elif word in ("ENTRYPOINT", "CMD"):
            found[word] = json.loads(rest)
        elif word in ("USER", "VOLUME", "EXPOSE"):
            found[word] = rest.strip()
    return found


IMAGE_ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


def container(command, env):
    image = dockerfile()
    ids = tuple(int(part) for part in image["USER"].split(":"))
    data = Path(image["VOLUME"])
    # The data directory of the image, or a volume initialized from it.
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chown(data, *ids)
    return image["ENTRYPOINT"] + (command or image["CMD"]), IMAGE_ENV | image["ENV"] | env, ids


def is_healthy(env):
    check = dockerfile()["HEALTHCHECK"]
    whole = IMAGE_ENV | dockerfile()["ENV"] | env
    return subprocess.run(check, env=whole, capture_output=True).returncode == 0


def docker(args):
    match args:
        case ["build", *options]:
            file = options[options.index("--file") + 1]
            (Path(file).is_file() and Path(options[-1], "Cargo.lock").is_file()) or fail(f"no {file} below {options[-1]}")
        case ["run", "--rm", "baton", *command]:
            argv, env, ids = container(command, {})
            sys.exit(subprocess.run(argv, env=env, user=ids[0], group=ids[1], extra_groups=[]).returncode)
        case ["run", "--detach", "--name", name, *options]:
            env, mounts = {}, []
            while options and options[0].startswith("--"):
                option = options.pop(0)
                if option == "--env":
                    env |= dict([options.pop(0).split("=", 1)])
                elif option == "--volume":
                    mounts.append(options.pop(0).split(":"))
                elif option == "--publish":
                    options.pop(0) == "127.0.0.1:7420:7420" or fail("another port than this machine's")
                elif option != "--read-only":
                    fail(f"unknown option {option}")
            for source, target, *_ in mounts:
                if source.startswith("/"):
                    Path(target).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(source, target)
                    os.chown(target, os.stat(source).st_uid, os.stat(source).st_gid)
                elif target != dockerfile()["VOLUME"]:
                    fail(f"{target} is no volume of the image")
            options[:1] == ["baton"] or fail(f"no image {options}")
            start(name, *container(options[1:], env))
            wait_for(f"{name}'s health", lambda: is_healthy(env) or not is_running(name))
        case ["exec", name, *command]:
            is_running(name) or fail(f"{name} does not run: {log_of(name)}")
            sys.exit(subprocess.run(command, env=IMAGE_ENV).returncode)
        case ["stop", name]:
            stop(name)
        case ["compose", "up", "--detach", "--wait", service]:
            project = json.loads(subprocess.check_output([os.environ["COMPOSE"], "compose.yaml"]))
            with open("/etc/hosts", "a") as hosts:
                hosts.writelines(f"127.0.0.1 {name}\n" for name in project["services"])
            compose_up(project, service)
        case ["compose", "down"]:
            for file in sorted(STATE.glob("*.pid")):
                stop(file.stem)
        case _:
            fail(f"not known here: {args}")


def compose_up(project, name):
    service = project["services"][name]
    for needed, how in service.get("depends_on", {}).items():
        compose_up(project, needed)
        if how["condition"] == "service_completed_successfully":
            wait_for(needed, lambda: not is_running(needed))
    if service["image"] != "baton":
        service["image"].startswith("amazon/dynamodb-local:") or fail(f"no image {service['image']}")
        start(name, [ROOT / ".ci/dynamodb-local", "8000"], dict(os.environ), (0, 0))
        check = service["healthcheck"]["test"]
        check[0] == "CMD" or fail("another health check")
        return wait_for(name, lambda: subprocess.run(check[1:], capture_output=True).returncode == 0)
    for config in service.get("configs", []):
        target = Path(config["target"])
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        target.write_text(project["configs"][config["source"]]["content"])
        os.chown(target, int(config["uid"]), int(config["gid"]))
        target.chmod(int(config["mode"], 8))
    argv, env, ids = container(service["command"], service["environment"])
    process = start(name, argv, env, ids)
    if service.get("healthcheck", {}).get("disable"):
        process.wait(WAIT) == 0 or fail(f"{name}: {log_of(name)}")
    else:
        wait_for(f"{name}'s health", lambda: is_healthy(service["environment"]) or not is_running(name))
        is_running(name) or fail(f"{name}: {log_of(name)}")


# --- systemctl


def unit(name):
    """Returns the keys of a unit and its drop-ins, each with its values in order."""
    found = {}
    for file in [UNITS / f"{name}.service", *sorted((UNITS / f"{name}.service.d").glob("*.conf"))]:
        for line in file.read_text().splitlines():
            key, is_one, value = line.partition("=")
            if line.startswith(("#", "[")) or not is_one:
                continue
            # An assignment without a value clears the earlier values of the key.
            found[key] = found.get(key, []) + [value] if value else []
    return found


def start_unit(name):
    found = unit(name)
    user = pwd.getpwnam(found["User"][-1])
    state = Path("/var/lib", found["StateDirectory"][-1])
    state.mkdir(mode=int(found["StateDirectoryMode"][-1], 8), exist_ok=True)
    os.chown(state, user.pw_uid, user.pw_gid)
    credentials = Path("/run/credentials", f"{name}.service")
    shutil.rmtree(credentials, ignore_errors=True)
    credentials.mkdir(parents=True)
    for entry in found.get("LoadCredential", []):
        given, _, source = entry.partition(":")
        shutil.copyfile(source, credentials / given)
        (credentials / given).chmod(0o400)
        os.chown(credentials / given, user.pw_uid, user.pw_gid)
    [line] = found["ExecStart"]
    argv = shlex.split(line.replace("%S", "/var/lib").replace("%d", str(credentials)))
    env = {"PATH": IMAGE_ENV["PATH"], "STATE_DIRECTORY": str(state), "CREDENTIALS_DIRECTORY": str(credentials)}
    traced = STATE / "calls"
    traced.mkdir(exist_ok=True)
    os.chown(traced, user.pw_uid, user.pw_gid)
    # Each start has a separate trace file, so that a restart keeps the calls of earlier processes.
    output = str(traced / f"{name}-{time.monotonic_ns()}")
    calls = ["strace", "--daemonize", "--follow-forks", "--quiet=all", "--output", output]
    found["Type"] == ["notify"] or fail("another way to say that it is ready")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        env["NOTIFY_SOCKET"] = str(STATE / "notify")
        Path(env["NOTIFY_SOCKET"]).unlink(missing_ok=True)
        told.bind(env["NOTIFY_SOCKET"])
        os.chown(env["NOTIFY_SOCKET"], user.pw_uid, user.pw_gid)
        told.settimeout(0.1)
        start(name, argv, env, (user.pw_uid, user.pw_gid), calls)

        def is_ready():
            try:
                return b"READY=1" in told.recv(4096).split(b"\n")
            except TimeoutError:
                is_running(name) or fail(f"{name} ended early: {log_of(name)}")

        wait_for(f"{name} to be ready", is_ready)


def systemctl(args):
    match args:
        case ["daemon-reload"]:
            pass
        case ["enable", "--now", name]:
            start_unit(name)
        case ["restart", name]:
            stop(name)
            start_unit(name)
        case ["reload", name]:
            [line] = unit(name)["ExecReload"]
            subprocess.run(shlex.split(line.replace("$MAINPID", str(pid(name)))), check=True)
        case ["stop", name]:
            stop(name)
        case _:
            fail(f"not known here: {args}")


if __name__ == "__main__":
    {"docker": docker, "systemctl": systemctl}[sys.argv[1]](sys.argv[2:])
