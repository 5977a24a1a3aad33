// SPDX-License-Identifier: Apache-2.0
// One command of ours in a sandbox, from beginning to end: its output in lines, a file as its input.
#include "api/e2b_int.h"

#include "base/mem.h"
#include "engine/tap.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4096
#define BLOCK (64u << 10)

struct running {
	struct engine *g;
	struct tap *tap;
	struct e2b_command c; // its strings are gone
	char sandbox[ID_SIZE];
	int input;
	uint64_t at;
	bool fed;
	struct buf line[2];
};

static void finish(struct running *r, const struct err *e, int status)
{
	for (int i = 0; i < 2; i++) {
		if (r->line[i].n && r->c.line)
			r->c.line(r->c.ctx, i + 1, r->line[i].p, r->line[i].n);
		buf_done(&r->line[i]);
	}
	close_fd(&r->input);
	r->c.done(r->c.ctx, e, status);
	free(r);
}

static void flush_line(struct running *r, int i)
{
	if (r->c.line)
		r->c.line(r->c.ctx, i + 1, r->line[i].n ? r->line[i].p : "", r->line[i].n);
	buf_clear(&r->line[i]);
}

static void on_data(void *ctx, int stream, uint64_t offset, const void *p, size_t n)
{
	struct running *r = ctx;
	const char *at = p, *end = at + n;
	(void)offset;
	while (at < end) {
		const char *nl = memchr(at, '\n', (size_t)(end - at));
		size_t part = (size_t)((nl ? nl : end) - at), room = LINE_MAX_BYTES - r->line[stream - 1].n;
		part = part < room ? part : room;
		buf_add(&r->line[stream - 1], at, part);
		at += part;
		if (at == nl || r->line[stream - 1].n == LINE_MAX_BYTES)
			flush_line(r, stream - 1);
		at += at == nl;
	}
}

static void on_room(void *ctx, uint64_t received)
{
	struct running *r = ctx;
	char block[BLOCK];
	(void)received;
	while (r->tap && !r->fed) {
		size_t room = tap_room(r->tap);
		ssize_t n = room && r->input >= 0 ? pread(r->input, block, room < BLOCK ? room : BLOCK, (off_t)r->at) : 0;
		if (!room)
			return;
		if (n <= 0) {
			r->fed = true;
			tap_eof(r->tap);
			return;
		}
		r->at += tap_send(r->tap, block, (size_t)n);
	}
}

static void on_end(void *ctx, const struct err *e, const struct exec_result *res)
{
	finish(ctx, res ? NULL : e, res ? (int)res->status : -1);
}

static const struct tap_ops ops = {.data = on_data, .room = on_room, .end = on_end};

static void on_begun(void *ctx, const struct err *e, const struct outcome *o)
{
	struct running *r = ctx;
	struct err te;
	if (e) {
		finish(r, e, -1);
		return;
	}
	r->tap = tap_open(e2b_loop(), r->g, r->sandbox, o->ticket, NULL, &ops, r, &te);
	if (!r->tap)
		finish(r, &te, -1);
}

void e2b_command(struct engine *g, const struct e2b_command *c)
{
	struct running *r = xcalloc(1, sizeof *r);
	*r = (struct running){.g = g, .c = *c, .input = c->input >= 0 ? fcntl(c->input, F_DUPFD_CLOEXEC, 0) : -1};
	r->line[0] = r->line[1] = BUF_INIT(LINE_MAX_BYTES);
	memcpy(r->sandbox, c->sandbox, strnlen(c->sandbox, ID_SIZE - 1));
	struct exec_request x = {
		.argv = strv_copy(c->argv),
		.env = c->env ? strv_copy(c->env) : NULL,
		.cwd = c->cwd ? xstrdup(c->cwd) : NULL,
		.user = c->user ? xstrdup(c->user) : NULL,
		.want_stdin = c->input >= 0,
		.has_timeout = true,
		.timeout_ms = c->timeout_ms,
	};
	engine_exec(g, r->sandbox, &x, (struct done){on_begun, r});
}
