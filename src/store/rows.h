// SPDX-License-Identifier: Apache-2.0
// The rows of state.db as plain structs. Strings are owned by the struct; times are Unix milliseconds, 0 = none.
#pragma once
#include "base/sha256.h"
#include "model/access.h"
#include "model/spec.h"
#include "model/state.h"

// What a sandbox was told of the network. A sandbox that was told nothing has none.
struct net_row {
	char *preset;	   // NULL = not said
	char **rules;	   // "FROM\tRULE" in the order they came; never NULL in a row that is used
	char **registries; // "host[:port]\tsource", as the caller's package managers are set up
	bool has_ask, ask; // what no rule knows is asked
	char *phase;	   // NULL = agent
	char **secrets;	   // "NAME\tPLACEHOLDER"
	char **headers;	   // "[*.]HOST[:PORT]\tHEADER\tSEALED": what is set on requests there; NULL = nothing
	char *ca_cert;	   // PEM; NULL = none was needed yet
	struct buf ca_key; // sealed
};
void net_row_done(struct net_row *n);

// How far the record of a live base is (DESIGN: it is read after the sandbox was made, by a child).
enum base_pin { PIN_NONE, PIN_PINNING, PIN_PINNED, PIN_FAILED, PIN_INHERITED };
enum on_expiry { EXPIRY_STOP, EXPIRY_PAUSE, EXPIRY_DELETE, EXPIRIES };
const char *on_expiry_name(enum on_expiry x);

// What a sandbox took from its project's file when it was made.
#define PROJECT_PORTS_KEPT 32
struct project_row {
	bool off;     // the file is left aside for the whole life of the sandbox
	char *file;   // its path; NULL = there was none
	char **hide;  // globs; NULL = none, as in the next two
	char **setup; // commands
	char **setup_files;
	char **env;	 // what the file itself said of it
	char *setup_key; // of the setup layer it stands on; NULL = none
	char *setup_of;	 // it is itself making the setup layer with this key; NULL = no
	char *test; // command; NULL = none
	uint16_t ports[PROJECT_PORTS_KEPT];
	size_t n_ports;
};
void project_row_done(struct project_row *p);
void project_row_write(struct buf *b, const struct project_row *p);
void project_row_read(struct wire *w, struct project_row *out);

struct sandbox {
	char id[ID_SIZE], layer[ID_SIZE], machine_id[KEY_SIZE];
	char *name;  // NULL = none
	char *owner; // login name of the daemon's user
	enum state state;
	char *reason; // why failed or why stopped; NULL
	enum profile profile;
	bool nested, trace_off, strict;
	bool keep_tmp; // /tmp is part of its layer
	bool run, keep;	   // ends with its first exec; keep it all the same
	char *image;	   // image id, NULL = the host's own
	char *repo;	   // base directory, NULL = empty
	char *head;	   // commit or ref text of the base at creation, NULL
	uint64_t base_dev, base_ino;
	char *ws_path;
	char *path; // the caller's PATH at creation: which tool roots are shown
	char **env, **labels; // K=V, never NULL
	struct cell_mount *mounts; // asked for by the caller; tool roots are not among them
	uint32_t n_mounts;
	struct limits limits;
	uint32_t umask_bits;
	uint64_t timeout_ms, ttl_ms, idle_ms;
	uint64_t created, used, expires;
	int64_t pending; // changed paths, -1 = unknown
	bool has_isolation;
	struct isolation isolation; // of the last cell
	uint64_t anchor_seq;	    // journal head at the last state change
	char anchor[SHA256_HEX];
	bool has_net;
	struct net_row net;
	// What lies below its writable layer, newest first, named from SKEP_HOME on ("layers/ID"). The last n_base belong to
	// the base (private .git, setup): what they hold is not pending.
	char **lowers; // never NULL
	uint32_t n_base;
	char *context; // the key under which it is found again; NULL
	char *origin;  // id of the snapshot it was made from; NULL
	char *url, *ref; // of a repository that is no local directory; NULL
	char *tree; // what it stands on instead of the live directory, from SKEP_HOME on: a checkout, a frozen copy; NULL
	char **objects; // "HOST\tINSIDE": directories with git objects that are shown read-only; never NULL
	enum base_pin base_pin;
	char *pin; // tree in its shadow repository that holds what the base was; NULL
	enum on_expiry on_expiry;
	uint64_t bytes; // in its own layers, when last counted
	bool auto_snapshot; // before every exec
	bool pinned; // never expires, and goes by force only
	bool lease;  // its time to live begins anew with every use
	bool layer_made; // its writable layer was seen: one that is not there any more was lost, not yet to be made
	struct project_row project;
};
void sandbox_done(struct sandbox *s);

