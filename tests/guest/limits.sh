#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# The limits of a sandbox for one way of standing in the tree of control groups:
#
#   root       root, in the top group
#   session    root, in a group beside processes of others: the top is used
#   service    a user, skepd alone in a group that was handed to the user (as a service with Delegate=yes)
#   shell      a user, in a group of an own subtree, skepd started on demand beside the shell
#   none       a user whom no group was given to: supervised
#   readonly   root where the tree is mounted read-only, as in most containers: supervised
#   container  root in a cgroup namespace of its own, only skepd in its top group
case=$1
top=/sys/fs/cgroup
export SKEP_HOME

ok() { echo "ok $case $*"; }
bad() { echo "not ok $case $*"; }
check() { # name command...: one line for it
	name=$1
	shift
	if "$@" >/tmp/out.$$ 2>&1; then ok "$name"; else bad "$name: $(tail -n 3 /tmp/out.$$ | tr '\n' ' ')"; fi
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
group() { find $top -type d -path "*/skep/$(field "$1" cgroup)" | head -n 1; }
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
	skep exec "$id" -- dd if=/dev/zero of=/dev/null bs=200M count=1
	rc=$?
	if [ "$want" = cgroup-v2 ]; then is $rc 137 || return 1; fi
	[ $rc -ne 0 ] && until_true 30 hit "$id" memory && usable "$id" || return 1
	skep kill "$neighbour" KILL && skep rm --force "$id"
}

memory_raised_limit_is_not_the_last_ones() { # the group of a seat is used again
	id=$(skep new --empty --memory 300m) || return 1
	skep exec "$id" -- dd if=/dev/zero of=/dev/null bs=100M count=1 || return 1
	[ "$(skep log --type limit "$id" | grep -c .)" = 0 ] && skep rm --force "$id"
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
	skep exec -d "$id" -- sh -c 'f() { f | f & }; f; sleep 30' || return 1
	until_true 50 hit "$id" pids || return 1
	skep stop "$id" && until_true 30 nobody f && usable "$id" && skep rm --force "$id"
}
nobody() { ! grep -lqsa 'f() { f' /proc/[0-9]*/cmdline; }

cpus() {
	id=$(skep new --empty --cpus 0.3) && skep start "$id" || return 1
	g=$(group "$id")
	a=$(cpu_us "$g") t=$(cut -d' ' -f1 /proc/uptime | tr -d .)
	skep exec "$id" -- timeout 2 sh -c 'while :; do :; done'
	b=$(cpu_us "$g") u=$(cut -d' ' -f1 /proc/uptime | tr -d .)
	share=$(((b - a) / 100 / (u - t)))
	echo "# $case: --cpus 0.3 got $share % of a processor"
	[ $share -ge 15 ] && [ $share -le 38 ] && skep rm --force "$id"
}

counts() { skep_counted=$(cat /proc/"$1"/stat | cut -d' ' -f14-15); }
pause() {
	id=$(skep new --empty) && skep exec -d "$id" -- sh -c 'while :; do :; done # pausee' || return 1
	until_true 30 somebody pausee || return 1
	p=$(pid_of pausee)
	skep pause "$id" || return 1
	[ "$freeze" = signals ] || grep -q 'frozen 1' "$(group "$id")/cgroup.events" || return 1
	sleep 0.2
	counts "$p"
	before=$skep_counted
	sleep 0.7
	counts "$p"
	is "$skep_counted" "$before" || return 1
	is "$(field "$id" state)" paused && skep resume "$id" || return 1
	sleep 0.7
	counts "$p"
	[ "$skep_counted" != "$before" ] || { echo "still frozen"; return 1; }
	# a frozen one can be stopped
	skep pause "$id" && skep stop "$id" && until_true 30 nobody_is pausee && usable "$id" && skep rm --force "$id"
}
pid_of() { grep -lsa "# $1\$" /proc/[0-9]*/cmdline | head -n 1 | cut -d/ -f3; }
somebody() { [ -n "$(pid_of "$1")" ]; }
nobody_is() { [ -z "$(pid_of "$1")" ]; }

stop() {
	id=$(skep new --empty) || return 1
	skep exec -d "$id" -- sh -c "trap '' TERM; setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done # stoppee' & while :; do sleep 1; done # stoppee" || return 1
	until_true 30 somebody stoppee || return 1
	skep stop "$id" && nobody_is stoppee && usable "$id" && skep rm --force "$id"
}

