// SPDX-License-Identifier: Apache-2.0
// Which sandbox and which paths are meant, and the requests about them.
#include "cli/review.h"

#include "base/jsonw.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/home.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void review_place_done(struct review_place *p)
{
	free(p->id);
	free(p->repo);
	strv_free(p->paths);
	*p = (struct review_place){0};
}

// A path as typed here, as one below the workspace.
static char *path_inside(const char *repo, const char *word, struct err *e)
{
	auto_free char *cwd = home_remote() ? NULL : getcwd(NULL, 0), *full = NULL;
	size_t n = strlen(repo);
	if (*word == '/')
		full = xstrdup(word);
	else if (cwd && *repo && str_has_prefix(cwd, repo) && (cwd[n] == '/' || !cwd[n]))
		full = xasprintf("%s/%s", cwd, word);
	else
		full = xasprintf("%s/%s", repo, word);
	auto_buf struct buf out = BUF_INIT(8192);
	struct str rest = str_of(full), part;
	while (str_next(&rest, '/', &part)) {
		if (!part.n || str_is(part, "."))
			continue;
		if (str_is(part, "..")) {
			const char *slash = out.n ? strrchr(out.p, '/') : NULL;
			out.n = slash ? (size_t)(slash - out.p) : 0;
			if (out.p)
				out.p[out.n] = 0;
			continue;
		}
		buf_byte(&out, '/');
		buf_add(&out, part.p, part.n);
	}
	const char *clean = buf_cstr(&out);
	if (!strcmp(clean, repo))
		return xstrdup("");
	if (str_has_prefix(clean, repo) && clean[n] == '/')
		return xstrdup(clean + n + 1);
	err_set(e, ERR_INVALID, "%.200s does not lie in the workspace", word);
	return NULL;
}

static int take_paths(struct review_place *p, char **words, struct err *e)
{
	for (; *words; words++) {
		auto_free char *path = path_inside(p->repo, *words, e);
		if (!path)
			return -1;
		if (!*path) { // the workspace itself
			strv_free(p->paths);
			p->paths = NULL;
			return 0;
		}
		strv_add(&p->paths, path);
	}
	return 0;
}

// The first word is a sandbox if there is one called so, else a path of the default one.
int review_place(const struct call *c, struct api *a, struct review_place *out, struct err *e)
{
	char **words = c->words;
	auto_free char *path = c->n_words ? api_path("/v1/sandboxes", words[0], NULL) : NULL;
	json_t *box = path ? api_json(a, "GET", path, NULL, e) : NULL;
	if (box) {
		words++;
	} else if (path && e->kind != ERR_NOT_FOUND && e->kind != ERR_INVALID) { // what can not be an id may be a path
		return -1;
	} else {
		struct err first = *e;
		auto_free char *id = api_default_id(a, e), *found = id ? api_path("/v1/sandboxes", id, NULL) : NULL;
		box = found ? api_json(a, "GET", found, NULL, e) : NULL;
		if (!box && path)
			*e = first;
		if (!box)
			return -1;
	}
	*out = (struct review_place){.id = xstrdup(json_str(box, "id")), .repo = xstrdup(json_str(box, "repo"))};
	if (*out->repo != '/') { // a URL: paths are named from the workspace on
		free(out->repo);
		out->repo = xstrdup("");
	}
	json_decref(box);
	out->word = words == c->words && *words ? *words : NULL;
	out->ignored = ((const struct review_opts *)c->opts)->ignored || *words;
	return take_paths(out, words, e);
}

void review_put_set(struct jsonw *w, const struct review_place *p, char *const *hunks)
{
	if (!p->paths && !hunks)
		return;
	jw_key(w, "set");
	jw_open(w, '{');
	if (p->paths)
		jw_kstrv(w, "paths", p->paths);
	if (hunks)
		jw_kstrv(w, "hunks", hunks);
	jw_close(w, '}');
}

