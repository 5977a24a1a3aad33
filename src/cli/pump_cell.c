// SPDX-License-Identifier: Apache-2.0
// From the cell.
#include "cli/pump_int.h"

#include "base/mem.h"
#include "cli/out.h"
#include "cli/term.h"
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#define HITS_MAX 32		    // different messages shown

struct sink *pump_sink_of(struct pump *p, int stream)
{
	return &p->sinks[stream == 2 && !p->joined];
}

int pump_refuse(struct pump *p)
{
	p->refused = true;
	return -1;
}

int pump_malformed(struct pump *p)
{
	err_set(p->e, ERR_BUG, "the cell sent a malformed frame");
	return pump_refuse(p);
}

int pump_sink_failed(struct pump *p)
{
	if (p->e->sys != EPIPE && p->e->sys != EIO)
		return pump_refuse(p);
	// As in a shell's pipeline: the command's next write fails, it does not work on for nobody.
	pump_put_frame(p, M_EOF, 1, &(struct buf){0});
	pump_flush_out(p);
	p->r->out_closed = true;
	return -1;
}

static int tell_gap(struct pump *p, int stream, uint64_t from, uint64_t to)
{
	p->got[stream] = to;
	auto_buf struct buf b = BUF_INIT(256);
	buf_fmt(&b, "skep: [%llu bytes of %s were not kept]\n", (unsigned long long)(to - from),
		stream == 1 ? "stdout" : "stderr");
	return sink_put(&p->sinks[1 - p->joined], b.p, b.n, p->e) ? pump_sink_failed(p) : 0;
}

// NULL: it ends here.
static int put_output(struct pump *p, int stream, const char *bytes, size_t n)
{
	int fd = stream == 1 ? p->s->out : p->s->err;
	if (p->s->tty && n)
		modes_read(&p->modes, bytes, n);
	if (!p->s->plain || fd < 0 || !isatty(fd))
		return n ? sink_put(pump_sink_of(p, stream), bytes, n, p->e) : 0;
	auto_buf struct buf b = BUF_INIT(5 * n + 256);
	if (bytes)
		plain_add(&p->plain[stream - 1], bytes, n, &b);
	else
		plain_end(&p->plain[stream - 1], &b);
	return sink_put(pump_sink_of(p, stream), b.p, b.n, p->e);
}

static int on_data(struct pump *p, int stream, struct wire *w)
{
	uint64_t off = wire_get_u64(w);
	if (w->bad || stream < 1 || stream > 2)
		return pump_malformed(p);
	if (off > p->got[stream] && tell_gap(p, stream, p->got[stream], off))
		return -1;
	uint64_t seen = p->got[stream] - off; // a repeated part is not shown twice
	if (seen >= w->n)
		return 0;
	p->got[stream] += w->n - seen;
	return put_output(p, stream, (const char *)w->p + seen, w->n - seen) ? pump_sink_failed(p) : 0;
}

static int on_gap(struct pump *p, int stream, struct wire *w)
{
	uint64_t from = wire_get_u64(w), to = wire_get_u64(w);
	if (w->bad || stream < 1 || stream > 2 || to < from)
		return pump_malformed(p);
	return to > p->got[stream] ? tell_gap(p, stream, from, to) : 0;
}

static int on_ended(struct pump *p, struct wire *w)
{
	if (p->exited || exec_result_read(w, &p->r->exit))
		return pump_malformed(p);
	p->exited = true;
	term_restore(); // what follows may take a moment, and ^C should work again
	bool failed = put_output(p, 1, NULL, 0) || put_output(p, 2, NULL, 0) || pump_ask_drop(p, ": the command ended");
	return failed ? pump_sink_failed(p) : 0;
}

static int on_changes(struct pump *p, struct wire *w)
{
	uint32_t n = wire_get_u32(w);
	char **list = wire_get_strv(w);
	if (w->bad || p->r->changes)
		return pump_malformed(p);
	p->r->n_changes = n;
	p->r->changes = list;
	p->r->has_changes = true;
	changes_sum_read(w, &p->r->sum);
	return 0;
}

