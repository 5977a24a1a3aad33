// SPDX-License-Identifier: Apache-2.0
#include "cell/changed.h"

#include "base/clock.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define TOLD 4096u     // places for what was recorded last of a path; two paths may share one, then one is told twice
#define EXECS_NAMED 16 // candidates
#define JUST_MS 300    // what comes so soon after a command's end may still be its work

static struct {
	struct {
		uint64_t path, state;
	} *told;
	uint64_t window_ms, asked_ms, from_ms; // from_ms: the walk before
	uint32_t recorded, more;
} files; // one process, one cell at a time

static uint64_t fold(uint64_t h, const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		h = (h ^ ((const uint8_t *)p)[i]) * 0x100000001b3ull;
	return h;
}

static bool is_told(const struct live_state *s)
{
	uint64_t path = fold(0xcbf29ce484222325ull, s->path, strlen(s->path)), state = fold(fold(path, &s->kind, 1), &s->exec, sizeof s->exec);
	if (!files.told)
		files.told = xcalloc(TOLD, sizeof *files.told);
	if (s->kind != 'D' && !s->has_after)
		state = 0; // nothing to know it by
	state = state && s->has_after ? fold(state, s->after, sizeof s->after) : state;
	bool same = state && files.told[path % TOLD].path == path && files.told[path % TOLD].state == state;
	files.told[path % TOLD].path = path;
	files.told[path % TOLD].state = state;
	return same;
}

static bool could_be(const struct sx *x, uint64_t from, uint64_t to)
{
	bool over = x->ended && x->result.ended_unix_ms < from;
	return x->spec.kind == EXEC_COMMAND && !over && x->result.started_unix_ms <= to;
}

// exec when only one ran, else all that may have done it.
static void put_execs(struct jsonw *w, const struct cell *c, uint64_t from, uint64_t to)
{
	const struct sx *found[EXECS_NAMED];
	int n = 0;
	for (const struct sx *x = c->execs; x && n < EXECS_NAMED; x = x->next)
		if (could_be(x, from, to))
			found[n++] = x;
	if (n == 1)
		jw_kstr(w, "exec", found[0]->spec.id);
	if (n < 2)
		return;
	jw_key(w, "execs");
	jw_open(w, '[');
	for (int i = n - 1; i >= 0; i--) // oldest first
		jw_str(w, found[i]->spec.id, strlen(found[i]->spec.id));
	jw_close(w, ']');
}

static void put_sha(struct jsonw *w, const char *key, bool has, const uint8_t sha[32])
{
	char hex[SHA256_HEX];
	str_hex(hex, sha, 32);
	if (has)
		jw_kstr(w, key, hex);
}

static void record_one(struct cell *c, const struct live_state *s, uint64_t from, uint64_t to)
{
	auto_buf struct buf b = BUF_INIT(60 << 10);
	struct jsonw w = {.b = &b};
	char kind[2] = {s->kind, 0};
	jw_kbytes(&w, "path", s->path, strlen(s->path));
	jw_kstr(&w, "kind", kind);
	put_sha(&w, "before", s->has_before, s->before);
	put_sha(&w, "after", s->has_after, s->after);
	if (s->kind == 'M' && s->has_before && s->has_after && !memcmp(s->before, s->after, sizeof s->after))
		jw_kbool(&w, "executable", s->exec); // only that changed
	if (s->base)
		jw_kbool(&w, "as_base", true);
	put_execs(&w, c, from, to);
	record(c, "file.changed", "skep-cell", &b, false);
}

static void record_more(struct cell *c, uint32_t n, uint64_t from, uint64_t to)
{
	auto_buf struct buf b = BUF_INIT(4096);
	struct jsonw w = {.b = &b};
	if (!n)
		return;
	jw_ku64(&w, "count", n);
	put_execs(&w, c, from, to);
	record(c, "file.changed", "skep-cell", &b, false);
}

void changed_flush(struct cell *c)
{
	uint64_t now = clock_unix_ms();
	record_more(c, files.more, now - JUST_MS, now);
	files.more = 0;
}

void changed_live(struct cell *c, const struct live_state *s)
{
	uint64_t now = clock_unix_ms();
	if (clock_ms() - files.window_ms >= 1000) {
		files.window_ms = clock_ms();
		files.recorded = 0;
		changed_flush(c);
	}
	if (files.recorded == LIMIT_FILES_RECORDED) {
		files.more++;
		return;
	}
	if (is_told(s))
		return;
	files.recorded++;
	record_one(c, s, now - JUST_MS, now);
}

void changed_asked(struct cell *c)
{
	(void)c;
	files.asked_ms = clock_unix_ms();
}

static int read_one(struct wire *w, struct live_state *out, char **out_path)
{
	size_t before, after;
	*out = (struct live_state){.type = 'C'};
	out->kind = (char)wire_get_u8(w);
	out->base = wire_get_u8(w);
	out->exec = wire_get_u8(w);
	out->path = *out_path = wire_get_str(w);
	const uint8_t *b = wire_get_bytes(w, &before), *a = wire_get_bytes(w, &after);
	if (w->bad || !out->path || (before && before != 32) || (after && after != 32))
		return -1;
	out->has_before = before;
	out->has_after = after;
	if (before)
		memcpy(out->before, b, 32);
	if (after)
		memcpy(out->after, a, 32);
	return 0;
}

void changed_walk(struct cell *c, struct wire *w)
{
	uint64_t now = clock_unix_ms(), to = files.asked_ms ? files.asked_ms : now;
	uint32_t more = wire_get_u32(w), n = wire_get_u32(w);
	changed_flush(c);
	for (uint32_t i = 0; i < n && i < LIMIT_FILES_RECORDED && !w->bad; i++) {
		struct live_state s;
		auto_free char *path = NULL;
		if (!read_one(w, &s, &path) && !is_told(&s))
			record_one(c, &s, files.from_ms, to);
	}
	record_more(c, more, files.from_ms, to);
	files.from_ms = to;
	files.asked_ms = 0;
}

void changed_forget(void)
{
	free(files.told);
	memset(&files, 0, sizeof files);
}
