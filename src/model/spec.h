// SPDX-License-Identifier: Apache-2.0
// What skepd asks of a cell: plain structs and their binary form.
#pragma once
#include "base/id.h"
#include "model/limits.h"

enum profile {
	PROFILE_USER, // "default": an ordinary user, no capability
	PROFILE_ROOT, // "root": uid 0 inside with a few namespaced capabilities
	PROFILES,
};
const char *profile_name(enum profile p);
int profile_parse(const char *s, enum profile *out) MUST_USE;

enum exec_kind {
	EXEC_COMMAND, // argv is run
	EXEC_JOB,     // argv names a file operation of init (init/files.h); not journaled as an exec
	EXEC_KINDS,
};

struct exec_spec {
	char id[ID_SIZE];
	enum exec_kind kind;
	char **argv, **env; // env: complete, K=V
	char *cwd;	    // absolute, inside; NULL = workspace
	char *user;	    // NULL = the profile's own
	char *by;	    // who asked for it, for the journal; NULL = skepd
	bool tty, want_stdin, detached;
	bool whole; // its end is told when nobody holds its streams any more, unless it is told to end
	bool early; // answered when the cell has taken it: its client learns the rest from the cell itself
	uint32_t rows, cols, umask_bits;
	uint64_t timeout_ms; // 0 = none
};
void exec_spec_done(struct exec_spec *s);
void exec_spec_write(struct buf *b, const struct exec_spec *s);
int exec_spec_read(struct wire *w, struct exec_spec *out, struct err *e) MUST_USE;

struct cell_mount {
	char *src, *dst; // src "" = mask the file dst
	bool writable;
	bool cache; // shown through an overlay: what is written there is the sandbox's own, src stays as it is
	bool volume; // src is a volume of skep: its directory in a spec, its id in a row
};

// What a cell's gate is told: with the spec, and again (M_POLICY) whenever it changes.
struct cell_net {
	bool on;	   // false: nothing may leave and no gate is needed
	struct buf policy; // policy_write's bytes (model/policy.h); empty = allows nothing
	char *resolver;	   // "" or NULL = the system's; else ADDR:PORT
	char *ca_cert;	   // PEM; "" or NULL = none
	char *ca_file;	   // path of CAs beside the system's that the gate believes; "" or NULL = none
	char **files;	   // "NAME=PLACEHOLDER": secrets that are also shown as files, /run/secrets/NAME
	// secrets_write's bytes. Never in the wire form: they travel beside it, as the descriptor of sealed memory.
	struct buf secrets;
};
void cell_net_done(struct cell_net *n); // wipes

struct cell_spec {
	char sandbox[ID_SIZE];
	char key[KEY_SIZE];	   // who knows it may control the cell
	char machine_id[KEY_SIZE]; // fresh per sandbox and per fork
	char *hostname;
	char *by;  // who asked for the cell, for the journal; NULL = skepd
	char *was; // state of the sandbox before: the cell writes into the journal that it runs now; NULL = it does not
	enum profile profile;
	bool nested;	  // nested user namespaces allowed, knowingly
	bool trace_off;	  // no ptrace inside
	bool strict;	  // min_isolation: strict
	bool keep_tmp;	  // /tmp is part of the layer, not of memory; in the root profile
	bool maintenance; // no network, no command: file operations only
	bool ends_with_exec; // `run`: the cell ends when its first exec does
	bool remove_if_clean; // and its layer and directory go when nothing is pending
	char *skep_home;
	char *sandbox_dir; // journal, out/
	char *layer;	   // writable layer: ws home root work
	char **lowers;	   // sealed layers, absolute, newest first, at most LIMIT_LAYERS; any may lack any part
	uint32_t n_base_lowers; // the last of them that belong to the base (git, setup): what they hold is not pending
	char *image;	   // root file system directory; NULL = the host's own system directories
	char *base;	   // the directory the workspace shows; NULL = empty
	char *ws_path;	   // where it is seen inside
	char **hide;	   // globs (model/glob.h) of what of the base is not seen; NULL = nothing
	char *home;	   // HOME inside
	char *git_user;	   // lines of a git configuration: who commits; NULL = nobody
	struct cell_mount *mounts;
	uint32_t n_mounts;
	struct limits limits;
	uint64_t expires_unix_ms; // 0 = never
	uint64_t idle_ms;	  // 0 = never
	uint64_t lease_ms;	  // expires_unix_ms begins anew while a client is attached; 0 = it does not
	bool expiry_pauses;	  // instead of ending the cell
	struct cell_net net;
	bool has_exec;
	struct exec_spec exec; // first command, saves a round trip
	char ticket[KEY_SIZE]; // for its client; "" when none will come
};
void cell_spec_done(struct cell_spec *s);
void cell_spec_write(struct buf *b, const struct cell_spec *s);
int cell_spec_read(const void *p, size_t n, struct cell_spec *out, struct err *e) MUST_USE;

// Who a sandbox is to itself, before anything else is known of it.
struct identity {
	char id[ID_SIZE];
	char machine_id[KEY_SIZE];
};

// What of a spec its cell is built from, beside its identity: a spec again, with nothing else in it. A cell built for one is
// right for every sandbox whose spec has the same bytes here. false: it has more that is its own (a name, a certificate,
// placeholders), and nobody can build for it ahead.
bool cell_spec_shape(struct buf *b, const struct cell_spec *s);
void cell_spec_identify(struct cell_spec *s, const struct identity *i);

// The part of a spec that says where the cell works: base, lowers, ws_path, hide, mounts. A slot can be made for a place
// before anybody asked; it fits every new sandbox there. Two places are the same when their bytes are.
void place_write(struct buf *b, const struct cell_spec *s);
int place_read(const void *p, size_t n, struct cell_spec *out, struct err *e) MUST_USE; // only these members

// How an exec ended.
struct exec_result {
	uint32_t status; // exit status; 128+N when killed by signal N; 126/127 when it could not start
	uint32_t signal;
	bool timed_out;
	char *reason; // NULL, or one line: why it did not start, which limit ended it
	uint64_t out_bytes, err_bytes;
	uint64_t started_unix_ms, ended_unix_ms;
};
void exec_result_done(struct exec_result *r);
void exec_result_write(struct buf *b, const struct exec_result *r);
int exec_result_read(struct wire *w, struct exec_result *out) MUST_USE;

// What is in force in a cell; recorded in `skep show`, the journal and the API.
struct isolation {
	char *backend;	   // "native"
	char *userns;	   // "own range" | "caller" | "caller+subuids"
	char *limits;	   // "cgroup-v1" | "cgroup-v2" | "supervised"
	char *disk;	   // "supervised"
	char *freeze;	   // "cgroup" | "signals"
	char *network;	   // "closed"
	uint32_t landlock; // ABI, 0 = absent
	uint32_t seccomp_allowed; // number of system calls the filter lets through
	uint64_t caps;	   // bounding set inside
	bool no_new_privs, nested, trace, groups_dropped;
	char *cgroup; // path below the mount, for reconciliation; not shown
};
void isolation_done(struct isolation *i);
void isolation_write(struct buf *b, const struct isolation *i);
int isolation_read(struct wire *w, struct isolation *out) MUST_USE;
void isolation_json(struct buf *b, const struct isolation *i);
