#!/usr/bin/env bash
# Runs a function chain between two hosts and drives ping, HTTP and iperf3 through it.
#
#   testbed/edge.sh [--json] SUPERFLUID [FILE]        FILE: examples/edge.yaml
#   testbed/edge.sh --check                           only says what is missing
#
# The hosts are network namespaces without names inside a network and mount namespace of this script's own (and a user
# namespace, unless root calls it), so nothing is ever made on the machine itself:
#
#   client eth0 --- sf-lan  superfluid  sf-wan --- eth0 server
#   10.83.0.1                                      10.83.0.2
#
# EDGE_SECONDS: how long iperf3 runs in each direction, 5 by default. EDGE_JSON=1 is --json: one object at the end, in place of the table.
# EDGE_BESIDE: a command that runs beside superfluid, in the same namespaces, and is ready when the file EDGE_AWAITS is there. EDGE_ARGUMENTS: more arguments of `superfluid run`.
# Ends with 0, 1 when something did not pass, 3 when a program is missing, 130 when it was interrupted.
set -euo pipefail

readonly client_address=10.83.0.1 server_address=10.83.0.2
readonly seconds=${EDGE_SECONDS:-5}

usage() {
    sed -n '4,5p' "$0" | cut -c3- >&2
    exit 2
}

# Debian's python3-minimal has the program without this module.
python_serves() {
    python3 -c 'import http.server' >/dev/null 2>&1
}

