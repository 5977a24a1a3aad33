#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2016,SC2030,SC2031
# The limits of a sandbox for one way of standing in the tree of control groups:
#
#   root       root, in the top group
#   session    root, in a group beside processes of others: the top is used
#   service    a user, skepd alone in a group that was handed to the user (as a service with Delegate=yes)
#   shell      a user, in a group of an own subtree, skepd started on demand beside the shell
#   none       a user whom no group was given to: supervised
#   readonly   root where the tree is mounted read-only, as in most containers: supervised
#   container  root in a cgroup namespace of its own, whose top group is free of processes
#   crowded    the same, with processes in the top group: supervised
#   unit       tests/unit/isolate_cgroup.c, as root
#
# limits.sh CASE prepares the place, as root; limits.sh CASE in is the test, in it.
case=$1
top=/sys/fs/cgroup
export SKEP_HOME

ok() { echo "ok $case $*"; }
bad() { echo "not ok $case $*"; }
check() { # name command...: one line for it
	name=$1
	shift
	if "$@" >/tmp/out.$$ 2>&1; then ok "$name"; else bad "$name: $(tail -n 5 /tmp/out.$$ | tr '\n' ' ')"; fi
}
is() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; return 1; }; }
until_true() { # tenths-of-seconds command...
	n=$1
	shift
	while [ "$n" -gt 0 ]; do
		"$@" && return 0
		n=$((n - 1))
		sleep 0.1
	done
	echo "did not come true: $*"
	return 1
}
field() { skep show --json "$1" | sed -n "s/^ *\"$2\": \"\(.*\)\",\{0,1\}\$/\1/p" | head -n 1; }
hit() { skep log --type limit "$1" | grep -q "$2"; }
usable() { is "$(skep exec "$1" -- echo usable)" usable; }
pid_of() { grep -lsa "[#] $1" /proc/[0-9]*/cmdline | head -n 1 | cut -d/ -f3; } # by the comment at the end of its script
somebody() { [ -n "$(pid_of "$1")" ]; }
nobody() { [ -z "$(pid_of "$1")" ]; }
group_of() { echo "$top$(sed -n 's/^0:://p' /proc/"$1"/cgroup)"; }
spin() { skep exec -d "$1" -- sh -c "while :; do :; done # $2" && until_true 30 somebody "$2"; }
nap() { skep exec -d "$1" -- sh -c "while :; do sleep 1; done # $2" && until_true 30 somebody "$2"; }
processes() { cat /proc/[0-9]*/comm 2>/dev/null | grep -c "^skep"; }
cpu_us() { sed -n 's/^usage_usec //p' "$1/cpu.stat"; }

# --- what is tested ---

shows() {
	id=$(skep new --empty) && skep start "$id" || return 1
	is "$(field "$id" limits)" "$want" && is "$(field "$id" freeze)" "$freeze" || return 1
	skep doctor | grep -E "^(ok|gap) +cgroup +$want" || { skep doctor | grep cgroup; return 1; }
	skep rm --force "$id"
}

# A hog costs its own process, not the cell.
memory() {
	id=$(skep new --empty --memory 64m) || return 1
	neighbour=$(skep exec -d "$id" -- sleep 1000) || return 1
	skep exec "$id" -- awk 'BEGIN { while (1) a[i++] = sprintf("%1000000s", "x") }'
	rc=$?
	if [ "$want" = cgroup-v2 ]; then is $rc 137 || return 1; fi
	[ $rc -ne 0 ] && until_true 30 hit "$id" memory && usable "$id" || return 1
	skep kill "$neighbour" KILL && skep rm --force "$id"
}

# The group of a seat is used again, the last one's limits and events are not.
memory_again() {
	id=$(skep new --empty --memory 300m) || return 1
	skep exec "$id" -- dd if=/dev/zero of=/dev/null bs=100M count=1 || return 1
	is "$(skep log --type limit "$id")" "" && skep rm --force "$id"
}

tmpfs() {
	id=$(skep new --empty --memory 64m) || return 1
	for d in /tmp /dev/shm /run; do
		skep exec "$id" -- sh -c "dd if=/dev/zero of=$d/big bs=1M count=200; true"
	done
	skep stop "$id" && usable "$id" && skep rm --force "$id"
}

pids() {
	id=$(skep new --empty --pids 24) || return 1
	skep exec "$id" -- sh -c 'i=0; while [ $i -lt 60 ]; do sleep 1000 & i=$((i+1)); done; true'
	until_true 30 hit "$id" pids || return 1
	skep stop "$id" && usable "$id" && skep rm --force "$id"
}

