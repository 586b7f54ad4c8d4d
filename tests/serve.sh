# Sourced by tests that are programs in other languages. Starts a separate service on a free port, with a data directory
# that is removed at the end. If `BATON` is set, it is the path of the binary to use instead of the binary built here.
# Sets `BATON_URL` and `scratch`.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
scratch=$(mktemp -d)
service=
stop() {
    [ -z "$service" ] || { kill "$service" && wait "$service" || true; } 2>/dev/null
    rm -rf "$scratch"
}
trap stop EXIT

if [ -z "${BATON:-}" ]; then
    (cd "$root" && cargo build --quiet --locked -p baton-service --bin baton)
    BATON=${CARGO_TARGET_DIR:-$root/target}/debug/baton
fi

# Starts the service with additional options.
serve() {
    "$BATON" serve --listen 127.0.0.1:0 --port-file "$scratch/address" --data-dir "$scratch/data" --log warn "$@" &
    service=$!
    until [ -s "$scratch/address" ]; do
        kill -0 "$service" 2>/dev/null || { echo "the service ended early" >&2; exit 1; }
        sleep 0.1
    done
    BATON_URL=http://$(cat "$scratch/address")
    export BATON_URL
}
