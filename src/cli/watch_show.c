// SPDX-License-Identifier: Apache-2.0
// One change as text and as JSON.
#include "base/jsonw.h"
#include "base/sha256.h"
#include "cli/lines.h"
#include "cli/live.h"
#include "cli/out.h"
#include "model/risk.h"
#include "model/treename.h"
#include <string.h>

static const char *name_of(char what)
{
	switch (what) {
	case 'f':
		return "file";
	case 'l':
		return "symbolic link";
	case 'd':
		return "directory";
	case 'x':
		return "nothing";
	case 's':
		return "special file";
	default:
		return "not readable";
	}
}

static bool is_content(char what)
{
	return what == 'f' || what == 'l';
}

static bool is_shown(char what, bool whole, const char *p, size_t n)
{
	return what == 'x' || (is_content(what) && whole && lines_is_text(p, n));
}

bool watch_has_diff(const struct shown *was, const struct live_state *is)
{
	char what = was ? was->what : 'x';
	return (is_content(what) || is_content(is->what)) && is_shown(what, was && was->whole, was ? was->p : NULL, was ? was->n : 0) &&
	       is_shown(is->what, is->whole, is->p, is->n);
}

void watch_diff(struct buf *out, const struct shown *was, const struct live_state *is)
{
	if (watch_has_diff(was, is))
		lines_diff(out, was ? was->p : NULL, was ? was->n : 0, is->p, is->n, 3);
}

static void put_size(struct buf *b, char what, uint64_t size)
{
	if (what == 'f')
		out_size(b, size);
	else
		buf_str(b, name_of(what));
}

static void put_head(struct buf *b, const struct live_state *is, const char *from, bool colour)
{
	buf_str(b, colour ? "\033[1m" : "");
	buf_byte(b, from ? 'R' : is->kind);
	buf_byte(b, ' ');
	if (from) {
		out_text(b, from);
		buf_str(b, " -> ");
	}
	out_text(b, is->path);
	buf_str(b, colour ? "\033[m" : "");
	if (is->base && is->kind != 'D')
		buf_str(b, " (as the base has it again)");
	buf_byte(b, '\n');
}

// What a diff of lines can not show.
static void put_rest(struct buf *b, const struct shown *was, const struct live_state *is)
{
	char what = was ? was->what : 'x';
	if (what != 'x' && is->what != 'x' && what != is->what)
		buf_fmt(b, "  %s -> %s\n", name_of(what), name_of(is->what));
	if (is->what == 'f' && is->exec != (was && was->exec))
		buf_str(b, is->exec ? "  executable\n" : "  no longer executable\n");
	if (what == 'x' && !is_content(is->what))
		buf_fmt(b, "  %s\n", name_of(is->what));
	if (!watch_has_diff(was, is) && is->what == 'f') {
		buf_str(b, is->whole && !lines_is_text(is->p, is->n) ? "  not text: " : "  not shown: ");
		put_size(b, what, was ? was->size : 0);
		buf_str(b, " -> ");
		put_size(b, is->what, is->size);
		buf_byte(b, '\n');
	}
}

// What the hunks of a diff add.
static void read_added(const struct buf *diff, struct risk_text *out)
{
	for (size_t at = 0; at < diff->n;) {
		const char *p = diff->p + at, *nl = memchr(p, '\n', diff->n - at);
		size_t n = nl ? (size_t)(nl - p) + 1 : diff->n - at;
		if (*p == '+')
			risk_of_text(p + 1, n - 1, out);
		at += n;
	}
}

