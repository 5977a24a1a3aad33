// SPDX-License-Identifier: Apache-2.0
// One exec inside: its process, its three streams (or a terminal), and how they end. The exec is over when its
// leader was reaped and what it wrote has been passed on; a stream that a background process still holds open is
// read on after that, or, where the request wants it so, holds up the end.
#pragma once
#include "base/chan.h"
#include "init/init.h"

struct exec;

struct stream {
	struct watch w;
	struct exec *owner;
	uint8_t number;
	bool open, quiet; // quiet: nothing to read at the last look
	bool ended;	  // all of it was read; still open
	uint64_t sent, credit;
};

struct exec {
	struct exec *next;
	struct loop *loop;
	struct chan *chan;
	uint32_t id;
	char name[ID_SIZE];
	pid_t pid;   // leader: the command, or the keeper of its terminal
	pid_t group; // the command's process group
	bool tty, exited, reported;
	bool job;	// our own work, which a command may not stop (exec_unstop)
	unsigned stops; // how often one tried
	bool whole; // reported when its streams are closed
	bool ends, last; // the cell ends with it; and, nothing else being there, at once
	int status;  // wait status of the command
	struct stream out[2];
	struct chore ended; // closes those of them that did
	struct watch in;   // writable end of stdin or the terminal
	int in_fd;
	struct buf in_data;
	bool in_eof;
	uint64_t in_taken, in_granted;
	struct watch keeper; // terminal: reports of the keeper process
	int keeper_fd;
};

void exec_init(struct chore *over); // which is done whenever an exec may be over by what was seen of it

// NULL and *e on failure to start (kind NOT_FOUND: no such command; DENIED: not executable).
struct exec *exec_start(const struct init_opts *o, struct loop *l, struct chan *c, uint32_t id, struct exec_spec *s,
			struct err *e);
struct spawn;
int exec_choose_user(const struct init_opts *o, const struct exec_spec *s, struct spawn *sp, struct err *e) MUST_USE;
const char *exec_env(char *const *env, const char *key); // NULL = not there
void exec_free(struct exec *x);
void exec_reaped(struct exec *x, int status);
bool exec_is_over(const struct exec *x); // reported and every stream closed
// A job is a process of the cell's user like any other, so a command can stop it, and whoever asked for it would wait for ever.
// It is continued, and ended when that does not help.
void exec_unstop(struct exec *x);
void exec_input(struct exec *x, const void *p, size_t n);
void exec_input_eof(struct exec *x);
void exec_output_close(struct exec *x, uint8_t stream); // its reader is gone: the next write fails
void exec_credit(struct exec *x, uint8_t stream, uint64_t upto);
void exec_pump_all(struct exec *x); // after the channel had been too full to read on
void exec_resize(struct exec *x, uint32_t rows, uint32_t cols);
void exec_signal(struct exec *x, int sig, bool tree);
