// SPDX-License-Identifier: Apache-2.0
// The bodies of create and exec requests, from options and from what the caller is (docs/api.md).
#pragma once
#include "base/json.h"
#include "cli/net.h"

struct create_opts {
	const char *name, *repo, *image, *backend, *workspace_path, *min_isolation;
	const char *from, *context, *ref, *on_expiry;
	bool empty, root, nested, no_trace, auto_snapshot, pin, no_project, no_setup, pull, wait_setup; // wait_setup: no option
	char **env, **mounts, **volumes, **labels, **alternates;
	uint64_t cpus, memory, disk, pids, nofile, timeout, ttl, idle, lease;
	struct net_opts net;
	bool rm, keep, tty, no_tty; // run
	bool json;		    // new
	const struct cmd *cmd; // no option: the verb that may ask at the terminal when a setup fails; NULL = none does
};

#define CREATE_AT(member) offsetof(struct create_opts, member)
#define CREATE_ROWS                                                                                               \
	VALUE(OPT_STR, CREATE_AT(name), "name", 0, "NAME", "call the sandbox NAME"),                              \
		HINTED(OPT_STR, HINT_DIR, CREATE_AT(repo), "repo", 0, "DIR|URL",                                  \
		       "work on DIR or on a repository (default: the git top level here)"),                       \
		VALUE(OPT_STR, CREATE_AT(ref), "ref", 0, "REF", "of a URL: branch, tag or commit"),               \
		VALUE(OPT_STR, CREATE_AT(context), "context", 0, "KEY",                                           \
		      "find the sandbox of this conversation or task again, or make it"),                         \
		HINTED(OPT_STR, HINT_SNAPSHOT, CREATE_AT(from), "from", 0, "SNAPSHOT", "start from a snapshot"),  \
		FLAG(CREATE_AT(pin), "pin", 0, "work on a frozen copy of the directory (takes as long as copying)"), \
		HINTED(OPT_LIST, HINT_DIR, CREATE_AT(alternates), "alternates", 0, "DIR",                         \
		       "let git inside see objects that the repository borrows from DIR (git clone --shared)"),   \
		FLAG(CREATE_AT(auto_snapshot), "auto-snapshot", 0, "take a snapshot before every command"),       \
		FLAG(CREATE_AT(empty), "empty", 0, "start with an empty workspace"),                              \
		HINTED(OPT_STR, HINT_IMAGE, CREATE_AT(image), "image", 0, "IMAGE",                                \
		       "use this image (default: this host's system)"),                                    \
		FLAG(CREATE_AT(pull), "pull", 0, "fetch the image of --image from its registry, unless it is here"),       \
		VALUE(OPT_STR, CREATE_AT(backend), "backend", 0, "BACKEND",                                       \
		      "what makes its cells: native (default), the one there is"),                                \
		FLAG(CREATE_AT(root), "root", 0, "be root inside, so that packages can be installed"),            \
		FLAG(CREATE_AT(nested), "nested", 0, "allow nested user namespaces (weaker)"),                    \
		FLAG(CREATE_AT(no_trace), "no-trace", 0, "forbid ptrace inside"),                                 \
		VALUE(OPT_LIST, CREATE_AT(env), "env", 'e', "K=V", "set a variable; K alone takes it from here"), \
		HINTED(OPT_LIST, HINT_DIR, CREATE_AT(mounts), "mount", 0, "DIR[:PATH][:ro|:rw]",                  \
		       "show a directory inside (default read-only)"),                                            \
		HINTED(OPT_LIST, HINT_VOLUME, CREATE_AT(volumes), "volume", 0, "NAME:PATH[:ro|:rw]",              \
		       "show a volume inside (default writable)"),                                                \
		NET_ROWS(CREATE_AT(net)),                                                                         \
		VALUE(OPT_MILLI, CREATE_AT(cpus), "cpus", 0, "N", "limit of processors, such as 1.5"),            \
		VALUE(OPT_SIZE, CREATE_AT(memory), "memory", 0, "SIZE", "limit of memory (default 4g)"),          \
		VALUE(OPT_SIZE, CREATE_AT(disk), "disk", 0, "SIZE", "limit of what it may write (default 10g)"),  \
		VALUE(OPT_COUNT, CREATE_AT(pids), "pids", 0, "N", "limit of processes (default 512)"),            \
		VALUE(OPT_COUNT, CREATE_AT(nofile), "nofile", 0, "N", "limit of open files of a process (default 4096)"), \
		VALUE(OPT_DURATION, CREATE_AT(timeout), "timeout", 0, "TIME", "end a command after TIME"),        \
		VALUE(OPT_DURATION, CREATE_AT(ttl), "ttl", 0, "TIME", "end the sandbox after TIME (see --on-expiry)"),            \
		VALUE(OPT_DURATION, CREATE_AT(lease), "lease", 0, "TIME",                                         \
		      "end it TIME after its last use by a client"),                                              \
		CHOICE(CREATE_AT(on_expiry), "on-expiry", 0, "ACTION", "what --ttl and --lease do then (default stop)",     \
		       "stop|pause|delete"),                                                                      \
		VALUE(OPT_DURATION, CREATE_AT(idle), "idle", 0, "TIME",                                           \
		      "stop the sandbox when it did nothing for TIME"),                                           \
		VALUE(OPT_LIST, CREATE_AT(labels), "label", 0, "K=V", "attach a label"),                          \
		VALUE(OPT_STR, CREATE_AT(workspace_path), "workspace-path", 0, "PATH",                            \
		      "where the workspace is seen inside"),                                                      \
		FLAG(CREATE_AT(no_setup), "no-setup", 0, "go without the project's setup commands"),             \
		FLAG(CREATE_AT(no_project), "no-project", 0, "leave the project's .skep.yaml or devcontainer.json aside"), \
		CHOICE(CREATE_AT(min_isolation), "min-isolation", 0, "LEVEL", "refuse to start with less",        \
		       "default|strict")

struct exec_request {
	char *const *argv;
	char *const *env; // as given: K=V or K
	const char *cwd, *user;
	bool here; // without cwd: where the caller stands, if that is in the workspace
	bool tty, want_stdin, detach;
	uint64_t timeout; // OPT_UNSET = none
};

// Makes it, and its exec if there is one: as skepd answered. Owned. (run.c)
json_t *create_sandbox(struct create_opts o, const struct exec_request *x, struct err *e) MUST_USE;

// What is wrong with the options themselves, before anything is asked of skepd: INVALID.
int request_check(const struct create_opts *o, struct err *e) MUST_USE;
int request_check_env(char *const *env, struct err *e) MUST_USE;

// Both append a JSON object. exec may be NULL; with one, the sandbox runs it and ends with it (`run`). registries: the list
// is sent though no option asks for it.
int request_create(struct buf *b, const struct create_opts *o, const struct exec_request *exec, bool registries,
		   struct err *e) MUST_USE;
int request_exec(struct buf *b, const struct exec_request *x, struct err *e) MUST_USE;
int request_job(struct buf *b, char *const *argv, bool want_stdin, struct err *e) MUST_USE;
// realpath; a path that does not exist is NOT_FOUND, told as label and path. With the SKEP_HOST of another machine: as it is, absolute. Owned.
char *request_path(const char *label, const char *path, struct err *e) MUST_USE;
// Base64 in quotes, for arguments that are not UTF-8.
void request_base64(struct buf *b, const char *p, size_t n);