// By the rules of `skep diff`, except that of a bare repository, which takes a look at several files at once. What goes, or is as
// the base has it, needs no look.
static void judge(const struct shown *was, const struct live_state *is, const struct buf *diff, risk_fn *found, void *ctx)
{
	struct risk_subject s = {.path = is->path, .becomes_executable = is->what == 'f' && is->exec && !(was && was->what == 'f' && was->exec)};
	if (is->base || is->what == 'x' || treename_path_has_git(is->path))
		return;
	if (was && was->whole)
		s.old = was->p, s.old_n = was->n;
	if (is->whole)
		s.now = is->p, s.now_n = is->n;
	if (is->what == 'l')
		s.what = RISK_LINK;
	else if (is->what == 'f')
		s.what = is->whole && !lines_is_text(is->p, is->n) ? RISK_BINARY : RISK_TEXT; // too long for a watch: by its name
	if (s.what == RISK_TEXT && diff->n && !diff->overflow)
		read_added(diff, &s.added);
	else if (s.what == RISK_TEXT && is->whole && !(was && was->whole && was->n == is->n && !memcmp(was->p, is->p, is->n)))
		risk_of_text(is->p, is->n, &s.added);
	risk_judge(&s, found, ctx);
}

struct risk_out {
	struct buf *b;
	struct jsonw *w;
	bool colour;
};

static void text_risk(void *ctx, const char *flag, const char *reason)
{
	struct risk_out *o = ctx;
	(void)flag;
	buf_str(o->b, o->colour ? "\033[33m  risk: " : "  risk: ");
	out_text(o->b, reason);
	buf_str(o->b, o->colour ? "\033[m\n" : "\n");
}

static void json_risk(void *ctx, const char *flag, const char *reason)
{
	struct risk_out *o = ctx;
	jw_open(o->w, '{');
	jw_kstr(o->w, "flag", flag);
	jw_kstr(o->w, "reason", reason);
	jw_close(o->w, '}');
}

void watch_text(struct buf *b, const struct shown *was, const struct live_state *is, const char *from, bool colour)
{
	auto_buf struct buf diff = BUF_INIT(8 << 20);
	put_head(b, is, from, colour);
	put_rest(b, was, is);
	watch_diff(&diff, was, is);
	judge(was, is, &diff, text_risk, &(struct risk_out){.b = b, .colour = colour});
	show_patch(b, diff.p, diff.n, colour);
}

static void put_sha(struct jsonw *w, const char *key, bool has, const uint8_t sha[32])
{
	static const char digits[] = "0123456789abcdef";
	char hex[SHA256_HEX] = {0};
	for (int i = 0; i < 64; i++)
		hex[i] = digits[i & 1 ? sha[i / 2] & 15 : sha[i / 2] >> 4];
	if (has)
		jw_kstr(w, key, hex);
}

void watch_json(struct buf *b, const struct shown *was, const struct live_state *is, const char *from, uint64_t number)
{
	auto_buf struct buf diff = BUF_INIT(8 << 20);
	struct jsonw w = {.b = b};
	char kind[2] = {from ? 'R' : is->kind, 0};
	jw_open(&w, '{');
	jw_ku64(&w, "seq", number);
	jw_kstr(&w, "type", "change");
	jw_kstr(&w, "kind", kind);
	jw_kbytes(&w, "path", is->path, strlen(is->path));
	if (from)
		jw_kbytes(&w, "from", from, strlen(from));
	jw_kstr(&w, "what", name_of(is->what));
	if (is->base)
		jw_kbool(&w, "as_base", true);
	if (is->what == 'f') {
		jw_kbool(&w, "executable", is->exec);
		jw_ku64(&w, "size", is->size);
	}
	put_sha(&w, "before", is->has_before, is->before);
	put_sha(&w, "after", is->has_after, is->after);
	watch_diff(&diff, was, is);
	if (diff.n && !diff.overflow)
		jw_kbytes(&w, "diff", diff.p, diff.n);
	else if (is->what == 'f' && is->whole && !lines_is_text(is->p, is->n))
		jw_kbool(&w, "binary", true);
	jw_key(&w, "risks");
	jw_open(&w, '[');
	judge(was, is, &diff, json_risk, &(struct risk_out){.w = &w});
	jw_close(&w, ']');
	jw_close(&w, '}');
}
