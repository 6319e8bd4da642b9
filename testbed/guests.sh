#!/usr/bin/env bash
# Runs examples/guests.yaml between two hosts: sandboxed, native, containerized and virtual functions in one chain.
#
#   testbed/guests.sh [--json] SUPERFLUID       as root
#   testbed/guests.sh --check                   only says what is missing
#
# It makes what the example names in a folder of its own (the function in C, an image of Suricata, a first root file
# system of the virtual machine), starts the launcher with a file that allows them, and leaves the rest to edge.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")

usage() {
    sed -n '4,5p' "$0" | cut -c3- >&2
    exit 2
}

# Debian's kernel for virtual machines, the newest that is installed.
kernel() {
    find /boot -maxdepth 1 -name 'vmlinuz-*-cloud-*' 2>/dev/null | sort -V | tail -n 1
}

check() {
    local missing=() tool
    for tool in runc:runc suricata:suricata dpdk-testpmd:dpdk-dev qemu-system-x86_64:qemu-system-x86 clang-19:clang-19 cpio:cpio \
        busybox:busybox-static; do
        PATH=$PATH:/usr/sbin command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
    done
    [[ -n $(kernel) ]] || missing+=(linux-image-cloud-amd64)
    if ((${#missing[@]})); then
        echo "missing; as root: apt-get install --no-install-recommends ${missing[*]}" >&2
        exit 3
    fi
    ((EUID == 0)) || {
        echo "guests have ranges of users, which root alone can give: call it as root" >&2
        exit 3
    }
    "$here/edge.sh" --check
}

# A first root file system that joins the machine's two devices by a bridge.
make_machine() {
    local tree=$1/machine modules name version
    version=$(basename "$(kernel)")
    modules=/lib/modules/${version#vmlinuz-}/kernel
    mkdir -p "$tree"/{bin,dev,proc,sys}
    cp "$(command -v busybox)" "$tree/bin/busybox"
    local order=(drivers/virtio/virtio_ring drivers/virtio/virtio drivers/virtio/virtio_pci_legacy_dev drivers/virtio/virtio_pci_modern_dev
        drivers/virtio/virtio_pci net/core/failover drivers/net/net_failover drivers/net/virtio_net net/llc/llc net/802/stp net/bridge/bridge)
    for name in "${order[@]}"; do
        cp "$modules/$name.ko" "$tree/"
        basename "$name" >>"$tree/modules"
    done
    cat >"$tree/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
exec >/dev/console 2>&1
for module in $(cat /modules); do insmod "/$module.ko"; done
brctl addbr bridge
brctl stp bridge off
brctl setfd bridge 0
for device in eth0 eth1; do
    brctl addif bridge "$device"
    ip link set "$device" up
done
ip link set bridge up
echo the machine bridges
while :; do sleep 1000; done
INIT
    chmod 755 "$tree/init"
    (cd "$tree" && find . | cpio --quiet -o -H newc) >"$1/nf/bridge.initramfs"
}

make_files() {
    mkdir -p "$folder"/{nf,images,state,run,guests}
    # Tenants' users find what they are to read.
    chmod 711 "$folder"
    clang-19 -O2 -I"$root/include" "$root/examples/native/forwarder.c" -L"$(dirname "$superfluid")" -L"$(dirname "$superfluid")/deps" -l:libsuperfluid_native.a \
        -o "$folder/nf/forwarder"
    make_machine "$folder"
    "$root/scripts/container-image" "$folder/images/suricata" suricata /etc/suricata/classification.config \
        /etc/suricata/reference.config /etc/suricata/threshold.config >/dev/null
    cp "$root/examples/ids-observer.suricata" "$root/examples/ids.rules" "$folder/"
    sed -e "s#/opt/nf#$folder/nf#; s#/srv/images#$folder/images#; s#/boot/vmlinuz#$(kernel)#" \
        "$root/examples/guests.yaml" >"$folder/guests.yaml"
    cat >"$folder/launcher.yaml" <<PERMITS
superfluid_launcher: 1
clients: [0]
tenants:
  default:
    uids: 2000000000
    images: [$folder/images]
    mounts: [$folder, /boot]
    programs: [/usr, $folder/nf]
PERMITS
}

main() {
    superfluid=$(realpath "$1")
    check
    folder=$(mktemp -d /var/tmp/superfluid-guests.XXXXXX)
    trap 'rm -rf -- "$folder"' EXIT
    make_files
    EDGE_BESIDE="$superfluid launcher --socket $folder/launcher.sock --permits $folder/launcher.yaml --state $folder/state \
--run $folder/run --guest-sockets $folder/guests --cgroup $(basename "$folder")" \
        EDGE_AWAITS=$folder/launcher.sock EDGE_ARGUMENTS="--launcher $folder/launcher.sock --guest-sockets $folder/guests" \
        "$here/edge.sh" "${options[@]}" "$superfluid" "$folder/guests.yaml"
}

options=()
if [[ ${1:-} == --json ]]; then
    options=(--json)
    shift
fi
if [[ $# -eq 1 && $1 == --check ]]; then
    check
    exit 0
fi
(($# == 1)) && [[ $1 != -* ]] || usage
main "$@"
