// SPDX-License-Identifier: Apache-2.0
// Connections that a gate holds until somebody answers. The question lives in the gate; here is the list of those that
// are open, for front ends that are not attached to the cell, and what an answer for longer leaves behind.
#include "engine/net_int.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/msg.h"
#include <stdlib.h>
#include <string.h>

#define ASKS_MAX 64
#define ASK_MS 70000 // the gate gives up after 60 s

struct ask {
	struct ask_row row;
	struct ask *next;
};

static void ask_free(struct ask *a)
{
	free(a->row.host);
	free(a->row.method);
	free(a->row.path);
	free(a);
}

void asks_clear(struct box *b)
{
	while (b->asks) {
		struct ask *a = b->asks;
		b->asks = a->next;
		ask_free(a);
	}
}

static struct ask *take_ask(struct box *b, uint32_t id)
{
	for (struct ask **p = &b->asks; *p; p = &(*p)->next)
		if ((*p)->row.id == id) {
			struct ask *a = *p;
			*p = a->next;
			return a;
		}
	return NULL;
}

static void drop_old(struct box *b)
{
	uint64_t now = clock_unix_ms();
	for (struct ask **p = &b->asks; *p;) {
		struct ask *a = *p;
		if (a->row.at + ASK_MS > now) {
			p = &a->next;
			continue;
		}
		*p = a->next;
		ask_free(a);
	}
}

static void on_asked(struct cell_watcher *w, const struct cell_ask *q)
{
	struct box *b = container_of(w, struct box, w);
	struct ask **p = &b->asks, *old = take_ask(b, q->id);
	int n = 0;
	if (old)
		ask_free(old);
	drop_old(b);
	for (; *p; p = &(*p)->next)
		n++;
	if (n >= ASKS_MAX)
		return; // it can still be answered where the cell is attached
	*p = xcalloc(1, sizeof **p);
	(*p)->row = (struct ask_row){.id = q->id, .host = xstrdup(q->host), .port = q->port, .method = xstrdup(q->method),
				     .path = xstrdup(q->path), .at = clock_unix_ms()};
}

// The narrowest rule that says what was answered. What the cell sent is judged like any other text.
static char *rule_of(const struct ask_row *a, bool deny)
{
	struct rule r;
	struct err e;
	auto_buf struct buf b = BUF_INIT(2 * RULE_TEXT);
	size_t path = strcspn(a->path, "?#");
	const char *not = deny ? "!" : "";
	auto_free char *text = a->method[0]
				       ? xasprintf("%s%s %s:%u%.*s", not, a->method, a->host, a->port, (int)path, a->path)
				       : xasprintf("%s%s:%u", not, a->host, a->port);
	if (rule_parse(text, "answer", &r, &e)) {
		log_line(LOG_WARN, "an answer for %.200s makes no rule: %s", text, e.msg);
		return NULL;
	}
	rule_print(&b, &r);
	rule_done(&r);
	return buf_take(&b);
}

static bool is_box(const struct box *b, const void *arg)
{
	return b == arg;
}

static void keep_answer(struct box *b, const struct ask_row *a, int verdict, int scope, struct done d)
{
	bool deny = verdict != VERDICT_ALLOW;
	auto_free char *rule = scope == SCOPE_ONCE ? NULL : rule_of(a, deny);
	if (!rule) {
		net_push(b->g, is_box, NULL, d); // nobody has to be told
		return;
	}
	if (scope == SCOPE_ALWAYS) {
		struct net_request n = {0};
		strv_add(deny ? &n.deny : &n.allow, rule);
		engine_answers_set(b->g, &n, d);
		return;
	}
	auto_free char *line = xasprintf("answer\t%s", rule);
	strv_add(&b->row.net.rules, line);
	b->row.has_net = true;
	net_save(b);
	engine_flush(b->g);
	net_push(b->g, is_box, b, d);
}