bomb() {
	id=$(skep new --empty --pids 60) || return 1
	skep exec -d "$id" -- sh -c 'f() { f | f & }; f; sleep 30 # bomb' || return 1
	[ "$want" = supervised ] || until_true 50 hit "$id" pids || return 1 # there it is over between two looks
	skep stop "$id" && until_true 30 nobody bomb && usable "$id" && skep rm --force "$id"
}

cpus() {
	id=$(skep new --empty --cpus 0.3) && spin "$id" spinner || return 1
	g=$(group_of "$(pid_of spinner)")
	a=$(cpu_us "$g") t=$(centi)
	sleep 2
	b=$(cpu_us "$g") u=$(centi)
	share=$(((b - a) / 100 / (u - t)))
	echo "# $case: --cpus 0.3 got $share % of a processor" >&3
	[ $share -ge 15 ] && [ $share -le 38 ] && skep rm --force "$id"
}
centi() { cut -d' ' -f1 /proc/uptime | tr -d .; }

ticks() { cut -d' ' -f14-15 "/proc/$1/stat"; }
pause() {
	id=$(skep new --empty) && spin "$id" pausee || return 1
	p=$(pid_of pausee)
	skep pause "$id" || return 1
	[ "$freeze" = signals ] || grep -q 'frozen 1' "$(group_of "$p")/cgroup.events" || return 1
	sleep 0.2
	before=$(ticks "$p")
	sleep 0.5
	is "$(ticks "$p")" "$before" && is "$(field "$id" state)" paused && skep resume "$id" || return 1
	sleep 0.5
	[ "$(ticks "$p")" != "$before" ] || { echo "still frozen"; return 1; }
	# a frozen one can be stopped
	skep pause "$id" && skep stop "$id" && nobody pausee && usable "$id" && skep rm --force "$id"
}

stop() {
	id=$(skep new --empty) || return 1
	skep exec -d "$id" -- sh -c "trap '' TERM; setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done # stoppee' & while :; do sleep 1; done # stoppee" || return 1
	until_true 30 somebody stoppee || return 1
	skep stop "$id" && nobody stoppee && usable "$id" && skep rm --force "$id"
}

# A supervisor that is killed takes its cell along; what it leaves is cleared away by whoever comes next.
supervisor_killed() {
	id=$(skep new --empty) && nap "$id" orphan || return 1
	kill -9 "$(supervisor_of "$(pid_of orphan)")" || return 1
	until_true 30 nobody orphan && usable "$id" && skep rm --force "$id"
}
supervisor_of() { # the nearest ancestor that is in our pid namespace
	p=$1
	while [ "$(awk '/^NSpid/ { print NF }' "/proc/$p/status")" != 2 ]; do
		p=$(awk '/^PPid/ { print $2 }' "/proc/$p/status")
		[ "$p" -gt 1 ] || return 1
	done
	echo "$p"
}

daemon_killed() {
	id=$(skep new --empty) && nap "$id" survivor || return 1
	kill -9 "$(daemon)" || return 1
	[ "$case" != service ] || ask_for_service
	is "$(field "$id" state)" running && somebody survivor || return 1
	skep stop "$id" && nobody survivor && usable "$id" && skep rm --force "$id"
}
daemon() {
	for p in /proc/[0-9]*; do
		[ "$(cat "$p/comm" 2>/dev/null)" = skepd ] && grep -qa "SKEP_HOME=$SKEP_HOME" "$p/environ" && echo "${p#/proc/}"
	done
}

# Two daemons in the same part of the tree leave each other's cells alone.
second_home() {
	id=$(skep new --empty) && nap "$id" first || return 1
	(
		SKEP_HOME=$SKEP_HOME-b
		skep run --empty -- true && skep exec "$(skep new --empty --memory 64m)" -- true && skep rm --all --force && kill "$(daemon)"
	) || return 1
	somebody first && is "$(field "$id" state)" running && usable "$id" && skep rm --force "$id"
}

