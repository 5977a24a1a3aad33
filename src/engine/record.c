// SPDX-License-Identifier: Apache-2.0
// The journal as skepd sees it: while a cell lives it is the writer and takes our events; without one we
// take the lock, append and let go. Nothing is synced here: that would stop the loop (sync.c).
#include "engine/engine_int.h"

#include "base/fs.h"
#include "base/json.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/clock.h"
#include "base/str.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LATE_MS 50
#define LATE_TRIES 100

static int append(struct box *b, const char *by, const char *type, const char *body, struct err *e)
{
	struct journal j = {0};
	auto_fd int dir = fs_open(b->g->sandboxes, b->row.id, O_RDONLY | O_DIRECTORY, 0, e);
	if (dir < 0 || journal_open(&j, dir, e))
		return -1;
	uint64_t had = j.seq;
	int rc = journal_go_on(&j, b->row.anchor_seq, b->row.anchor, e) || (type && journal_append(&j, type, by, body, false, e)) ? -1 : 0;
	b->row.anchor_seq = j.seq;
	memcpy(b->row.anchor, j.head, sizeof b->row.anchor);
	journal_close(&j);
	if (j.seq == had)
		return rc;
	auto_free char *written = xasprintf("sandboxes/%s", b->row.id);
	sync_journal(b->g, written);
	return rc;
}

// A cell knows no anchor and goes on behind what it finds: a cut end must be noticed before it is told. One whose journal can not
// be opened says so itself.
void record_before_cell(struct box *b)
{
	struct err e;
	if (append(b, NULL, NULL, NULL, &e) && e.kind != ERR_CONFLICT)
		log_line(LOG_WARN, "sandbox=%s journal: %s", b->row.id, e.msg);
}

static void on_late(struct timer *t);

static void list_add(struct late **list, const char *by, const char *type, const char *body)
{
	struct late *l = xcalloc(1, sizeof *l);
	l->type = xstrdup(type);
	l->by = xstrdup(by);
	l->body = xstrdup(body);
	while (*list)
		list = &(*list)->next;
	*list = l;
}

static void keep_for_later(struct box *b, const char *by, const char *type, const char *body)
{
	list_add(&b->late, by, type, body);
	b->late_timer.fn = on_late;
	if (!b->late_timer.at_ms)
		timer_set(b->g->loop, &b->late_timer, LATE_MS);
}

static void drop_first(struct late **list)
{
	struct late *l = *list;
	*list = l->next;
	free(l->type);
	free(l->by);
	free(l->body);
	free(l);
}

static void on_heard(void *ctx, const struct err *e)
{
	struct box *b = ctx;
	if (!e && b->sent)
		drop_first(&b->sent);
}

static void to_cell(struct box *b, const char *by, const char *type, const char *body)
{
	list_add(&b->sent, by, type, body);
	b->g->backend->ops->event(b->cell, type, by, body, (struct reply){on_heard, b});
}

// A short command can be over before its cell has heard that it runs.
void record_unheard(struct box *b)
{
	struct err e;
	for (; b->sent; drop_first(&b->sent))
		if (append(b, b->sent->by, b->sent->type, b->sent->body, &e))
			log_line(LOG_ERROR, "sandbox=%s event %s lost: %s", b->row.id, b->sent->type, e.msg);
}

// A maintenance cell ends with its job, at any moment: what it is told then would be lost.
static bool cell_listens(const struct box *b)
{
	return b->up && !b->maintenance;
}

void record_late_flush(struct box *b)
{
	while (b->late && !b->maintenance) {
		to_cell(b, b->late->by, b->late->type, b->late->body);
		drop_first(&b->late);
	}
}

static void on_late(struct timer *t)
{
	struct box *b = container_of(t, struct box, late_timer);
	struct err e;
	if (cell_listens(b))
		record_late_flush(b);
	if (b->late && b->cell) { // it holds the journal; soon it is gone
		timer_set(b->g->loop, &b->late_timer, LATE_MS);
		return;
	}
	while (b->late && !append(b, b->late->by, b->late->type, b->late->body, &e)) {
		drop_first(&b->late);
		b->late_tries = 0;
		box_save(b);
	}
	if (!b->late)
		return;
	if (e.kind == ERR_CONFLICT && ++b->late_tries < LATE_TRIES) {
		timer_set(b->g->loop, &b->late_timer, LATE_MS);
		return;
	}
	log_line(LOG_ERROR, "sandbox=%s event %s lost: %s", b->row.id, b->late->type, e.msg);
	record_forget(b);
}

void record_forget(struct box *b)
{
	while (b->late)
		drop_first(&b->late);
	while (b->sent)
		drop_first(&b->sent);
	timer_clear(b->g->loop, &b->late_timer);
}

