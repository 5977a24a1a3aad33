// SPDX-License-Identifier: Apache-2.0
// Running git as a program. Never with the configuration of a repository that somebody else may have written:
// the git directory is always one that skep made.
#pragma once
#include "base/buf.h"
#include "base/err.h"

enum git_env {
	GIT_ALONE,  // no configuration, no home, no credentials: for everything but the network
	GIT_CALLER, // the caller's own configuration and credentials
};

struct git_run {
	enum git_env env;
	char **args;	     // owned list after "git"; add with git_arg
	char **vars;	     // owned, K=V beside the environment; add with git_var
	const char *dir;     // --git-dir, or NULL
	const char *tree;    // --work-tree, or NULL
	int in;		     // stdin, or -1
	int hold;	     // a descriptor kept open in git, so that a lock on it lasts as long, or -1
	struct buf out, err; // what it said; set their maxima before
	bool relay;	     // stderr goes on to ours, too
	bool patterns;	     // its paths are patterns of ours; else every path is taken literally
	int status;	     // wait status
	int pid, said[2];    // of one that is fed: where its stdout and stderr go
};

void git_init(struct git_run *g, enum git_env env, const char *dir); // out 64 MiB, err 64 KiB
void git_done(struct git_run *g);
#define auto_git __attribute__((cleanup(git_done)))
void git_arg(struct git_run *g, const char *arg);
void git_args(struct git_run *g, ...) __attribute__((sentinel));
void git_var(struct git_run *g, const char *var);

// Runs it to its end. -1 only when it could not be run; git's own answer is in status.
int git_start(struct git_run *g, struct err *e) MUST_USE;
// The same, and an exit status other than 0 is an error that carries git's last line.
int git_must(struct git_run *g, struct err *e) MUST_USE;
// For one that is fed while it runs. *out_in is the writing end of its stdin, owned; then git_finish.
int git_open(struct git_run *g, int *out_in, struct err *e) MUST_USE;
int git_finish(struct git_run *g, struct err *e) MUST_USE;

const char *git_said(struct git_run *g);			// git's last line that says why, without "fatal: "
const char *git_output(struct git_run *g);			// stdout without its last newline
int git_stdin(const char *p, size_t n, struct err *e) MUST_USE; // an fd that reads as these bytes
