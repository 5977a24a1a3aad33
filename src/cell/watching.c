// SPDX-License-Identifier: Apache-2.0
#include "cell/watching.h"

#include "base/jsonw.h"
#include "base/live.h"
#include "base/mem.h"
#include "cell/changed.h"
#include "model/msg.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define NOTE_MAX (16u << 10)
#define WAITING_MAX (1u << 20) // notes that the job has no room for yet
#define HOLD_MS 2000 // the end of a cell waits no longer for who watches it

enum part { PART_FRAME, PART_BODY, PART_NUMBER };

struct live {
	enum part part;
	uint8_t frame[5], number[8];
	uint32_t at, left;
	struct buf head; // of the body, as far as it is of interest
	uint32_t asked, passed; // notes to the job, and those that came out again
	struct buf waiting;	// notes, until the job has room
	bool dead;
};

static struct {
	struct cell *cell; // its end waits
	struct timer late;
} hold;

bool watching_is(const struct exec_spec *s)
{
	return s->kind == EXEC_JOB && s->argv[0] && !strcmp(s->argv[0], "watch");
}

static void on_unclaimed(struct timer *t)
{
	struct sx *x = container_of(t, struct sx, timeout);
	if (!client_attached(x))
		sx_kill(x, SIGKILL, "nobody came to watch");
}

void watching_begin(struct sx *x)
{
	x->live = xcalloc(1, sizeof *x->live);
	x->live->head = BUF_INIT(LIVE_HEAD);
	x->live->waiting = BUF_INIT(WAITING_MAX);
	x->spec.want_stdin = true;
	x->in_credit = 0;
	x->timeout.fn = on_unclaimed;
	timer_set(&x->cell->loop, &x->timeout, LIMIT_TICKET_MS + 500);
}

static bool is_waited_for(const struct cell *c)
{
	for (const struct sx *x = c->execs; x; x = x->next)
		if (x->live && !x->ended && x->live->passed != x->live->asked && client_attached(x))
			return true;
	return false;
}

static void end_now(struct cell *c)
{
	hold.cell = NULL;
	timer_clear(&c->loop, &hold.late);
	cell_end(c, "exec ended", LIMIT_STOP_GRACE_MS, true);
}

static void on_late(struct timer *t)
{
	(void)t;
	if (hold.cell)
		end_now(hold.cell);
}

bool watching_holds_end(struct cell *c)
{
	if (!is_waited_for(c))
		return false;
	hold.cell = c;
	hold.late.fn = on_late;
	timer_set(&c->loop, &hold.late, HOLD_MS);
	return true;
}

static void maybe_end(void)
{
	if (hold.cell && !is_waited_for(hold.cell))
		end_now(hold.cell);
}

// Its output was kept for slow readers only: nobody can ask for it again.
static void let_go(struct sx *x)
{
	for (int i = 0; i < 2; i++) {
		x->out[i].lost = true;
		ring_close(&x->out[i].ring);
		buf_clear(&x->out[i].rest);
	}
}

void watching_end(struct sx *x)
{
	buf_done(&x->live->head);
	buf_done(&x->live->waiting);
	if (!client_attached(x))
		let_go(x);
	maybe_end();
}

void watching_client_gone(struct sx *x)
{
	if (client_attached(x))
		return;
	if (x->ended)
		let_go(x);
	else
		sx_kill(x, SIGKILL, "nobody watches any more");
	watchdog_look(x->cell, false); // pid 1 learns what was told while somebody watched
	maybe_end();
}

// --- the stream ---

static void on_record(struct sx *x)
{
	struct live *l = x->live;
	struct live_state s;
	if (l->frame[4] == 'C' && !live_read_state(l->head.p, l->head.n, &s))
		changed_live(x->cell, &s);
	if (l->frame[4] == 'E') {
		changed_flush(x->cell);
		l->passed++;
		maybe_end();
	}
	for (int i = 0; i < 8; i++)
		l->number[i] = (uint8_t)(x->cell->journal.seq >> 8 * i);
	buf_clear(&l->head);
	l->part = PART_NUMBER;
	l->at = 0;
}

static void on_frame_byte(struct sx *x, uint8_t byte)
{
	struct live *l = x->live;
	l->frame[l->at++] = byte;
	if (l->at < sizeof l->frame)
		return;
	l->left = l->frame[0] | l->frame[1] << 8 | l->frame[2] << 16 | (uint32_t)l->frame[3] << 24;
	l->part = PART_BODY;
	l->dead = l->left > LIVE_RECORD;
	if (!l->left)
		on_record(x);
}

static size_t on_body(struct sx *x, const uint8_t *p, size_t n)
{
	struct live *l = x->live;
	size_t k = n < l->left ? n : l->left, room = LIVE_HEAD - l->head.n;
	if (l->frame[4] == 'C')
		buf_add(&l->head, p, k < room ? k : room);
	l->left -= (uint32_t)k;
	if (!l->left)
		on_record(x);
	return k;
}

void watching_output(struct sx *x, const void *p, size_t n)
{
	struct live *l = x->live;
	uint8_t *out = xcalloc(1, n ? n : 1);
	memcpy(out, p, n);
	for (size_t i = 0; i < n && !l->dead;) {
		if (l->part == PART_FRAME) {
			on_frame_byte(x, out[i++]);
		} else if (l->part == PART_BODY) {
			i += on_body(x, out + i, n - i);
		} else {
			out[i++] = l->number[l->at++];
			if (l->at == sizeof l->number) {
				l->part = PART_FRAME;
				l->at = 0;
			}
		}
	}
	if (l->dead)
		sx_kill(x, SIGKILL, "the stream of changes is malformed");
	else
		sx_output(x, 1, out, n);
	free(out);
}

// --- notes to the job ---

static void put_note(struct buf *b, const struct sx *x, bool start)
{
	struct jsonw w = {.b = b};
	jw_open(&w, '{');
	jw_kstr(&w, "event", start ? "start" : "exit");
	jw_kstr(&w, "exec", x->spec.id);
	jw_kstrv(&w, "argv", x->spec.argv);
	if (!start)
		jw_ku64(&w, "status", x->result.status);
	jw_close(&w, '}');
}

void watching_room(struct sx *x)
{
	struct buf *b = &x->live->waiting;
	uint64_t room = x->in_credit > x->in_received ? x->in_credit - x->in_received : 0;
	size_t n = room < b->n ? (size_t)room : b->n;
	if (!n || x->ended)
		return;
	chan_send(&x->cell->init, M_DATA, 0, x->number, b->p, n);
	x->in_received += n;
	buf_cut(b, n);
}

void watching_exec(const struct sx *x, bool start)
{
	auto_buf struct buf note = BUF_INIT(NOTE_MAX), b = BUF_INIT(NOTE_MAX + 5);
	for (struct sx *to = x->cell->execs; to; to = to->next) {
		if (!to->live || to->ended)
			continue;
		if (!note.n) {
			put_note(&note, x, start);
			if (note.overflow)
				return; // a command as long as that is in the journal
			wire_u32(&b, (uint32_t)note.n + 1);
			wire_u8(&b, start ? LIVE_BEGAN : LIVE_ENDED);
			buf_add(&b, note.p, note.n);
		}
		if (WAITING_MAX - to->live->waiting.n <= b.n)
			continue; // hundreds of commands behind, and no use waiting for
		buf_add(&to->live->waiting, b.p, b.n);
		to->live->asked++;
		watching_room(to);
	}
}