void record_by(struct box *b, const char *by, const char *type, const char *body)
{
	struct err e;
	if (cell_listens(b)) {
		to_cell(b, by, type, body);
		return;
	}
	if (b->late || b->cell) { // a cell that is starting or ending may hold the journal
		keep_for_later(b, by, type, body);
		return;
	}
	if (!append(b, by, type, body, &e))
		return;
	if (e.kind == ERR_CONFLICT)
		keep_for_later(b, by, type, body);
	else
		log_line(LOG_ERROR, "sandbox=%s event %s lost: %s", b->row.id, type, e.msg);
}

struct actor engine_act(struct engine *g, struct actor who)
{
	struct actor was = g->actor;
	g->actor = who;
	return was;
}

struct actor engine_actor(const struct engine *g)
{
	return g->actor;
}

void record(struct box *b, const char *type, const char *body)
{
	const char *acts = b->g->actor.name, *holds = b->holder ? b->holder->actor.name : "";
	record_by(b, *acts ? acts : *holds ? holds : "skepd", type, body);
}

void engine_record(struct engine *g, const char *id, const char *type, const char *body)
{
	struct box *b = box_by_id(g, id);
	if (b)
		record(b, type, body);
}

static void record_rules(struct jsonw *w, char *const *rules)
{
	jw_key(w, "rules");
	jw_open(w, '[');
	for (; rules && *rules; rules++) {
		const char *tab = strchr(*rules, '\t'); // FROM, RULE
		if (tab)
			jw_str(w, tab + 1, strlen(tab + 1));
	}
	jw_close(w, ']');
}

void record_created(struct box *b)
{
	const struct sandbox *s = &b->row;
	auto_buf struct buf body = BUF_INIT(JOURNAL_LINE_MAX);
	struct jsonw w = {.b = &body};
	jw_kstr(&w, "sandbox", s->id);
	jw_kstr(&w, "name", s->name);
	jw_kstr(&w, "owner", s->owner);
	jw_kstr(&w, "profile", profile_name(s->profile));
	jw_kstr(&w, "image", s->image ? s->image : "host");
	jw_kstr(&w, "repo", s->repo);
	jw_kstr(&w, "workspace_path", s->ws_path);
	jw_kbool(&w, "nested", s->nested);
	if (s->has_net) {
		jw_kstr(&w, "net", s->net.preset);
		jw_kbool(&w, "ask", s->net.ask);
		record_rules(&w, s->net.rules);
	}
	record(b, "sandbox.created", body.overflow ? "" : buf_cstr(&body));
}

void record_state(struct box *b, enum state from)
{
	auto_buf struct buf body = BUF_INIT(4096);
	struct jsonw w = {.b = &body};
	jw_kstr(&w, "from", state_name(from));
	jw_kstr(&w, "to", state_name(b->row.state));
	jw_kstr(&w, "reason", b->row.reason);
	record(b, "sandbox.state", body.overflow ? "" : buf_cstr(&body));
}

// The directory itself moves: a new one would cost more than the rest of a removal (ext4 avoids inodes that
// were freed in the last seconds, and looks at each of them).
int record_keep(struct box *b, struct err *e)
{
	auto_free char *kept = xasprintf("journals/%s", b->row.id);
	sync_journal(b->g, kept);
	archive_arm(b->g);
	if (!renameat(b->g->sandboxes, b->row.id, b->g->journals, b->row.id) || errno == ENOENT)
		return 0;
	return err_sys(e, "keep the journal of %s", b->row.id);
}

void record_gone(struct box *b)
{
	struct err e;
	struct gone_row g = {.removed = clock_unix_ms(), .anchor_seq = b->row.anchor_seq};
	memcpy(g.id, b->row.id, sizeof g.id);
	memcpy(g.anchor, b->row.anchor, sizeof g.anchor);
	if (store_gone_add(b->g->store, &g, &e))
		log_line(LOG_ERROR, "sandbox=%s %s", b->row.id, e.msg);
}

struct settle {
	struct box *b;
	struct settled *out;
};

static void settle_exec(struct box *b, const json_t *o)
{
	struct err e;
	const char *reason = json_str(o, "reason");
	struct exec_result r = {.status = (uint32_t)json_u64(o, "status"), .signal = (uint32_t)json_u64(o, "signal"),
				.ended_unix_ms = clock_unix_ms()};
	r.timed_out = json_is_true(json_object_get(o, "timed_out"));
	r.reason = reason[0] ? xstrdup(reason) : NULL;
	if (store_exec_ended(b->g->store, json_str(o, "exec"), &r, &e))
		log_line(LOG_ERROR, "sandbox=%s %s", b->row.id, e.msg);
	exec_result_done(&r);
}