// Somebody at the cell answered, or nobody did in time.
static void on_answered(struct cell_watcher *w, uint32_t id, uint8_t verdict, uint8_t scope)
{
	struct box *b = container_of(w, struct box, w);
	struct ask *a = take_ask(b, id);
	if (!a)
		return;
	if (scope == SCOPE_SANDBOX || scope == SCOPE_ALWAYS)
		keep_answer(b, &a->row, verdict, scope, (struct done){0});
	ask_free(a);
}

void ask_events_init(struct box *b)
{
	b->w.asked = on_asked;
	b->w.answered = on_answered;
}

int engine_asks(struct engine *g, const char *id, void (*each)(void *ctx, const struct ask_row *a), void *ctx, struct err *e)
{
	struct box *b = box_find(g, id, e);
	if (!b)
		return -1;
	drop_old(b);
	for (struct ask *a = b->asks; a; a = a->next)
		each(ctx, &a->row);
	return 0;
}

void engine_answer(struct engine *g, const char *id, uint32_t ask, int verdict, int scope, struct done d)
{
	struct err e;
	struct box *b = box_find(g, id, &e);
	struct ask *a = NULL;
	if (b) {
		drop_old(b);
		a = take_ask(b, ask);
		if (!a || !b->up)
			err_set(&e, ERR_NOT_FOUND, "sandbox %s has no open question %u: it was answered, or it waited too long", b->row.id, ask);
	}
	if (!a || !b->up) {
		if (a)
			ask_free(a);
		task_refuse(d, &e);
		return;
	}
	g->backend->ops->answer(b->cell, ask, (uint8_t)verdict, (uint8_t)scope, *g->actor.name ? g->actor.name : "skepd");
	keep_answer(b, &a->row, verdict, scope, d);
	ask_free(a);
}

// --- rules that stand for every sandbox ---

static bool is_known(char *const *list, const char *rule)
{
	for (; list && *list; list++)
		if (!strcmp(*list, rule))
			return true;
	return false;
}

static int keep_rule(struct engine *g, const char *rule, struct err *e)
{
	if (is_known(g->answers, rule))
		return 0;
	if (strv_len(g->answers) >= POLICY_RULES / 4)
		return err_set(e, ERR_LIMIT, "more than %d standing rules", POLICY_RULES / 4);
	if (store_answer_add(g->store, rule, clock_unix_ms(), e))
		return -1;
	engine_wrote(g);
	strv_add(&g->answers, rule);
	return 0;
}

static int drop_rule(struct engine *g, const char *rule, struct err *e)
{
	if (!is_known(g->answers, rule))
		return err_set(e, ERR_NOT_FOUND, "%.100s is not among the standing rules", rule);
	if (store_answer_drop(g->store, rule, e))
		return -1;
	engine_wrote(g);
	char **left = NULL;
	for (char **a = g->answers; *a; a++)
		if (strcmp(*a, rule))
			strv_add(&left, *a);
	strv_free(g->answers);
	g->answers = left;
	return 0;
}

static int change_answers(struct engine *g, char *const *list, bool deny, int (*change)(struct engine *, const char *, struct err *),
			  struct err *e)
{
	for (; list && *list; list++) {
		auto_free char *rule = rule_canonical(*list, deny || (change == drop_rule && (*list)[0] == '!'), "rule", e);
		if (!rule || change(g, rule, e))
			return -1;
	}
	return 0;
}

void engine_answers(struct engine *g, void (*each)(void *ctx, const char *rule), void *ctx)
{
	for (char **a = g->answers; a && *a; a++)
		each(ctx, *a);
}

void engine_answers_set(struct engine *g, struct net_request *n, struct done d)
{
	struct err e;
	int rc = rules_check(n->allow, false, &e) || rules_check(n->deny, true, &e) ||
		 change_answers(g, n->remove, false, drop_rule, &e) || change_answers(g, n->allow, false, keep_rule, &e) ||
		 change_answers(g, n->deny, true, keep_rule, &e);
	net_request_done(n);
	engine_flush(g);
	if (rc)
		task_refuse(d, &e);
	else
		net_push(g, NULL, NULL, d);
}
