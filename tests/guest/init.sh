#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# Pid 1 of the guest: a small system with cgroup v2 only, then the tests, once for each way of standing in the tree.
export PATH=/usr/bin:/opt/skep HOME=/root USER=root LANG=C.UTF-8
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts -o ptmxmode=666 devpts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs run /run
mount -t cgroup2 -o nsdelegate cgroup2 /sys/fs/cgroup
chown -R 0:0 /etc /usr /opt /root
chmod 4755 /usr/bin/newuidmap /usr/bin/newgidmap
chmod 1777 /tmp /var/tmp /dev/shm
chown 1000:1000 /home/ann
chown 1001:1001 /home/bob
ip link set lo up
depmod
for m in overlay nf_tables nft_tproxy nft_ct nft_reject_inet nft_log nfnetlink_log nft_nat nft_redir; do modprobe $m || echo "# no module $m"; done
echo "# $(uname -r), up $(cut -d' ' -f1 /proc/uptime) s"
cases=$(sed 's/.*cases=\([^ ]*\).*/\1/' /proc/cmdline)
[ "$cases" = all ] && cases=unit,root,session,service,shell,none,readonly,container,crowded
for c in $(echo "$cases" | tr , ' '); do
	sh /opt/limits.sh "$c"
	echo "# $c done, up $(cut -d' ' -f1 /proc/uptime) s"
done
echo "# end"
sync
poweroff -f
