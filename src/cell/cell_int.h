// SPDX-License-Identifier: Apache-2.0
// The supervisor of one cell: what its files share. One process, one cell, one loop.
//
// Before it has a sandbox:
//   nursery.c     forks slots; skepd's requests            shelf.c       molds, until a slot takes them
//   dirwork.c     removing and copying, for skepd          ownership.c   directories of the host as the cell's root owns them
//   slot.c        from fork to spec: the contained process seat.c        a number with its ids and its control group
//   ahead.c       built before its sandbox is asked for    mold.c        what the next cell can use again
// Its life:
//   build.c       spec -> up                               ending.c      -> ending -> gone
//   again.c       from the end of a plain run to the next spec
//   cell.c        pausing, and the channel to init         control.c     the channel to skepd and the cell's socket
//   watchdog.c    time and resource limits                 disk_use.c    how much disk it holds; unnamed.c: files without a name
// What runs in it, and who is attached:
//   execs.c       execs                                    client.c      attached clients
//   input.c       what clients send to one                 output.c      what it wrote; cast.c: a terminal, recorded
//   away.c        clients whose line broke                 dials.c       connections into the cell
//   changed.c     files that changed                       watching.c    who sees it happen
//   ports.c       what listens
// What it asks the kernel for, seen from outside:
//   record.c      what goes to the journal                 who.c         which process it was
//   denied.c      calls that were refused                  refused.c     packets that were refused
//   owned.c       the host's files, below a user's root
//   moves.c       renames of directories                   look.c        paths that a waiting call names
//   rights.c      what a process may do with files         held.c        children that hold up pid 1
// The way out:
//   gate.c        the gate's channel                       gate_spawn.c  starts it
//   gate_ask.c    connections that wait for a yes          members.c     its events, before they are recorded
#pragma once
#include "base/chan.h"
#include "cell/ahead.h"
#include "cell/gate.h"
#include "cell/mold.h"
#include "cell/nursery.h"
#include "cell/output.h"
#include "cell/seat.h"
#include "journal/journal.h"
#include "model/pending.h"
#include "model/spec.h"

enum cell_stage { CELL_WAITING, CELL_BUILDING, CELL_UP, CELL_ENDING, CELL_GONE, CELL_OVER };

struct cast; // terminal recording
struct live; // cell/watching.h

struct sx { // an exec, as the supervisor sees it
	struct sx *next;
	struct cell *cell;
	uint32_t number; // on the channel to init
	struct exec_spec spec;
	struct exec_result result;
	struct ticket {
		char key[KEY_SIZE]; // "" = none
		uint64_t until_ms;
	} tickets[LIMIT_TICKETS]; // of clients that were told to come
	uint32_t pid, request;	   // request: K's id to answer when it has begun; 0 = none
	bool begun, ended, wants_reader;
	uint64_t in_received, in_credit;
	struct buf in_waiting;	// of what was received: init has granted no room for it yet
	bool in_end, in_ended;	// a client has said it; init was told
	struct output out[2];
	struct cast *cast;
	struct live *live; // of the job `watch`
	struct timer timeout, promise; // promise: until the client that was told to come must be there
	bool killed_for_time;
};

struct client {
	struct client *next;
	struct cell *cell;
	struct chan chan;
	bool greeted, control, dials, exit_sent, done_sent;
	bool hangs_up; // M_HANGUP
	bool wrote, in_over; // to stdin; and has ended it
	char line[KEY_SIZE]; // "" = it does not come back when its line breaks (cell/away.h)
	uint64_t away_ms;    // for how long it is expected then
	bool bye;	     // it had its last word
	uint64_t mine;	     // bytes of stdin that came from it, with a line: on all its connections
	uint64_t signals;    // number of the last signal that came from it; as above
	struct sx *exec;     // NULL: none, or another line of the same client has it now
	uint64_t off[2];     // sent
	uint64_t seen[2];    // and known to have come; counts for a client with a line
};

