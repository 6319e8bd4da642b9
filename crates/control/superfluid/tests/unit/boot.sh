#!/bin/bash
# The first process of new namespaces: makes a machine with nothing in it but what the test gives, and becomes its systemd.
#
#   boot.sh GIVEN SOURCE PROGRAM [packages]     GIVEN: a folder, /given of the machine; SOURCE: the repository, /source of it; PROGRAM:
#                                               superfluid; packages: dpkg can install some
#
# The root file system is read-only, and whatever systemd reads or writes is replaced before it starts: no unit, generator, preset or
# setting of the real machine is there to be found, and nothing is written outside of memory. With `packages`, /usr is written to in memory,
# and dpkg knows of those that Superfluid's depend on.
set -eu
given=$1 source=$2 program=$3 packages=${4:-}
mount --make-rprivate /
mount -t tmpfs -o mode=755,size=1g tmpfs /mnt
cd /mnt
mkdir -p etc/systemd/system etc/sysusers.d etc/sysctl.d dev/{net,pts,shm} home root local/{bin,sbin,lib,share} units run/{given,source,program}
for file in passwd group nsswitch.conf ld.so.cache alternatives; do
    if [[ -e /etc/$file ]]; then cp -a "/etc/$file" etc/; fi
done
sed -i '/^superfluid:/d' etc/passwd etc/group
echo 0123456789abcdef0123456789abcdef >etc/machine-id
for device in null zero full random urandom tty; do
    touch "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
ln -s /proc/self/fd dev/fd
ln -s pts/ptmx dev/ptmx
touch dev/console
# As systemd makes it at a boot, whatever its permissions are on this machine.
mknod -m 666 dev/net/tun c 10 200
# A disk, for programs that may open one.
mknod -m 666 dev/disk b 7 0
echo secret >home/secret
echo secret >root/secret
chmod 644 home/secret root/secret
for target in sysinit basic shutdown network multi-user test; do
    printf '[Unit]\nDescription=%s\nDefaultDependencies=no\n' "$target" >"units/$target.target"
done
mount --bind "$given" run/given
mount --rbind "$source" run/source
mount -o remount,bind,ro run/source
touch run/program/superfluid
mount --bind "$program" run/program/superfluid
mount -o remount,bind,ro run/program/superfluid
if [[ $packages == packages ]]; then
    mkdir -p usr/{new,work} dpkg/{info,updates}
    cp /var/lib/dpkg/info/format dpkg/info/
    for package in libc6 libgcc-s1 passwd; do
        dpkg --status "$package" >>dpkg/status
        echo >>dpkg/status
        for list in /var/lib/dpkg/info/"$package"{,:*}.list; do
            if [[ -e $list ]]; then cp "$list" dpkg/info/; fi
        done
    done
    mount -t overlay -o lowerdir=/usr,upperdir=/mnt/usr/new,workdir=/mnt/usr/work overlay /usr
fi
# systemd's own folders: empty, but for these targets.
for folder in system-generators system-environment-generators system-preset user user-generators user-environment-generators; do
    if [[ -d /usr/lib/systemd/$folder ]]; then mount -t tmpfs -o mode=755 tmpfs "/usr/lib/systemd/$folder"; fi
done
mount --bind units /usr/lib/systemd/system
if [[ ! -L /lib && -d /lib/systemd/system ]]; then mount --bind units /lib/systemd/system; fi
mount --rbind etc /etc
mount --rbind dev /dev
mount --bind home /home
mount --bind root /root
mount --rbind local /usr/local
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
umount -R /sys
mount -t sysfs sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs -o mode=755,size=512m tmpfs /var
mkdir -p /var/lib /var/log /var/cache
mkdir -m 1777 /var/tmp
if [[ $packages == packages ]]; then cp -a dpkg /var/lib/; fi
mount -t tmpfs -o mode=755,size=256m tmpfs /run
mkdir -p /run/given /run/source /run/program
for folder in given source program; do mount --rbind "run/$folder" "/run/$folder"; done
mount -t tmpfs -o mode=1777,size=512m tmpfs /tmp
mount -o remount,bind,ro /
ip link set lo up
cd /
exec env -i container=superfluid-test PATH=/usr/local/bin:/usr/bin:/usr/sbin \
    SYSTEMD_PROC_CMDLINE='systemd.unit=test.target' \
    /usr/lib/systemd/systemd --system --unit=test.target --show-status=false
