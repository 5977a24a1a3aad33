// SPDX-License-Identifier: Apache-2.0
// The project file .skep.yaml, and the user's and the site's config.yaml: one strict reader. Unknown or repeated keys,
// wrong types, anchors, aliases, tags and a second document are errors that name the line. An empty file, one
// with only comments or a byte order mark says nothing, and allows nothing.
//
//   image: NAME                          env: {K: V}  or  [K=V]
//   setup: CMD | [CMD] | {run: [CMD], files: [LOCKFILE], net: NET}
//   ports: [N]   hide: [GLOB]   test: CMD
//   net: PRESET | {preset: PRESET | [PRESET], allow: [RULE], deny: [RULE], ask: BOOL}
//        rules as in model/policy.h, without '!'
//   secrets: [NAME]   mounts: [DIR[:PATH][:ro]]
//   limits: {cpus, memory, disk, pids, files, nofile, output_cap, timeout, ttl, idle}      as on the command line
//   config.yaml: net, limits, min_isolation: default | strict, resolver: ADDR[:PORT], ca_file: PATH,
//                disk_budget: SIZE, caches: on | off, git_user: on | off, listen: [ADDR:PORT], public_url: [URL]
//
// A project file is hostile until trusted: image, setup, most of env, ports, hide and test work at once inside the
// boundary and without network; what needs trust stands in struct project_wishes.
#pragma once
#include "model/limits.h"
#include "model/policy.h"

#define PROJECT_FILE (64u << 10) // bytes; a longer file is refused unread
#define PROJECT_PORTS 32

struct net_part {
	char *preset;	      // NULL = not said; several are joined with ','
	char **allow, **deny; // texts of rules, checked; deny with its '!'
	bool has_ask, ask;
};
bool net_part_says(const struct net_part *n); // anything
// Adds all or nothing. registries as for preset_add.
int net_add(struct policy *p, const struct net_part *net, const char *from, char *const *registries,
	    struct err *e) MUST_USE;

enum limit_key {
	LIMIT_CPUS, // milli
	LIMIT_MEMORY,
	LIMIT_DISK,
	LIMIT_PIDS,
	LIMIT_FILES,
	LIMIT_NOFILE,
	LIMIT_OUTPUT_CAP,
	LIMIT_TIMEOUT, // ms, as the next two
	LIMIT_TTL,
	LIMIT_IDLE,
	LIMIT_KEYS,
};
struct limit_wish {
	bool set[LIMIT_KEYS];
	uint64_t value[LIMIT_KEYS]; // 0 = not limited
};
const char *limit_key_name(enum limit_key k);

// K or K=V: a variable that makes programs run or load something, or talk to somebody else.
bool env_is_helper(const char *kv);

// Counts only after `skep trust`.
struct project_wishes {
	struct net_part net, setup_net;
	char **secrets; // names
	char **mounts;
	char **env; // K=V for which env_is_helper
	struct limit_wish limits; // only those above the default; the others are in struct project
};

struct project {
	char *image;
	char **setup, **setup_files;
	char **env; // K=V
	uint16_t ports[PROJECT_PORTS];
	size_t n_ports;
	char **hide;
	char *test;
	char *ws_path;	  // where it wants to be seen inside; devcontainer.json only
	char **left_out;  // what it says and never gets, one line each; devcontainer.json only
	bool from_devcontainer;
	struct limit_wish limits; // at or below the default
	struct project_wishes wishes;
};
int project_parse(const char *p, size_t n, struct project *out, struct err *e) MUST_USE;
void project_done(struct project *p);
bool project_has_wishes(const struct project *p);
void project_json(struct buf *b, const struct project *p); // {"now":{…},"after_trust":{…}}: the exact effect

struct config {
	struct net_part net;
	struct limit_wish limits;
	bool has_strict, strict; // min_isolation
	char *resolver;		 // NULL, or "ADDR:PORT" with brackets around IPv6
	bool no_caches;		 // package caches of the caller are not shown
	bool no_git_user;	 // nor its name and address for commits
	char *ca_file;		 // NULL, or an absolute path: CAs beside the system's that the gates believe
	char **listen, **public_urls; // where skepd listens on TCP from its start; NULL = nowhere
	char **image_mirrors;  // "HOST=URL" (model/imageref.h); NULL = none
	char **image_insecure; // HOST[:PORT] of registries that may be asked without TLS
	bool has_budget;
	uint64_t budget; // bytes that layers, images and caches may take; 0 = not limited
	// What one review may take: bytes of contents, seconds, and bytes of disk that it leaves free. 0 = as built in
	uint64_t review_bytes, review_seconds, review_free;
};
int config_parse(const char *p, size_t n, struct config *out, struct err *e) MUST_USE;
void config_done(struct config *c);
