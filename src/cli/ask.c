// SPDX-License-Identifier: Apache-2.0
#include "cli/ask.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cli/out.h"
#include <stdlib.h>

static const struct {
	char key;
	bool allow;
	enum answer_scope scope;
	const char *word;
} choices[] = {
	{'o', true, SCOPE_ONCE, "once"},
	{'s', true, SCOPE_SANDBOX, "for this sandbox"},
	{'a', true, SCOPE_ALWAYS, "always"},
	{'n', false, SCOPE_ONCE, "no"},
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
		out_text(&b, path);
	if (b.overflow)
		return false;
	a->list[a->n].id = id;
	a->list[a->n++].what = xstrdup(buf_cstr(&b));
	return true;
}

void ask_show(struct ask *a, struct buf *out)
{
	if (!a->n || a->shown_ms)
		return;
	buf_fmt(out, "\r\nskep: the sandbox wants to reach %s\r\nskep: allow it? o = once, s = this sandbox, a = always, N = no: ",
		a->list[0].what);
	a->shown_ms = clock_ms();
}

static void settle(struct ask *a, struct ask_answer *answer, unsigned choice, const char *why, struct buf *out)
{
	*answer = (struct ask_answer){a->list[0].id, choices[choice].allow, choices[choice].scope};
	buf_fmt(out, "%s%s\r\n", choices[choice].word, why);
	free(a->list[0].what);
	a->n--;
	for (unsigned i = 0; i < a->n; i++)
		a->list[i] = a->list[i + 1];
	a->shown_ms = 0;
}

bool ask_keys(struct ask *a, const char *p, size_t n, struct ask_answer *answer, struct buf *out)
{
	if (!a->n || !a->shown_ms || clock_ms() < a->shown_ms + ASK_TYPEAHEAD_MS)
		return false;
	unsigned choice = countof(choices) - 1;
	for (unsigned i = 0; i < countof(choices) && n == 1; i++) // a paste is no decision
		if ((*p | 0x20) == choices[i].key)
			choice = i;
	settle(a, answer, choice, "", out);
	return true;
}

bool ask_late(struct ask *a, struct ask_answer *answer, struct buf *out)
{
	if (ask_wait_ms(a))
		return false;
	settle(a, answer, countof(choices) - 1, ", nobody answered", out);
	return true;
}

int ask_wait_ms(const struct ask *a)
{
	if (!a->n || !a->shown_ms)
		return -1;
	uint64_t now = clock_ms(), until = a->shown_ms + ASK_MS;
	return now >= until ? 0 : (int)(until - now);
}
