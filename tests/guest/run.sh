#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make guest: the limits on a kernel with cgroup v2 only, in a QEMU guest (no KVM, nothing of the host is changed).
#
#   tests/guest/run.sh [BUILD]      BUILD: where the programs are (build/release)
#
# The kernel is Debian's cloud kernel, taken out of its package; NVMe and ext4 are built in, so no initramfs is needed.
# The guest's disk holds busybox, the programs with their libraries, and the tests. GUEST_KEEP=1 keeps disk and log.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build/release}
cache=build/guest
seconds=${GUEST_SECONDS:-240}
work=$(mktemp -d /tmp/skg.XXXXXX)
qemu=

end() {
	[ -z "$qemu" ] || kill -KILL "$qemu" 2>/dev/null || true
	if [ "${GUEST_KEEP:-}" = 1 ]; then echo "kept: $work"; else rm -rf "$work"; fi
}
trap end EXIT

[ "$(uname -m)" = x86_64 ] || { echo "guest: skipped: only for x86_64"; exit 0; }

kernel_package() {
	apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -1
}

fetch_kernel() {
	local name
	[ -d "$cache/kernel" ] && return
	name=$(kernel_package)
	[ -n "$name" ] || { echo "guest: apt knows no linux-image-cloud-amd64 (apt-get update)" >&2; exit 1; }
	mkdir -p "$cache"
	rm -rf "$cache"/kernel "$cache"/linux-image-*.deb
	(cd "$cache" && apt-get -qq download "$name" 2>/dev/null)
	dpkg-deb -x "$cache"/linux-image-*.deb "$cache/kernel.new"
	mv "$cache/kernel.new" "$cache/kernel"
	rm -f "$cache"/linux-image-*.deb
}

# A program from the host, with the libraries it names.
add() { # program...
	local lib
	cp -L --remove-destination "$@" "$root/usr/bin/"
	while read -r lib; do
		mkdir -p "$root/usr${lib%/*}"
		cp -Ln "$lib" "$root/usr$lib"
	done < <(ldd "$@" 2>/dev/null | grep -oE '/lib[^ ]+\.so[^ ]*' | sort -u)
}

make_root() {
	local d applet modules
	mkdir -p "$root"/{etc,proc,sys,dev,run,tmp,root,var/lib,var/tmp,opt/skep,usr/{bin,sbin,lib,lib64}} "$root"/home/{ann,bob}
	for d in bin sbin lib lib64; do ln -s "usr/$d" "$root/$d"; done
	cp /bin/busybox "$root/usr/bin/"
	for applet in $(busybox --list); do [ "$applet" = busybox ] || ln -s busybox "$root/usr/bin/$applet"; done
	add /usr/bin/newuidmap /usr/bin/newgidmap /usr/bin/unshare "$build"/{skepd,skep-gate,unit/isolate_cgroup}
	mv "$root"/usr/bin/{skepd,skep-gate,isolate_cgroup} "$root/opt/skep/"
	cp "$build"/{skep,skep-cell} "$root/opt/skep/"
	modules=$(cd "$cache/kernel" && echo lib/modules/*)
	for d in fs/overlayfs net/netfilter net/ipv4/netfilter net/ipv6/netfilter lib; do
		mkdir -p "$root/usr/$modules/kernel/$d"
		cp -r "$cache/kernel/$modules/kernel/$d/." "$root/usr/$modules/kernel/$d/"
	done
	cp tests/guest/{init,limits}.sh "$root/opt/"
	printf '%s\n' root:x:0:0::/root:/bin/sh ann:x:1000:1000::/home/ann:/bin/sh bob:x:1001:1001::/home/bob:/bin/sh >"$root/etc/passwd"
	printf '%s\n' root:x:0: ann:x:1000: bob:x:1001: >"$root/etc/group"
	printf '%s\n' ann:100000:65536 bob:200000:65536 | tee "$root/etc/subuid" >"$root/etc/subgid"
	printf 'NAME=guest\nID=guest\n' >"$root/etc/os-release"
}

root=$work/root
fetch_kernel
make_root
/sbin/mke2fs -q -F -t ext4 -O ^has_journal -d "$root" "$work/disk" 512M >/dev/null
rm -rf "$root"

start=$(date +%s)
qemu-system-x86_64 -M q35 -cpu max -smp 1 -m 768 -nodefaults -no-user-config -display none -no-reboot \
	-kernel "$cache"/kernel/boot/vmlinuz-* -serial "file:$work/log" \
	-append "root=/dev/nvme0n1 rootfstype=ext4 rw console=ttyS0 quiet panic=-1 devtmpfs.mount=1 init=/opt/init.sh cases=${GUEST_CASES:-all}" \
	-drive "file=$work/disk,if=none,id=d,format=raw,cache=unsafe" -device nvme,drive=d,serial=1 &
qemu=$!
for ((i = 0; i < seconds * 5; i++)); do
	kill -0 $qemu 2>/dev/null || break
	sleep 0.2
done
tr -d '\r' <"$work/log" | grep -aE "${GUEST_SHOW:-^(ok|not ok|skip|#|Kernel panic)}" || true
passed=$(grep -ac '^ok' "$work/log" || true) failed=$(grep -ac '^not ok' "$work/log" || true)
if ! grep -aq '^# end' "$work/log"; then
	echo "guest: did not come to its end; the last lines:"
	tail -20 "$work/log"
	failed=$((failed + 1))
fi
echo "guest        $passed passed, $failed failed ($(($(date +%s) - start)) s)"
[ "$failed" -eq 0 ]
