// SPDX-License-Identifier: Apache-2.0
#include "cli/ask.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cli/out.h"
#include <stdlib.h>
#include <string.h>

#define PATH_SHOWN 200u // bytes

static const struct {
	char key;
	bool allow;
	enum answer_scope scope;
	const char *word;
} choices[] = {
	{'o', true, SCOPE_ONCE, "once"},
	{'s', true, SCOPE_SANDBOX, "for this sandbox"},
	{'a', true, SCOPE_ALWAYS, "always"},
	{'n', false, SCOPE_ONCE, ""},
};

void ask_done(struct ask *a)
{
	for (unsigned i = 0; i < a->n; i++)
		free(a->list[i].what);
	*a = (struct ask){0};
}

bool ask_add(struct ask *a, uint32_t id, struct wire *w)
{
	auto_free char *host = wire_get_str(w);
	uint32_t port = wire_get_u32(w);
	auto_free char *method = wire_get_str(w), *path = wire_get_str(w);
	auto_buf struct buf b = BUF_INIT(2048);
	if (w->bad || !host || a->n == ASK_QUEUE)
		return false;
	if (method && *method) {
		out_text(&b, method);
		buf_byte(&b, ' ');
	}
	out_text(&b, host);
	buf_fmt(&b, ":%u", (unsigned)port);
	if (path && *path)
		out_text_n(&b, path, strlen(path) < PATH_SHOWN ? strlen(path) : PATH_SHOWN); // the host must stay in view
	if (path && strlen(path) > PATH_SHOWN)
		buf_str(&b, "...");
	if (b.overflow)
		return false;
	if (!a->n)
		ask_redraw(a);
	a->list[a->n].id = id;
	a->list[a->n++].what = xstrdup(buf_cstr(&b));
	return true;
}

bool ask_is_due(const struct ask *a)
{
	return a->n && !a->drawn;
}

void ask_draw(struct ask *a, struct buf *out)
{
	buf_fmt(out, "skep: the sandbox wants to reach %s\r\nskep: allow it? o = once, s = this sandbox, a = always, N = no: ", a->list[0].what);
	a->drawn = true;
}

void ask_seen(struct ask *a)
{
	if (a->drawn && !a->shown_ms)
		a->shown_ms = clock_ms();
}

void ask_redraw(struct ask *a)
{
	a->drawn = false;
	a->shown_ms = 0;
}

static void ask_remove(struct ask *a, unsigned i)
{
	free(a->list[i].what);
	a->n--;
	for (; i < a->n; i++)
		a->list[i] = a->list[i + 1];
}

// The name again: the answer counts for it, whatever else the screen shows.
static void ask_confirm(const char *what, bool allow, enum answer_scope scope, const char *why, struct buf *out)
{
	const char *how = "";
	for (size_t i = 0; i < countof(choices) && allow; i++)
		if (choices[i].allow && choices[i].scope == scope)
			how = choices[i].word;
	buf_fmt(out, "\r\nskep: %s %s%s%s%s\r\n", allow ? "allowed" : "refused", what, *how ? " " : "", how, why);
}

static void ask_settle(struct ask *a, struct ask_answer *answer, unsigned choice, const char *why, struct buf *out)
{
	*answer = (struct ask_answer){a->list[0].id, choices[choice].allow, choices[choice].scope};
	ask_confirm(a->list[0].what, answer->allow, answer->scope, why, out);
	ask_remove(a, 0);
	ask_redraw(a);
}

bool ask_keys(struct ask *a, const char *p, size_t n, struct ask_answer *answer, struct buf *out)
{
	if (!a->n || !a->shown_ms || clock_ms() < a->shown_ms + ASK_TYPEAHEAD_MS)
		return false;
	unsigned choice = countof(choices) - 1;
	for (unsigned i = 0; i < countof(choices) && n == 1; i++) // a paste is no decision
		if ((*p | 0x20) == choices[i].key)
			choice = i;
	ask_settle(a, answer, choice, "", out);
	return true;
}

bool ask_late(struct ask *a, struct ask_answer *answer, struct buf *out)
{
	if (ask_wait_ms(a))
		return false;
	ask_settle(a, answer, countof(choices) - 1, ": nobody answered", out);
	return true;
}

bool ask_gone(struct ask *a, uint32_t id, const struct ask_answer *by, struct buf *out)
{
	for (unsigned i = 0; i < a->n; i++) {
		if (a->list[i].id != id)
			continue;
		if (!i && a->drawn)
			ask_confirm(a->list[0].what, by->allow, by->scope, by->allow ? ": answered elsewhere" : ": too late, or answered elsewhere", out);
		if (!i)
			ask_redraw(a);
		ask_remove(a, i);
		return true;
	}
	return false;
}

void ask_drop(struct ask *a, const char *why, struct buf *out)
{
	if (a->n && a->drawn)
		ask_confirm(a->list[0].what, false, SCOPE_ONCE, why, out);
	ask_done(a);
}

int ask_wait_ms(const struct ask *a)
{
	if (!a->n || !a->shown_ms)
		return -1;
	uint64_t now = clock_ms(), until = a->shown_ms + ASK_MS;
	return now >= until ? 0 : (int)(until - now);
}