static bool on_line(struct str line, void *arg)
{
	struct settle *s = arg;
	struct err e;
	auto_json json_t *o = json_read(line.p, line.n, &e);
	const char *type = o ? json_str(o, "type") : "";
	if (!strcmp(type, "exec.exit")) {
		settle_exec(s->b, o);
	} else if (!strcmp(type, "cell.up")) {
		s->out->ended = false;
	} else if (!strcmp(type, "cell.gone")) {
		const json_t *pending = json_object_get(o, "pending");
		s->out->ended = true;
		s->out->pending = json_is_integer(pending) ? json_integer_value(pending) : -1;
		free(s->out->reason);
		s->out->reason = xstrdup(json_str(o, "reason"));
	}
	return true;
}

void record_settle(struct box *b, struct settled *out)
{
	struct err e;
	struct settle s = {.b = b, .out = out};
	*out = (struct settled){.pending = -1};
	auto_fd int dir = fs_open(b->g->sandboxes, b->row.id, O_RDONLY | O_DIRECTORY, 0, &e);
	if (dir >= 0 && journal_find(dir, NULL, on_line, &s, &e))
		log_line(LOG_WARN, "sandbox=%s journal: %s", b->row.id, e.msg);
}

// The directory of a journal and the anchor it must reach; removed sandboxes are found by id or prefix.
static int find_journal(struct engine *g, const char *id, uint64_t *seq, char anchor[SHA256_HEX], struct err *e)
{
	struct gone_row gone;
	struct box *b = box_look(g, id, e); 
	if (b) {
		*seq = b->row.anchor_seq;
		memcpy(anchor, b->row.anchor, SHA256_HEX);
		return fs_open(g->sandboxes, b->row.id, O_RDONLY | O_DIRECTORY, 0, e);
	}
	if (e->kind != ERR_NOT_FOUND || strlen(id) < 3 || store_gone_get(g->store, id, &gone, e))
		return -1;
	*seq = gone.anchor_seq;
	memcpy(anchor, gone.anchor, SHA256_HEX);
	int fd = openat(g->journals, gone.id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? archive_thaw(g, &gone, e) : fd;
}

int engine_journal(struct engine *g, const char *id, uint64_t offset, struct buf *out, uint64_t *out_end, struct err *e)
{
	struct err none; // of a removed one
	box_find(g, id, &none);
	return engine_journal_peek(g, id, offset, out, out_end, e);
}

int engine_journal_peek(struct engine *g, const char *id, uint64_t offset, struct buf *out, uint64_t *out_end, struct err *e)
{
	uint64_t seq;
	char anchor[SHA256_HEX];
	auto_fd int dir = find_journal(g, id, &seq, anchor, e);
	return dir < 0 ? -1 : journal_tail(dir, offset, out, out_end, e);
}

int engine_journal_dir(struct engine *g, const char *id, struct err *e)
{
	uint64_t seq;
	char anchor[SHA256_HEX];
	return find_journal(g, id, &seq, anchor, e);
}

static void measure(int dir, uint64_t *out_end, uint64_t *out_changed)
{
	uint64_t end = 0, changed = 0;
	for (unsigned i = 0;; i++) {
		char name[32] = "journal";
		struct stat st;
		if ((i && fmt_to(name, sizeof name, "journal.%u", i)) || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
			break;
		end += (uint64_t)st.st_size;
		changed = (uint64_t)st.st_mtim.tv_sec * 1000 + (uint64_t)st.st_mtim.tv_nsec / 1000000;
	}
	*out_end = end;
	*out_changed = changed;
}

uint64_t record_end(const struct box *b)
{
	struct err none;
	uint64_t end = 0, changed;
	auto_fd int dir = fs_open(b->g->sandboxes, b->row.id, O_RDONLY | O_DIRECTORY, 0, &none);
	if (dir >= 0)
		measure(dir, &end, &changed);
	return end;
}

int engine_journal_end(struct engine *g, const char *id, uint64_t *out_end, uint64_t *out_changed, struct err *e)
{
	auto_fd int dir = engine_journal_dir(g, id, e);
	if (dir < 0)
		return -1;
	measure(dir, out_end, out_changed);
	return 0;
}

int engine_journal_verify(struct engine *g, const char *id, struct journal_report *out, struct err *e)
{
	uint64_t seq;
	char anchor[SHA256_HEX];
	auto_fd int dir = find_journal(g, id, &seq, anchor, e);
	return dir < 0 ? -1 : journal_verify(dir, seq, anchor[0] ? anchor : NULL, out, e);
}
