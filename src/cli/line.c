// SPDX-License-Identifier: Apache-2.0
#include "cli/line.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/api.h"
#include "cli/cell.h"
#include "model/limits.h"
#include "model/msg.h"
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_DEFAULT 120 // seconds
#define RETRY_MAX 600
#define DELAY_FIRST_MS 50 // between two tries, doubled
#define DELAY_MAX_MS 3000
#define SAY_EVERY (256u << 10) // bytes that came, while there are more

int line_retry(uint64_t *out_ms, struct err *e)
{
	const char *text = getenv("SKEP_RETRY");
	uint64_t seconds = RETRY_DEFAULT;
	if (text && *text && str_to_u64(str_of(text), 0, RETRY_MAX, &seconds))
		return err_set(e, ERR_INVALID, "SKEP_RETRY is a number of seconds, 0 to %d: how long a broken connection is tried again", RETRY_MAX);
	*out_ms = seconds * 1000;
	return 0;
}

int line_open(struct line *l, const char *socket, const char *ticket, const char *exec, struct err *e)
{
	*l = (struct line){.exec = exec, .kept = BUF_INIT(2 * LIMIT_STDIN_WINDOW)};
	if (cell_is_far() && line_retry(&l->retry_ms, e))
		return -1;
	l->socket = xstrdup(socket);
	l->ticket = xstrdup(ticket);
	if (l->retry_ms)
		key_make(l->key);
	return cell_connect(socket, e);
}

void line_close(struct line *l)
{
	free(l->socket);
	free(l->ticket);
	buf_done(&l->kept);
	*l = (struct line){0};
}

bool line_comes_back(const struct line *l)
{
	return l->key[0];
}

void line_hello(struct line *l, struct buf *b, const uint64_t got[3])
{
	wire_u32(b, PROTO_VERSION);
	wire_u8(b, ROLE_CLIENT);
	wire_str(b, l->ticket);
	wire_u64(b, got[1]);
	wire_u64(b, got[2]);
	l->said[1] = got[1];
	l->said[2] = got[2];
	l->ticket[0] = 0;
	if (!l->key[0])
		return;
	wire_str(b, l->key);
	wire_u64(b, 2 * l->retry_ms); // we may notice later than the cell does
}

// --- again ---

static int ask_ticket(struct line *l, struct err *e)
{
	auto_api struct api a = API_CLOSED;
	auto_free char *path = api_path("/v1/execs", l->exec, "attach");
	if (api_open(&a, e))
		return -1;
	auto_json json_t *j = api_json(&a, "POST", path, "{}", e);
	if (!j)
		return -1;
	free(l->socket);
	free(l->ticket);
	l->socket = xstrdup(json_str(j, "socket"));
	l->ticket = xstrdup(json_str(j, "ticket"));
	return 0;
}

static int try_once(struct line *l, struct err *e)
{
	if (l->stranger && ask_ticket(l, e))
		return -1;
	return cell_connect(l->socket, e);
}

static bool is_passing(const struct err *e)
{
	return e->kind == ERR_UNAVAILABLE || e->kind == ERR_TIMEOUT || e->kind == ERR_SYSTEM;
}

static int give_up(const struct line *l, struct err *e)
{
	struct err why = *e;
	unsigned s = (unsigned)(l->retry_ms / 1000);
	bool passing = is_passing(e);
	if (!l->exec)
		return err_set(e, ERR_UNAVAILABLE, "the connection was lost, and not to be had again in %u s: %.100s", s, why.msg);
	if (passing)
		return err_set(e, ERR_UNAVAILABLE, "the connection was lost, and not to be had again in %u s (%.100s). The command goes on: skep attach %s", s, why.msg, l->exec);
	return err_set(e, why.kind, "the connection was lost, and the way back is closed: %.100s (skep logs %s shows what was kept)", why.msg, l->exec);
}

int line_again(struct line *l, struct err *e)
{
	if (!l->until_ms) {
		l->until_ms = clock_ms() + l->retry_ms;
		l->delay_ms = DELAY_FIRST_MS;
	}
	for (;;) {
		// The first try comes a moment later, too: who cut a line may still be about to cut the next.
		poll(NULL, 0, (int)l->delay_ms);
		l->delay_ms = 2 * l->delay_ms < DELAY_MAX_MS ? 2 * l->delay_ms : DELAY_MAX_MS;
		int fd = try_once(l, e);
		if (fd >= 0)
			return fd;
		if (!is_passing(e) && !l->stranger && l->exec)
			l->stranger = true; // where the line led there is nobody
		else if (!is_passing(e) || clock_ms() >= l->until_ms)
			return give_up(l, e);
	}
}

void line_works(struct line *l)
{
	l->until_ms = 0;
	l->stranger = false;
}

// --- bytes ---

void line_keep(struct line *l, uint64_t at, const void *p, size_t n)
{
	if (!l->key[0])
		return;
	if (!l->kept.n)
		l->kept_from = at;
	buf_add(&l->kept, p, n);
}

static void cut(struct line *l, uint64_t upto)
{
	if (upto <= l->kept_from)
		return;
	uint64_t n = upto - l->kept_from;
	buf_cut(&l->kept, n < l->kept.n ? (size_t)n : l->kept.n);
	l->kept_from = upto;
}

void line_taken(struct line *l, uint64_t mine, uint64_t all)
{
	cut(l, mine);
	l->ahead = all > mine ? all - mine : 0;
}

void line_guess(struct line *l, uint64_t all)
{
	cut(l, all > l->ahead ? all - l->ahead : 0);
	l->kept_from = 0;
	l->ahead = all;
}

// --- signals ---

uint64_t line_signal(struct line *l, int sig)
{
	if (l->n_signals == LINE_SIGNALS)
		line_heard(l, l->signalled - LINE_SIGNALS + 1);
	l->signals[l->n_signals++] = sig;
	return ++l->signalled;
}

void line_heard(struct line *l, uint64_t upto)
{
	uint64_t first = l->signalled - l->n_signals; // the last one that is not kept
	if (upto <= first || upto > l->signalled)
		return;
	l->n_signals -= (unsigned)(upto - first);
	memmove(l->signals, l->signals + (upto - first), l->n_signals * sizeof *l->signals);
}

// --- output ---

bool line_must_say(struct line *l, int stream, uint64_t got, bool idle)
{
	if (!l->key[0] || got == l->said[stream] || (!idle && got - l->said[stream] < SAY_EVERY))
		return false;
	l->said[stream] = got;
	return true;
}