struct cell {
	struct loop loop;
	const struct nursery *nursery;
	enum profile profile;
	enum cell_stage stage;
	struct cell_spec spec;
	struct isolation iso;
	pid_t init_pid;
	uint64_t start_time; // of our own process: with its pid, its identity
	struct seat seat;
	uint32_t first_id; // of its id range, as root
	int plain_ns, owner_ns; // as root: maps for mounts; owner_ns for directories that belong to root
	const char *fresh_layer; // made with the slot, not used by anybody yet
	char *layer_path;	 // what it was called when it last waited here
	int fresh_lock;
	bool bare; // a cold slot that is built ahead, and has fresh_layer for that
	enum slot_has has;
	struct net_sockets net; // of its network, until the gate has them
	struct gate gate;
	int secrets; // sealed memory that came with the spec, until the gate has it
	struct mold mold;
	struct ahead ahead;
	int back; // to the nursery, for the mold
	const struct place *place; // the slot was made for it, or NULL
	dev_t base_dev;		   // of its base, when it was mounted
	ino_t base_ino;
	uint64_t lowers_mark; // which directories its sealed layers were
	struct chan init;
	struct watch init_end, listen, notify;
	bool limits_changed, took_layer, told; // told: a daemon heard of the end
	bool eventful; // something was refused, moved by us, or a limit met
	bool first_sent; // the first exec is on its way, ahead of M_READY
	bool init_ends;	 // by itself, with its last exec
	bool no_hurry;	 // slots abound: what a slot needs again can wait
	bool parked;	 // then its first process stays until it is let go
	bool tired;	 // gone, and to be a slot once more when it is woken
	unsigned turns; // cells this process had before
	ino_t socket_ino;
	char socket_name[ID_SIZE + 16]; // in run/cells; until there is a sandbox, the slot's own
	int init_pidfd;
	struct client *control; // skepd, when it is there
	struct client *clients;
	struct sx *execs; // newest first
	uint32_t n_execs, last_number;
	uint64_t refreshed_ms, refresh_cost_ms; // refresh.c
	bool refresh_due; // as soon as the root's descriptor is there
	bool refreshed;
	int root;	       // of its file tree, as soon as a second command is likely; -1
	struct journal journal;
	int sandbox_dir, out_dir;
	struct cgroup cgroup;
	bool has_cgroup, paused, remove_layer, walk_done, init_ended;
	char *ending_layer; // what the layer is called while it goes
	uint32_t pending;
	char **changed;
	struct changes_sum sum;
	char *gone_reason;
	uint32_t spec_request, pause_request;
	// watchdog
	struct timer ttl, idle, sample, ending, look, deaf;
	bool asked_again; // the deaf one
	uint64_t oom_seen, pids_seen, disk_floor, walk_free, walk_free_files;
	bool told_memory, told_pids;
	uint32_t deep_looks, samples;
	uint64_t unnamed_memory;
	bool unnamed_old; // the look that is under way began before a process was killed
	struct watch unnamed;
	struct watch walk;
	// record: events of the workload, by token bucket; and the bytes they may take
	uint64_t bucket_ms, bucket, dropped;
	uint64_t room_ms, room, unrecorded, told_room_ms;
};

// slot.c
// Where a slot's sandbox will work: as asked (bytes) and as read.
struct place {
	const void *p;
	size_t n;
	struct cell_spec spec;
};
// layer: path of the layer to be made for whoever gets the slot, or NULL; place: or NULL
struct slot {
	int control, back;
	enum profile profile;
	const char *layer;
	const struct place *place;
	const struct mold *mold; // to be used again, or NULL
};
_Noreturn void slot_main(const struct nursery *n, const struct slot *s);
void slot_blank(struct cell *c, const struct nursery *n, enum profile profile); // nothing of any cell
int slot_watch(struct cell *c, struct err *e) MUST_USE; // the first process
int slot_send_sources(struct cell *c, struct chan *to, const struct cell_spec *s, enum slot_has has, struct err *e) MUST_USE;
// Clones a process with new namespaces; entry runs in it. Then its ids are mapped, its group is attached, and it has
// been sent the slot's layer and sources.
int slot_clone(struct cell *c, int namespaces, void (*entry)(const struct cell *c, int fd), struct chan *out, pid_t *out_pid,
	       struct err *e) MUST_USE;
int slot_make_layer(struct cell *c, struct err *e) MUST_USE; // fresh_layer
struct contain slot_contain(const struct cell *c);
uint64_t slot_mark_lowers(char *const *lowers); // 0: one is not there
int slot_recv_trees(struct chan *ch, int *trees, int max, struct err *e) MUST_USE;
_Noreturn void slot_give_up(struct chan *ch, const struct err *e);
void slot_send_sockets(struct chan *ch, const struct net_sockets *s);
void slot_take_socket(struct net_sockets *s, struct frame *f);
_Noreturn void slot_serve(struct contain *c, struct chan *ch); // waits for a spec, builds, becomes init
#define TREES_MAX (ROOTFS_SOURCES_MAX + 1)
void cell_kill_init(const struct cell *c);

// again.c
bool again_may(const struct cell *c);	// the end of the cell need not be ours, if the mold is as it was
bool again_begin(struct cell *c);	// true: CELL_OVER, the loop ends, then again_turn
int again_turn(struct cell *c, struct err *e) MUST_USE;

// build.c
int cell_build(struct cell *c, struct frame *spec, struct err *e) MUST_USE; // M_SPEC
void cell_ready(struct cell *c, struct frame *f);			      // M_READY
_Noreturn void cell_build_failed(struct cell *c, const struct err *e);
bool cell_is_supervised(const struct cell *c);		  // no control group limits it
int cell_out_dir(struct cell *c, struct err *e) MUST_USE; // made with the first output

