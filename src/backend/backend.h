// SPDX-License-Identifier: Apache-2.0
// What makes cells. The engine asks facts, never the name, and sees no descriptor and no channel.
//
// Everything is asynchronous: an operation returns at once and its outcome comes from the loop later, never
// from inside the call. A cell handle is owned by the backend: it is void after up() reported an error, or
// after gone().
#pragma once
#include "base/sha256.h"
#include "model/layer.h"
#include "model/spec.h"
#include "model/volume.h"

struct cell;
struct backend;

struct reply {
	void (*fn)(void *ctx, const struct err *e); // e NULL = done
	void *ctx;
};

struct layer_reply {
	void (*fn)(void *ctx, const struct err *e, const struct layer_result *r); // e NULL = done, and r says what
	void *ctx;
};

struct volume_reply {
	void (*fn)(void *ctx, const struct err *e, int fd); // fd of the answer, borrowed; e NULL = done
	void *ctx;
};

struct count_reply {
	void (*fn)(void *ctx, const struct err *e, uint32_t count);
	void *ctx;
};

// A connection into a cell, taken by the callee. e: why there is none; sys ECONNREFUSED: nothing listens there.
struct flow; // base/flow.h
struct dial_reply {
	void (*fn)(void *ctx, const struct err *e, struct flow *f);
	void *ctx;
};

struct cell_up {
	bool foreign; // of another build: it can be stopped, and everything else fails with UNSUPPORTED. Only pid and start are known
	uint32_t pid;
	uint64_t start; // with pid, the identity of the cell's process
	bool paused;
	struct isolation isolation; // the callee may take it (and zero it here)
	uint64_t seq;		    // journal head
	char head[SHA256_HEX];
};

struct cell_end {
	bool died; // without a word: what follows is unknown
	const char *reason;
	int64_t pending; // changed paths, -1 = not known
	bool removed;	 // its writable layer was renamed to .gone-LAYER, for us to remove
	uint64_t seq;
	char head[SHA256_HEX];
};

// A port that somebody in the cell listens on. Borrowed during the call.
struct cell_port {
	uint16_t port;
	bool local; // bound to loopback only
	uint32_t pid;
	const char *exec, *program; // "" = not known
};
// A connection that is held until somebody answers. Borrowed during the call.
struct cell_ask {
	uint32_t id; // within the cell
	const char *host, *method, *path; // method "": the connection itself
	uint16_t port;
};

// Events of one cell, embedded in its owner.
struct cell_watcher {
	void (*up)(struct cell_watcher *w, struct cell_up *up, const struct err *e); // e: it did not start
	void (*started)(struct cell_watcher *w, const char *exec, uint32_t pid);
	void (*exited)(struct cell_watcher *w, const char *exec, const struct exec_result *r);
	void (*hit)(struct cell_watcher *w, const char *limit, const char *message);
	void (*paused)(struct cell_watcher *w, bool paused);
	void (*pending)(struct cell_watcher *w, uint32_t count); // changed paths, some time after an exec ended
	void (*asked)(struct cell_watcher *w, const struct cell_ask *a);
	// Somebody else answered, or time did. verdict, scope: enum verdict and enum answer_scope.
	void (*answered)(struct cell_watcher *w, uint32_t ask, uint8_t verdict, uint8_t scope);
	void (*port)(struct cell_watcher *w, bool open, const struct cell_port *p); // may be NULL
	void (*gone)(struct cell_watcher *w, const struct cell_end *end);
};

// Who puts identities aside for sandboxes to come. One that was lent and not asked for (expects) is given back.
struct lender {
	bool (*lend)(void *ctx, struct identity *out);
	void (*give_back)(void *ctx, const struct identity *i);
	void *ctx;
};

struct backend_ops {
	// Is something built already for a new sandbox like this one? Then it should have this identity, and either be started
	// soon or forsaken. Both may be NULL: nothing ever is. Of `like` count: profile, nested, trace_off, keep_tmp, strict, base,
	// image, limits, and those of its lowers that do not belong to its base.
	bool (*expects)(struct backend *b, const struct cell_spec *like, struct identity *out);
	void (*forsake)(struct backend *b, const char *id);
	// A sandbox that was made, never ran, and will probably be started soon, with a spec like this. May be NULL.
	void (*prepare)(struct backend *b, const struct cell_spec *spec);
	// fresh: the layer does not exist yet, the backend makes it. spec->net.secrets goes to the cell in sealed memory.
	struct cell *(*start)(struct backend *b, const struct cell_spec *spec, bool fresh, struct cell_watcher *w);
	// A cell that outlived the daemon before us.
	struct cell *(*adopt)(struct backend *b, const char *sandbox, const char *key, struct cell_watcher *w);
	void (*exec)(struct cell *c, const struct exec_spec *x, const char *ticket, struct reply r);
	void (*ticket)(struct cell *c, const char *exec, const char *ticket, struct reply r);
	void (*kill)(struct cell *c, const char *exec, uint32_t signal, struct reply r);
	// The reply to on comes when nothing in the cell runs any more: its layer can be copied.
	void (*pause)(struct cell *c, bool on, struct reply r);
	// To a port of the cell's own loopback; nothing else can be named.
	void (*dial)(struct cell *c, uint16_t port, struct dial_reply r);
	void (*dials)(struct cell *c, const char *ticket, struct reply r); // a local client that shows it to the cell may dial
	void (*members)(struct cell *c, struct count_reply r); // processes beside pid 1
	void (*event)(struct cell *c, const char *type, const char *by, const char *body, struct reply r);
	void (*policy)(struct cell *c, const struct cell_net *n, struct reply r); // replaces what the cell's gate was told
	void (*refresh)(struct cell *c); // its base has changed: the next command sees that. May be NULL
	// The first answer to an ask counts. by: for the journal.
	void (*answer)(struct cell *c, uint32_t ask, uint8_t verdict, uint8_t scope, const char *by);
	// Its limits and times; expires 0 = never.
	void (*limits)(struct cell *c, const struct limits *l, uint64_t expires_unix_ms, uint64_t idle_ms, struct reply r);
	void (*stop)(struct cell *c, uint32_t grace_ms, bool remove_layer); // the outcome is gone()
	// Directories, named from SKEP_HOME on, which may hold files of other uids.
	void (*remove)(struct backend *b, char *const *dirs, struct reply r);
	// Work on whole layers (model/layer.h). Everything in op is copied. Asked again when the nursery died over it.
	void (*layer)(struct backend *b, const struct layer_op *op, struct layer_reply r);
	// Work on files in a volume. body: what is put, borrowed, else -1. Asked again when the nursery died over it.
	void (*volume)(struct backend *b, const struct volume_op *op, int body, struct volume_reply r);
	void (*free)(struct backend *b); // lets go of every cell; they live on
};

struct backend {
	const char *name;
	bool can_pause;
	const struct backend_ops *ops;
	struct lender lender; // the engine's, while there is one
};

// The native backend: namespaces, through skep-cell. All strings are copied.
struct loop;
struct native_config {
	const char *skep_home, *home;
	const char *cell_program; // skep-cell, absolute
	int nursery_fd;		  // -1: spawn the nursery; else speak to the one at this end (taken)
};
struct backend *backend_native_new(struct loop *l, const struct native_config *cfg, struct err *e) MUST_USE;