# Where it may make namespaces it can mount the tree from its own group down: it changes nothing there.
nested() {
	id=$(skep new --empty --nested --memory 64m) || return 1
	out=$(skep exec "$id" -- /usr/bin/unshare -U -r -m -C sh -c '
		mkdir /tmp/g && mount -t cgroup2 none /tmp/g && echo mounted && cd /tmp/g || exit
		echo max >memory.max && echo raised
		mkdir x && echo made')
	is "$out" mounted && skep stop "$id" && usable "$id" && skep rm --force "$id"
}

left() {
	skep rm --all --force
	kill "$(daemon)"
	until_true 50 nothing_left && return
	find $top -type d -path '*/skep/*'
	ps # without pgrep
	return 1
}
nothing_left() { [ "$(processes)" = 0 ] && [ -z "$(find $top -type d -path '*/skep/*')" ]; }

few() {
	want=$1 freeze=$2
	check shows shows
	check memory memory
	check left left
}

all() {
	want=$1 freeze=$2
	check shows shows
	check memory memory
	check memory-again memory_again
	check tmpfs tmpfs
	check pids pids
	check bomb bomb
	[ "$want" = supervised ] || check cpus cpus
	check pause pause
	check stop stop
	check supervisor-killed supervisor_killed
	check daemon-killed daemon_killed
	[ "$want" = supervised ] || check nested nested
	[ "$case" = service ] || check second-home second_home
	check left left
}

# --- where it stands ---

# As a service manager does it: the group, and the files that hand it over.
delegate() { # path uid
	mkdir -p "$1"
	echo '+cpu +memory +pids' >"${1%/*}/cgroup.subtree_control"
	chown "$2:$2" "$1" "$1/cgroup.procs" "$1/cgroup.threads" "$1/cgroup.subtree_control"
}
in_group() { # group command...
	(echo 0 >"$1/cgroup.procs" && shift && exec "$@")
}
inside() { # group user: the test itself
	in_group "$1" su -s /bin/sh "$2" -c "PATH=$PATH SKEP_HOME=$SKEP_HOME exec sh /opt/limits.sh $case in"
}

# A service manager that is asked through a file, since the test is an ordinary user's. Each start has a new group.
ask_for_service() {
	touch /tmp/ask
	until_true 50 test ! -e /tmp/ask && until_true 50 test -S "$SKEP_HOME/run/skepd.sock"
	sleep 1
}
trim() { # as systemd does with the group of a service that has ended
	for g in "$top"/ann/service-*; do
		grep -qs 'populated 0' "$g/cgroup.events" && find "$g" -depth -type d -exec rmdir {} +
	done
}
manage() {
	n=0
	while sleep 0.1; do
		trim
		[ -e /tmp/ask ] || continue
		n=$((n + 1))
		delegate "$top/ann/service-$n" 1000
		in_group "$top/ann/service-$n" su -s /bin/sh ann -c "SKEP_HOME=$SKEP_HOME exec /opt/skep/skepd --foreground 2>/tmp/skepd.log" &
		rm -f /tmp/ask
	done
}

unit() {
	/opt/skep/isolate_cgroup >/tmp/unit 2>&1
	sed -n 's/^\[       OK \] /ok unit /p; s/^\[  FAILED  \] \(test_.*\)/not ok unit \1/p; s/^\[   LINE   \]/# &/p' /tmp/unit
}

exec 3>&1
case $case$2 in
unit) unit ;;
root) SKEP_HOME=/root/skep && all cgroup-v2 cgroup ;;
session)
	SKEP_HOME=/root/session
	mkdir -p $top/session
	echo 0 >$top/session/cgroup.procs
	few cgroup-v2 cgroup
	;;
service)
	SKEP_HOME=/home/ann/service
	delegate $top/ann 1000
	mkdir -p $top/elsewhere
	manage &
	manager=$!
	inside $top/elsewhere ann
	kill $manager
	;;
servicein) ask_for_service && all cgroup-v2 cgroup ;;
shell)
	SKEP_HOME=/home/ann/shell
	delegate $top/ann 1000
	su -s /bin/sh ann -c "mkdir -p $top/ann/shell; echo '+cpu +memory +pids' >$top/ann/cgroup.subtree_control"
	inside $top/ann/shell ann
	;;
shellin) all cgroup-v2 cgroup ;;
none)
	SKEP_HOME=/home/bob/none
	mkdir -p $top/bob
	inside $top/bob bob
	;;
nonein) all supervised signals ;;
readonly)
	SKEP_HOME=/root/readonly
	export SKEP_HOME
	/usr/bin/unshare -m sh -c "mount -o remount,bind,ro $top; exec sh /opt/limits.sh readonly in"
	;;
readonlyin) few supervised signals ;;
container)
	SKEP_HOME=/root/container
	mkdir -p $top/container
	in_group $top/container /usr/bin/unshare -m -C sh -c "umount $top; mount -t cgroup2 cgroup2 $top; mkdir $top/payload; echo 0 >$top/payload/cgroup.procs; exec sh /opt/limits.sh container in"
	;;
containerin) few cgroup-v2 cgroup ;;
crowded)
	SKEP_HOME=/root/crowded
	mkdir -p $top/crowded
	in_group $top/crowded /usr/bin/unshare -m -C sh -c "umount $top; mount -t cgroup2 cgroup2 $top; exec sh /opt/limits.sh crowded in"
	;;
crowdedin) few supervised signals ;;
esac