static void put_edits(struct jsonw *w, char *const *edits)
{
	if (!edits)
		return;
	jw_key(w, "edits");
	jw_open(w, '{');
	for (; *edits; edits += 2)
		jw_kstr(w, edits[0], edits[1]);
	jw_close(w, '}');
}

int review_ask(struct api *a, const struct review_place *p, const char *verb, const struct buf *body, struct http_reply *out, struct err *e)
{
	auto_free char *path = api_path("/v1/sandboxes", p->id, verb);
	api_doing("copying and comparing what changed");
	if (!api_raw(a, path, buf_cstr((struct buf *)body), out, e))
		return 0;
	if (p->word && e->kind == ERR_NOT_FOUND)
		err_wrap(e, "no sandbox is called %.100s, and as a path of %s", p->word, p->id);
	return -1;
}

int review_ask_text(struct api *a, const struct review_place *p, const struct review_opts *o, const char *format, bool text,
		    struct http_reply *out, struct err *e)
{
	auto_buf struct buf body = BUF_INIT(8 << 20);
	struct jsonw w = {.b = &body};
	jw_open(&w, '{');
	jw_kstr(&w, "format", format);
	jw_kbool(&w, "text", text);
	jw_kbool(&w, "ignored", p->ignored);
	if (o->context != OPT_UNSET)
		jw_ku64(&w, "context", o->context);
	review_put_set(&w, p, o->hunks);
	jw_close(&w, '}');
	return review_ask(a, p, "diff", &body, out, e);
}

// Lines of JSON become one value: all but the last in a list, the last with its member beside it.
json_t *review_join_lines(const struct buf *b, const char *list, struct err *e)
{
	auto_buf struct buf all = BUF_INIT(API_LONG);
	size_t n = b->n;
	while (n && b->p[n - 1] == '\n')
		n--;
	size_t at = n;
	while (at && b->p[at - 1] != '\n')
		at--;
	buf_fmt(&all, "{\"%s\":[", list);
	for (size_t i = 0; i < at; i++)
		buf_byte(&all, b->p[i] != '\n' ? b->p[i] : i + 1 < at ? ',' : ' ');
	buf_str(&all, "],");
	if (n > at + 1)
		buf_add(&all, b->p + at + 1, n - at - 1); // without its brace
	else
		buf_byte(&all, '}');
	return json_read(buf_cstr(&all), all.n, e);
}

json_t *review_ask_diff(struct api *a, const struct review_place *p, const struct review_opts *o, bool text, struct err *e)
{
	auto_http_reply struct http_reply r = {0};
	return review_ask_text(a, p, o, "json", text, &r, e) ? NULL : review_join_lines(&r.body, "changes", e);
}

json_t *review_do(struct api *a, const struct review_place *p, const struct review_opts *o, const char *verb, const struct review_choice *x,
		  struct err *e)
{
	auto_buf struct buf body = BUF_INIT(8 << 20);
	auto_http_reply struct http_reply r = {0};
	struct jsonw w = {.b = &body};
	mode_t mask = umask(0);
	umask(mask);
	jw_open(&w, '{');
	jw_kstr(&w, "digest", x->digest);
	jw_kbool(&w, "ignored", p->ignored);
	if (x->all && !p->paths) {
		jw_key(&w, "set");
		jw_raw(&w, "{\"all\":true}");
	} else {
		review_put_set(&w, p, x->hunks);
	}
	if (!strcmp(verb, "apply")) {
		jw_ku64(&w, "umask", mask);
		jw_kstr(&w, "to", o->to);
		jw_kstr(&w, "conflicts", o->conflicts);
		jw_kbool(&w, "accept_risk", o->accept_risk);
		if (x->accept)
			jw_kstrv(&w, "accept", x->accept);
		put_edits(&w, x->edits);
	}
	jw_close(&w, '}');
	return review_ask(a, p, verb, &body, &r, e) ? NULL : review_join_lines(&r.body, "steps", e);
}