// cell.c
void cell_on_init_frame(struct chan *ch, struct frame *f);
void cell_on_init_close(struct chan *ch);
// Where groups can be frozen it is done on return. Else 1: init does it, and request (0: nobody's) is answered then.
int cell_pause(struct cell *c, bool on, uint32_t request, struct err *e) MUST_USE;
int cell_members(struct cell *c, uint32_t request, struct err *e) MUST_USE; // answers the request with M_MEMBERS, 1: later

// ending.c
void cell_end(struct cell *c, const char *reason, uint32_t grace_ms, bool walk);
void cell_on_init_exit(struct watch *w, uint32_t events);
void cell_goodbye(struct cell *c);    // the last words
void cell_wake(struct cell *c);	      // who rests goes on to its end, or to the next cell
void cell_maybe_exit(struct cell *c); // when gone and nobody is owed anything

// control.c
int control_bind(struct cell *c, struct err *e) MUST_USE;	  // when the slot is made
int control_listen(struct cell *c, struct err *e) MUST_USE; // when it has its sandbox
void control_unlisten(struct cell *c);
int control_rest(struct cell *c, struct err *e) MUST_USE; // back to a slot's name
void control_sweep(int cells_dir); // sockets of slots whose process was killed
void control_frame(struct client *cl, struct frame *f);
void control_send_up(struct cell *c, uint32_t id);
void control_send_err(struct chan *ch, uint32_t id, const struct err *e);
void control_send_exited(struct cell *c, const struct sx *x);
void control_send_gone(struct cell *c); // the last word, if there is a daemon to hear it
void control_replay(struct cell *c);

// execs.c
struct sx *sx_start(struct cell *c, struct exec_spec *s, const char *ticket, uint32_t request); // takes s
bool sx_send_first(struct cell *c); // the first exec of the spec, to be started as soon as the cell is ready
struct sx *sx_find(struct cell *c, const char *id);
struct sx *sx_by_number(struct cell *c, uint32_t number);
struct sx *sx_by_ticket(struct cell *c, const char *ticket);
void sx_set_ticket(struct sx *x, const char *ticket); // in the place of the oldest, where there are too many
bool sx_expects(const struct sx *x); // a client with a ticket
void sx_begun(struct sx *x, uint32_t pid);
void sx_failed(struct sx *x, const struct err *e);
void sx_output(struct sx *x, uint8_t stream, const void *p, size_t n);
void sx_ended(struct sx *x, uint32_t wait_status);
void sx_kill(struct sx *x, int sig, const char *reason);
void sx_grant(struct sx *x); // more output, as far as the slowest reader allows
void sx_free_all(struct cell *c);
uint32_t sx_running(const struct cell *c);
const struct sx *sx_only(const struct cell *c); // the one that runs; NULL: none does, or more than one

// client.c
void client_accept(struct watch *w, uint32_t events);
struct client *client_new(struct cell *c, int fd, struct err *e);
void client_pump(struct client *cl);
void client_pump_exec(struct sx *x);
void client_flush(struct sx *x);
bool client_waiting(const struct cell *c); // something is still queued for somebody
void client_drop_others(struct cell *c); // all but skepd, at once
void client_left(struct sx *x); // somebody attached to it went for good
int client_again(struct client *control, struct err *e) MUST_USE; // skepd, for the next cell
void client_tell(struct cell *c, uint8_t type, const struct buf *b); // every attached client
bool client_attached(const struct sx *x); // or expected back
uint64_t client_slowest(const struct sx *x, int stream); // UINT64_MAX when nobody reads

// record.c
void record(struct cell *c, const char *type, const char *by, struct buf *body, bool durable);
bool record_may(struct cell *c); // an event that the workload makes at will: is there room for one more?
void record_proc(struct watch *w, uint32_t events); // the seccomp listener
void record_end(struct cell *c); // it goes: nobody is left to ask
void record_cell_up(struct cell *c);
void record_cell_gone(struct cell *c);
void record_exec_start(struct sx *x);
void record_exec_exit(struct sx *x);
void record_limit(struct cell *c, const char *limit, const char *message, const struct sx *x);

// watchdog.c
void watchdog_start(struct cell *c);
void watchdog_expire(struct cell *c);
void watchdog_lease(struct cell *c); // its client was there until now
void watchdog_activity(struct cell *c); // something began, ended or moved
void watchdog_exec(struct sx *x);	 // arms its timeout
void watchdog_ended(struct sx *x);
void watchdog_look(struct cell *c, bool first); // what is pending now? first: what is older than the cell is no news
void watchdog_usage(struct cell *c, uint64_t used, uint32_t killed, uint32_t tasks);
void watchdog_check_cgroup(struct cell *c);
void watchdog_hit(struct cell *c, const char *limit, const char *message);

// cast.c: asciicast v2
struct cast *cast_open(int dir, const char *exec_id, uint32_t cols, uint32_t rows, struct err *e);
void cast_output(struct cast *k, const char *p, size_t n);
void cast_resize(struct cast *k, uint32_t cols, uint32_t rows);
void cast_close(struct cast *k);