# A supervisor that is killed takes its cell along; what it leaves is cleared away by whoever comes next.
supervisor_killed() {
	id=$(skep new --empty) && skep exec -d "$id" -- sh -c 'while :; do sleep 1; done # orphan' || return 1
	until_true 30 somebody orphan || return 1
	kill -9 "$(supervisor_of "$(pid_of orphan)")" || return 1
	until_true 30 nobody_is orphan && usable "$id" && skep rm --force "$id"
}
supervisor_of() {
	p=$1
	while [ "$(cat /proc/"$p"/comm)" != skep-cell ] || [ "$(awk '/^NSpid/ { print NF }' /proc/"$p"/status)" != 2 ]; do
		p=$(awk '/^PPid/ { print $2 }' /proc/"$p"/status)
		[ "$p" -gt 1 ] || return 1
	done
	echo "$p"
}

daemon_killed() {
	id=$(skep new --empty) && skep exec -d "$id" -- sh -c 'while :; do sleep 1; done # survivor' || return 1
	until_true 30 somebody survivor || return 1
	kill -9 "$(daemon)" || return 1
	[ "$case" != service ] || start_service
	is "$(field "$id" state)" running && somebody survivor || return 1
	skep stop "$id" && nobody_is survivor && usable "$id" && skep rm --force "$id"
}
daemon() { for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" = skepd ] && grep -qa "SKEP_HOME=$SKEP_HOME" $p/environ && echo "${p#/proc/}"; done; }

# Two daemons of one user in the same part of the tree leave each other's cells alone.
second_home() {
	id=$(skep new --empty) && skep exec -d "$id" -- sh -c 'while :; do sleep 1; done # first' || return 1
	until_true 30 somebody first || return 1
	(
		SKEP_HOME=$SKEP_HOME.b
		skep run --empty -- true && skep exec "$(skep new --empty --memory 64m)" -- true && skep rm --all --force && kill "$(daemon)"
	) || return 1
	somebody first && is "$(field "$id" state)" running && usable "$id" && skep rm --force "$id"
}

left() {
	skep rm --all --force
	d=$(daemon)
	[ -z "$d" ] || kill "$d"
	until_true 50 no_groups
}
no_groups() { ! pgrep skep >/dev/null && [ -z "$(find $top -type d -path '*/skep/*')" ]; }

all() {
	want=$1 freeze=$2
	check shows shows
	check memory memory
	check memory-again memory_raised_limit_is_not_the_last_ones
	check tmpfs tmpfs
	check pids pids
	check bomb bomb
	[ "$want" = supervised ] || check cpus cpus
	check pause pause
	check stop stop
	check supervisor-killed supervisor_killed
	check daemon-killed daemon_killed
	check second-home second_home
	check left left
	[ -z "$(pgrep skep)" ] || { ps -o pid,ppid,user,args | grep skep; find $top -path '*skep*' -type d; }
}

# --- where it stands ---

# As the service manager does it: the group, and the files that hand it over.
delegate() { # path uid
	mkdir -p "$1"
	echo '+cpu +memory +pids' >$top/cgroup.subtree_control
	chown "$2:$2" "$1" "$1/cgroup.procs" "$1/cgroup.threads" "$1/cgroup.subtree_control"
}
as() { # user group command: in that group
	(echo 0 >"$2/cgroup.procs" && exec su -s /bin/sh "$1" -c "PATH=$PATH SKEP_HOME=$SKEP_HOME $3")
}

start_service() { # from outside: root asks for it below
	echo start >"$SKEP_HOME.ask"
	until_true 50 test -S "$SKEP_HOME/run/skepd.sock" && sleep 0.5
}
serve() {
	mkdir -p $top/ann/svc
	chown 1000:1000 $top/ann/svc $top/ann/svc/cgroup.*
	(echo 0 >$top/ann/svc/cgroup.procs && exec su -s /bin/sh ann -c "SKEP_HOME=$SKEP_HOME exec /opt/skep/skepd --foreground") &
}

case $case in
root)
	SKEP_HOME=/root/skep
	all cgroup-v2 cgroup
	;;
in-service) all cgroup-v2 cgroup ;;
in-shell) all cgroup-v2 cgroup ;;
in-none) all supervised signals ;;
none)
	SKEP_HOME=/home/bob/none
	mkdir -p $top/bob
	as bob $top/bob "sh /opt/limits.sh in-none"
	;;
esac