# Stage one: what is needed, and namespaces of our own.
check() {
    local missing=() tool
    for tool in ip:iproute2 ping:iputils-ping curl:curl iperf3:iperf3 unshare:util-linux nsenter:util-linux setsid:util-linux \
        setpriv:util-linux awk:mawk mount:mount; do
        command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
    done
    if ! python_serves && ! { command -v busybox && busybox --list | grep -x httpd; } >/dev/null 2>&1; then
        missing+=(python3)
    fi
    if ((${#missing[@]})); then
        echo "missing; as root: apt-get install --no-install-recommends ${missing[*]}" >&2
        exit 3
    fi
    options=(--net --mount)
    ((EUID == 0)) || options=(--user --map-root-user "${options[@]}")
    if ! unshare "${options[@]}" true; then
        echo "namespaces are not allowed here; as root: sysctl -w kernel.unprivileged_userns_clone=1" \
            "(on Ubuntu: kernel.apparmor_restrict_unprivileged_userns=0)" >&2
        exit 3
    fi
}

enter_namespaces() {
    check
    EDGE_INSIDE=1 EDGE_JSON=$json exec unshare "${options[@]}" -- "$BASH" "$0" "$@"
}

# Everything started in the background; each also ends by itself when this script does, however that happens.
background=()
superfluid_pid=
beside_pid=
failures=0
split_screen=

in_background() {
    setpriv --pdeathsig KILL -- "$@" &
    background+=($!)
}

finish() {
    local status=$?
    trap - EXIT
    # One more Ctrl-C must not leave half of this undone.
    trap '' INT TERM HUP
    stop_superfluid || ((status != 0)) || status=1
    stop_beside
    join_screen
    local pid
    for pid in "${background[@]}"; do
        kill -KILL "$pid" 2>/dev/null || true
    done
    wait "${background[@]}" 2>/dev/null || true
    exit "$status"
}

# Asks superfluid to end, once, and waits for its account; true when it ended well.
stop_superfluid() {
    local pid=$superfluid_pid tries
    superfluid_pid=
    [[ -n $pid ]] || return 0
    kill -INT "$pid" 2>/dev/null || true
    for ((tries = 0; tries < 150; tries++)); do
        # A child that has ended stays visible until it is waited for.
        case $(cut -d' ' -f3 "/proc/$pid/stat" 2>/dev/null) in
        '' | Z) break ;;
        esac
        sleep 0.1
    done
    if ((tries == 150)); then
        echo "superfluid did not end within 15 s after SIGINT; it is killed" >&2
        kill -KILL "$pid" 2>/dev/null || true
    fi
    local status=0
    wait "$pid" 2>/dev/null || status=$?
    ((status == 0)) || echo "superfluid ended with status $status" >&2
    return "$status"
}

# What runs beside superfluid ends when it is asked to, and is killed where it does not.
stop_beside() {
    [[ -n $beside_pid ]] || return 0
    kill -TERM "$beside_pid" 2>/dev/null || true
    local tries
    for ((tries = 0; tries < 50; tries++)); do
        case $(cut -d' ' -f3 "/proc/$beside_pid/stat" 2>/dev/null) in
        '' | Z) break ;;
        esac
        sleep 0.1
    done
    beside_pid=
}

# On a terminal the upper lines are the script's and the rest is left to superfluid's table, as a scrolling region.
readonly reserved=7
row=0
divide_screen() {
    [[ -t 1 && ${TERM:-dumb} != dumb && -z $json ]] || return 0
    local size
    { size=$(stty size <&3 2>/dev/null); } 3>&1 || return 0
    rows=${size%% *} columns=${size##* }
    ((rows >= 20 && columns >= 40)) || return 0
    split_screen=1
    # Superfluid's table is to fit into what is left.
    export LINES=$((rows - reserved)) COLUMNS=$columns
    printf '\e[2J\e[%d;%dr\e[%d;1H' $((reserved + 1)) "$rows" $((reserved + 1))
}

# The whole screen again: what was asked stays on top, the account below.
join_screen() {
    [[ -n $split_screen ]] || return 0
    split_screen=
    # Setting the region moves the cursor.
    printf '\e7\e[r\e8'
}

# Lines of the upper part are cut at the edge: a second row would be the next line's.
say() {
    [[ -z $json ]] || return 0
    local text=$*
    if [[ -n $split_screen ]] && ((row < reserved - 1)); then
        row=$((row + 1))
        printf '\e7\e[%d;1H\e[2K%s\e8' "$row" "${text:0:columns}"
    else
        printf '%s\n' "$*"
    fi
}

# Text as a string of JSON.
quoted() {
    local text=${1//\\/\\\\}
    text=${text//\"/\\\"}
    printf '"%s"' "${text//[[:cntrl:]]/ }"
}

# step NAME COMMAND...: runs it and says its last line of output, or what went wrong.
results=()
step() {
    local name=$1 output ok=true
    shift
    output=$("$@" 2>&1) || ok=false
    output=${output##*$'\n'}
    results+=("{\"name\":$(quoted "$name"),\"ok\":$ok,\"result\":$(quoted "$output")}")
    if [[ $ok == true ]]; then
        say "$(printf '%-24s %s' "$name" "$output")"
    else
        failures=$((failures + 1))
        say "$(printf '%-24s FAILED: %s' "$name" "$output")"
    fi
}

# One object: what was asked, each with its result, and the account as `superfluid run --json` ends with it.
print_json() {
    local account joined
    account=$(tail -n 1 "$files/.output")
    [[ $account == '{"event":"final"'* ]] || account=null
    joined=$(IFS=,; printf '%s' "${results[*]}")
    printf '{"passed":%s,"steps":[%s],"account":%s}\n' "$(((failures)) && echo false || echo true)" "$joined" "$account"
}

in_host() {
    local host=$1
    shift
    nsenter --net="/proc/$host/ns/net" -- "$@"
}

# A host is a network namespace, kept by a process that does nothing.
make_host() {
    unshare --net -- setpriv --pdeathsig KILL -- sleep infinity &
    host_pid=$!
    background+=("$host_pid")
    local own tries
    own=$(readlink /proc/self/ns/net)
    for ((tries = 0; tries < 200; tries++)); do
        [[ $(readlink "/proc/$host_pid/ns/net") == "$own" ]] || return 0
        sleep 0.01
    done
    echo "a network namespace did not come to be" >&2
    return 1
}

quiet_interfaces() {
    # Without this the hosts speak IPv6 to themselves. Where it cannot be switched off that only adds a few packets.
    sh -c 'for file in /proc/sys/net/ipv6/conf/*/disable_ipv6; do echo 1 >"$file"; done' 2>/dev/null || true
}

make_network() {
    make_host && client=$host_pid
    make_host && server=$host_pid
    local host
    for host in "$client:sf-lan:$client_address" "$server:sf-wan:$server_address"; do
        IFS=: read -r pid name address <<<"$host"
        ip link add "$name" type veth peer name eth0 netns "$pid"
        in_host "$pid" sh -c "$(declare -f quiet_interfaces); quiet_interfaces"
        in_host "$pid" ip link set lo up
        in_host "$pid" ip link set eth0 up
        in_host "$pid" ip address add "$address/24" dev eth0
    done
    quiet_interfaces
    ip link set lo up
    ip link set sf-lan up
    ip link set sf-wan up
}

# The files to serve are in memory, in place of a directory that nothing here uses, and no other process can see them.
make_files() {
    local used
    used=$(realpath -- "$PWD" "$superfluid" "$file" 2>/dev/null || true)
    for files in /media /srv /mnt; do
        if [[ -d $files ]] && ! grep -Eq "^$files(/|$)" <<<"$used" && mount -t tmpfs tmpfs "$files"; then
            break
        fi
        files=
    done
    if [[ -z $files ]]; then
        echo "none of /media, /srv and /mnt can be mounted over" >&2
        return 1
    fi
    head -c 100 /dev/urandom >"$files/small"
    head -c 100000 /dev/urandom >"$files/medium"
    head -c 50000000 /dev/urandom >"$files/large"
}

start_servers() {
    if python_serves; then
        in_background nsenter --net="/proc/$server/ns/net" -- \
            python3 -m http.server 8080 --bind "$server_address" --directory "$files" >/dev/null 2>&1
    else
        in_background nsenter --net="/proc/$server/ns/net" -- \
            busybox httpd -f -p "$server_address:8080" -h "$files" >/dev/null 2>&1
    fi
    in_background nsenter --net="/proc/$server/ns/net" -- iperf3 --server --port 5201 >/dev/null 2>&1
}

# Superfluid is in a session of its own: a Ctrl-C on the terminal is for this script, which passes it on once.
start_superfluid() {
    local more beside tries
    read -ra more <<<"${EDGE_ARGUMENTS:-}"
    if [[ -n ${EDGE_BESIDE:-} ]]; then
        read -ra beside <<<"$EDGE_BESIDE"
        in_background setsid "${beside[@]}" >/dev/null
        beside_pid=$!
        for ((tries = 0; tries < 100; tries++)); do
            [[ ! -e ${EDGE_AWAITS:-/} ]] || break
            sleep 0.1
        done
    fi
    if [[ -n $json ]]; then
        setsid setpriv --pdeathsig KILL -- "$superfluid" run "$file" --json "${more[@]}" >"$files/.output" &
    else
        setsid setpriv --pdeathsig KILL -- "$superfluid" run "$file" --brief "${more[@]}" &
    fi
    superfluid_pid=$!
    for ((tries = 0; tries < 60; tries++)); do
        if in_host "$client" ping -c 1 -W 1 "$server_address" >/dev/null 2>&1; then
            return 0
        fi
        if [[ ! -d /proc/$superfluid_pid ]] || grep -q '^State:.Z' "/proc/$superfluid_pid/status"; then
            echo "superfluid ended before any packet passed" >&2
            return 1
        fi
        sleep 0.1
    done
    echo "no packet passed within a minute" >&2
    return 1
}

ping_step() {
    local output
    output=$(in_host "$client" ping -c 10 -i 0.2 -W 2 "$server_address") || {
        echo "${output##*$'\n'}"
        return 1
    }
    awk -F'[ ,/]+' '
        /packets transmitted/ { sent = $1; got = $4 }
        /^rtt/ { average = $8 }
        END { printf "%d of %d answered, round trip %.2f ms\n", got, sent, average; exit got != sent }' <<<"$output"
}

curl_step() {
    local name sum
    for name in small medium large; do
        sum=$(in_host "$client" curl --silent --show-error --fail --max-time 60 --noproxy '*' \
            "http://$server_address:8080/$name" | sha256sum) || return 1
        [[ $sum == "$(sha256sum <"$files/$name")" ]] || {
            echo "$name arrived with other contents"
            return 1
        }
    done
    echo "3 files, $(($(cat "$files"/* | wc -c) / 1000000)) MB, checksums equal"
}

# Between two tests the server closes the socket that it listens on, and resets what has just connected.
await_iperf_server() {
    local tries
    for ((tries = 0; tries < 50; tries++)); do
        [[ -n $(in_host "$server" ss -Htn state established '( sport = :5201 )') ]] || break
        sleep 0.1
    done
    sleep 0.2
}

iperf_step() {
    local output
    await_iperf_server
    output=$(in_host "$client" timeout --foreground $((seconds + 20)) \
        iperf3 --client "$server_address" --port 5201 --time "$seconds" --format m "$@") || {
        echo "${output##*$'\n'}"
        return 1
    }
    awk '/receiver/ { printf "%.2f Gbit/s\n", $7 / 1000; found = 1 } END { exit !found }' <<<"$output"
}

main() {
    superfluid=$1
    file=${2:-$(dirname "$0")/../examples/edge.yaml}
    trap finish EXIT
    trap 'exit 130' INT TERM HUP
    make_files
    make_network
    start_servers
    divide_screen
    say "client $client_address --- sf-lan [$(basename "$superfluid")] sf-wan --- server $server_address"
    start_superfluid
    step "ping" ping_step
    step "curl" curl_step
    step "iperf3 client to server" iperf_step
    step "iperf3 server to client" iperf_step --reverse
    # The account comes where the table was, below what was asked.
    stop_superfluid || failures=$((failures + 1))
    join_screen
    [[ -z $json ]] || print_json
    if ((failures)); then
        echo "$failures of the steps failed" >&2
        exit 1
    fi
}

json=${EDGE_JSON:-}
[[ $json != 0 ]] || json=
if [[ ${1:-} == --json ]]; then
    json=1
    shift
fi
if [[ $# -eq 1 && $1 == --check ]]; then
    check
    exit 0
fi
(($# >= 1 && $# <= 2)) && [[ $1 != -* ]] || usage
[[ -n ${EDGE_INSIDE:-} ]] || enter_namespaces "$@"
main "$@"