// The cell says which limit was hit while the command still runs, or just before it dies of it.
static int on_hit(struct pump *p, struct wire *w)
{
	auto_free char *limit = wire_get_str(w), *msg = wire_get_str(w);
	if (w->bad || !limit || !msg)
		return pump_malformed(p);
	if (!p->s->hits || pump_has_told(p->r, msg) || strv_len(p->r->hits) >= HITS_MAX)
		return 0;
	strv_add(&p->r->hits, msg);
	auto_buf struct buf b = BUF_INIT(8192);
	buf_str(&b, "skep: ");
	out_text(&b, msg);
	buf_str(&b, p->s->tty && !p->exited ? "\r\n" : "\n"); // a raw terminal does not return by itself
	return sink_put(pump_sink_of(p, 2), b.p, b.n, p->e) ? pump_sink_failed(p) : 0;
}

static int on_refusal(struct pump *p, struct wire *w)
{
	uint32_t kind = wire_get_u32(w);
	(void)wire_get_u32(w);
	auto_free char *msg = wire_get_str(w);
	if (kind == ERR_DENIED && p->repeat && p->s->exec && !p->line.stranger) {
		p->line.stranger = p->closed = p->mute = true; // it waited for us no longer
		return 0;
	}
	err_set(p->e, kind && kind < ERR_KINDS ? (enum err_kind)kind : ERR_SYSTEM, "%s",
		msg ? msg : "the cell refused");
	return pump_refuse(p);
}

static int on_frame(struct pump *p, const struct frame *f)
{
	struct wire w = {.p = f->p, .n = f->n};
	switch ((enum msg_type)f->type) {
	case M_DATA:
		return on_data(p, f->stream, &w);
	case M_GAP:
		return on_gap(p, f->stream, &w);
	case M_CREDIT:
		return f->stream ? 0 : pump_on_credit(p, &w);
	case M_SUSPENDED:
		pump_suspend(p);
		return 0;
	case M_EXIT:
		return on_ended(p, &w);
	case M_HIT:
		return on_hit(p, &w);
	case M_ASK:
		return pump_on_ask(p, f->id, &w) ? pump_sink_failed(p) : 0;
	case M_ANSWER:
		return pump_on_answer(p, f->id, &w) ? pump_sink_failed(p) : 0;
	case M_CHANGES:
		return on_changes(p, &w);
	case M_DONE:
		p->r->removed = wire_get_u8(&w);
		p->done = true;
		return 0;
	case M_ERR:
		return on_refusal(p, &w);
	default: // what a newer cell may tell
		return 0;
	}
}

// Handles every whole frame in p->in and keeps the rest.
static int take_frames(struct pump *p)
{
	size_t at = 0;
	while (p->in.n - at >= FRAME_HEAD) {
		const uint8_t *h = (const uint8_t *)p->in.p + at;
		uint32_t n = h[0] | h[1] << 8 | h[2] << 16 | (uint32_t)h[3] << 24;
		if (n > FRAME_MAX || h[6])
			return pump_malformed(p);
		if (p->in.n - at < FRAME_HEAD + n)
			break;
		uint32_t id = h[8] | h[9] << 8 | h[10] << 16 | (uint32_t)h[11] << 24;
		if (on_frame(p, &(struct frame){.type = h[4], .stream = h[5], .id = id, .p = h + FRAME_HEAD, .n = n, .fd = -1}))
			return -1;
		if (h[4] != M_ERR)
			line_works(&p->line);
		at += FRAME_HEAD + n;
	}
	buf_cut(&p->in, at);
	return 0;
}

int pump_read_cell(struct pump *p)
{
	char *room = buf_room(&p->in, p->chunk);
	assert(room);
	ssize_t n = recv(p->sock, room, p->chunk, MSG_DONTWAIT);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n <= 0) {
		p->closed = p->mute = true;
		return 0;
	}
	p->in.n += (size_t)n;
	bool idle = (size_t)n < p->chunk;
	if (!idle)
		p->chunk = READ_CHUNK;
	if (take_frames(p))
		return -1;
	pump_put_seen(p, idle);
	return 0;
}
