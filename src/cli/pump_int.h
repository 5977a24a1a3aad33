// SPDX-License-Identifier: Apache-2.0
// One pump, in parts: pump.c the loop, pump_out.c what goes to the cell, pump_in.c stdin, pump_ask.c questions, pump_cell.c what comes from
// the cell, pump_signal.c signals.
#pragma once
#include "base/chan.h"
#include "cli/ask.h"
#include "cli/line.h"
#include "cli/modes.h"
#include "cli/plain.h"
#include "cli/pump.h"
#include "cli/sink.h"
#include "model/msg.h"
#include <signal.h>

#define READ_CHUNK (256u << 10)

struct pump {
	const struct pump_spec *s;
	struct pump_result *r;
	struct err *e;
	struct line line;
	int sock, sigfd;
	bool closed;  // the cell closed the connection
	bool mute;    // it takes nothing more from us
	bool refused; // *e is filled: the cell said no, or writing failed
	bool exited;
	int fatal; // signal that ends us
	struct buf in, out;
	size_t chunk, out_at; // chunk: bytes asked for at once
	struct sink sinks[2]; // stdout, stderr
	struct plain plain[2];
	bool joined;	      // both are the same file: one queue keeps their order
	uint64_t got[3];      // by stream: offset of the next byte
	uint64_t in_off, in_credit;
	uint64_t mine;	     // bytes of stdin sent by us alone
	bool in_over, typed; // typed: bytes of stdin were sent
	bool in_ended;	     // and the cell was told that there are no more
	bool done;		// M_DONE came
	bool came_back;		// on a line that is not the first
	bool repeat;		// and the cell has yet to say what of stdin it has
	struct ask ask;
	struct sink screen; // of the terminal that is asked on
	bool screen_open;
	int ask_lock;	    // cli/prompt.h
	struct modes modes; // of the terminal, as the command's output left them
	sigset_t mask_before;
};

// pump_out.c
void pump_put_head(char *at, uint32_t n, uint8_t type, uint8_t stream);
void pump_put_frame_of(struct pump *p, enum msg_type type, uint8_t stream, uint32_t id, const struct buf *body);
void pump_put_frame(struct pump *p, enum msg_type type, uint8_t stream, const struct buf *body);
void pump_put_signal(struct pump *p, int sig);
void pump_repeat_signals(struct pump *p); // those that the cell has not heard of
void pump_put_winsize(struct pump *p);
void pump_put_redraw(struct pump *p);
void pump_put_hello(struct pump *p);
void pump_put_credit(struct pump *p, uint8_t stream);
void pump_put_seen(struct pump *p, bool idle);
void pump_put_alive(struct pump *p);
void pump_flush_out(struct pump *p);
void pump_flush_last_words(struct pump *p);

// pump_in.c
bool pump_wants_stdin(const struct pump *p);
int pump_on_credit(struct pump *p, struct wire *w);
void pump_read_stdin(struct pump *p);

// pump_ask.c
int pump_on_ask(struct pump *p, uint32_t id, struct wire *w);
int pump_on_answer(struct pump *p, uint32_t id, struct wire *w);
int pump_ask_turn(struct pump *p);
void pump_ask_redraw(struct pump *p);
int pump_ask_drop(struct pump *p, const char *why);
void pump_ask_close(struct pump *p);
bool pump_ask_keys(struct pump *p, const char *keys, size_t n);

// pump_cell.c
struct sink *pump_sink_of(struct pump *p, int stream);
int pump_refuse(struct pump *p);
int pump_malformed(struct pump *p);
int pump_sink_failed(struct pump *p);
int pump_read_cell(struct pump *p);

// pump_signal.c
void pump_take_terminal(struct pump *p);
void pump_suspend(struct pump *p);
void pump_on_signal(struct pump *p, int sig);
int pump_open_signals(struct pump *p);
void pump_die_of(struct pump *p);