// A sandbox at one moment: a stack of sealed layers, and what a new sandbox on it inherits.
struct snapshot {
	char id[ID_SIZE], sandbox[ID_SIZE];
	char *name; // unique among those of its sandbox; NULL
	uint64_t created;
	bool automatic;
	bool frozen;  // a copy was made beside running processes
	bool durable; // its layers are on disk: it survives a power cut
	char **lowers;
	uint32_t n_base;
	int64_t pending;
	struct buf template; // sandbox_template_write
};
void snapshot_done(struct snapshot *n);
// What a fork or a rollback takes over: all that was asked for at creation, not identity, name, network or state.
void sandbox_template_write(struct buf *b, const struct sandbox *s);
int sandbox_template_read(const struct buf *b, struct sandbox *out) MUST_USE; // only those members

// Something that can be made again, kept under what it was made from.
enum derived_kind { DERIVED_GIT, DERIVED_TREE, DERIVED_REPO, DERIVED_SETUP, DERIVED_STEP, DERIVED_KINDS };
struct derived_row {
	enum derived_kind kind;
	char *key, *path; // path: from SKEP_HOME on
	char **info;	  // lines, for who made it
	uint64_t created, used, bytes;
};
void derived_row_done(struct derived_row *d);

struct cell_row {
	char sandbox[ID_SIZE];
	char key[KEY_SIZE];
	uint32_t pid;	// 0 while starting
	uint64_t start; // process start time: with the pid, an identity
	char **lowers;	// what it has mounted: compaction may have changed the sandbox's list since; may be NULL
};
void cell_row_done(struct cell_row *c);

struct exec_row {
	char id[ID_SIZE], sandbox[ID_SIZE];
	char **argv;
	char *cwd, *user;
	bool tty, running;
	uint32_t pid; // inside
	uint64_t started;
	struct exec_result result; // valid when not running
};
void exec_row_done(struct exec_row *x);

struct image_row {
	char id[ID_SIZE];
	char *name, *source; // source of one that was pulled: its canonical reference (model/imageref.h)
	uint64_t bytes, files, created;
	char *digest; // of what that reference named in the registry; NULL: it was imported
	char *config; // JSON: env, user, workdir, entrypoint, cmd of the image; NULL likewise
};
void image_row_done(struct image_row *i);
void image_row_copy(const struct image_row *i, struct image_row *out); // *out is replaced

// What is remembered of a removed sandbox, so that its kept journal can still be verified.
struct gone_row {
	char id[ID_SIZE];
	uint64_t removed, anchor_seq;
	char anchor[SHA256_HEX];
};

// A sealed secret. as: enum secret_as of model/policy.h.
struct secret_row {
	char *name, *host, *key; // key: of a header or query, else NULL
	uint16_t port;
	int as;
	struct buf sealed;
	uint64_t created, used; // used: last given to a cell
};
void secret_row_done(struct secret_row *r);

// A project file its user has agreed to, by path and content.
struct trust_row {
	char *path;
	char sha256[SHA256_HEX];
	uint64_t at;
};
void trust_row_done(struct trust_row *r);

// What a user gave to somebody: only the hash of it. A sandbox's own token has no row.
struct token_row {
	char id[ID_SIZE]; // t…
	char *name;	  // NULL = none
	char sha256[SHA256_HEX];
	enum scope scope;
	enum on_kind on;
	char *value;   // of on: "K=V", the id of a sandbox, ""
	uint64_t rate; // requests a second; 0 = the default
	uint64_t created, expires, used;
};
void token_row_done(struct token_row *t);

// A directory that is shown in sandboxes: model/volume.h.
struct volume_row {
	char id[ID_SIZE]; // v…
	char *name, *owner; // owner: "" = who may see all, else the label of the tokens that may; a name is unique among its owner's
	uint64_t created;
};
void volume_row_done(struct volume_row *v);

struct creation_row {
	char *key; // with who used it
	char sha256[SHA256_HEX]; // of the request
	char sandbox[ID_SIZE], exec[ID_SIZE]; // exec "": none
	uint64_t at;
};
void creation_row_done(struct creation_row *c);
