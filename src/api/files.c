// SPDX-License-Identifier: Apache-2.0
// One question, one answer: everything about files but their bytes.
#include "api/files_int.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LIST_MAX 10000
#define EDITS_MAX 100

struct file_at file_at(struct request *r, const char *user)
{
	return (struct file_at){.loop = request_loop(r), .engine = r->engine, .sandbox = r->parts[0],
				.user = user ? user : request_query(r, "user")};
}

static void refuse(struct request *r, const char *why)
{
	struct err e;
	err_set(&e, ERR_INVALID, "%s", why);
	request_fail(r, &e);
}

bool file_query_path(struct request *r, const char **out)
{
	*out = request_query(r, "path");
	if (*out && **out)
		return true;
	refuse(r, "which file? give ?path=");
	return false;
}

bool file_query_flag(struct request *r, const char *key)
{
	const char *v = request_query(r, key);
	return v && strcmp(v, "0") && strcmp(v, "false");
}

static bool query_u64(struct request *r, const char *key, uint64_t max, uint64_t *inout)
{
	const char *v = request_query(r, key);
	if (!v || !str_to_u64(str_of(v), 0, max, inout))
		return true;
	struct err e;
	err_set(&e, ERR_INVALID, "%s must be a whole number up to %llu", key, (unsigned long long)max);
	request_fail(r, &e);
	return false;
}

void file_encode(struct jsonw *w, const struct file_record *rec)
{
	char etag[FILE_ETAG], when[32], mode[8];
	file_etag(rec, etag);
	clock_iso(rec->mtime_ns / 1000000, when);
	if (fmt_to(mode, sizeof mode, "%04o", rec->mode & 07777))
		mode[0] = 0;
	jw_open(w, '{');
	jw_kstr(w, "name", rec->name);
	jw_kstr(w, "kind", file_kind(rec->mode));
	jw_kstr(w, "mode", mode);
	jw_ku64(w, "size", rec->size);
	jw_kstr(w, "modified", when);
	jw_ku64(w, "mtime_ns", rec->mtime_ns);
	jw_ku64(w, "uid", rec->uid);
	jw_ku64(w, "gid", rec->gid);
	jw_kstr(w, "user", rec->user);
	jw_kstr(w, "group", rec->group);
	jw_ku64(w, "inode", rec->inode);
	jw_ku64(w, "links", rec->links);
	jw_kstr(w, "target", rec->link);
	if (S_ISREG(rec->mode))
		jw_kstr(w, "etag", etag);
	jw_close(w, '}');
}

void file_set_etag(struct request *r, const struct file_record *rec)
{
	char etag[FILE_ETAG], quoted[FILE_ETAG + 2];
	file_etag(rec, etag);
	if (!fmt_to(quoted, sizeof quoted, "\"%s\"", etag))
		request_set_header(r, "ETag", quoted);
}

bool etag_list_has(const char *list, const char *etag, bool weak)
{
	struct str all = str_of(list), one;
	while (str_next(&all, ',', &one)) {
		while (one.n && (*one.p == ' ' || *one.p == '\t'))
			one.p++, one.n--;
		while (one.n && (one.p[one.n - 1] == ' ' || one.p[one.n - 1] == '\t'))
			one.n--;
		if (str_is(one, "*"))
			return true;
		if (weak && one.n > 2 && !memcmp(one.p, "W/", 2))
			one = (struct str){one.p + 2, one.n - 2};
		if (one.n >= 2 && one.p[0] == '"' && one.p[one.n - 1] == '"' &&
		    str_is((struct str){one.p + 1, one.n - 2}, etag))
			return true;
	}
	return false;
}

// --- the answers ---

static void done_record(void *ctx, const struct err *e, struct file_result *res)
{
	struct request *r = ctx;
	struct jsonw w = {.b = &r->answer};
	if (e) {
		request_fail(r, e);
		return;
	}
	if (res->n) {
		file_encode(&w, &res->list[0]);
		if (S_ISREG(res->list[0].mode))
			file_set_etag(r, &res->list[0]);
	}
	request_answer(r, res->n ? 200 : 204);
}

static void done_list(void *ctx, const struct err *e, struct file_result *res)
{
	struct request *r = ctx;
	struct jsonw w = {.b = &r->answer};
	if (e) {
		request_fail(r, e);
		return;
	}
	jw_open(&w, '{');
	jw_key(&w, "files");
	jw_open(&w, '[');
	for (size_t i = 0; i < res->n; i++)
		file_encode(&w, &res->list[i]);
	jw_close(&w, ']');
	jw_kbool(&w, "more", res->more);
	jw_close(&w, '}');
	request_answer(r, 200);
}

static void done_search(void *ctx, const struct err *e, struct file_result *res)
{
	struct request *r = ctx;
	struct jsonw w = {.b = &r->answer};
	if (e) {
		request_fail(r, e);
		return;
	}
	jw_open(&w, '{');
	jw_key(&w, "hits");
	jw_open(&w, '[');
	for (size_t i = 0; i < res->n_hits; i++) {
		const struct file_hit *h = &res->hits[i];
		jw_open(&w, '{');
		jw_kstr(&w, "path", h->path);
		if (h->line) {
			jw_ku64(&w, "line", h->line);
			jw_ku64(&w, "column", h->column);
			jw_kbytes(&w, "text", h->text, h->n_text);
		}
		jw_close(&w, '}');
	}
	jw_close(&w, ']');
	jw_ku64(&w, "files", res->looked_at);
	jw_kbool(&w, "more", res->more);
	jw_close(&w, '}');
	request_answer(r, 200);
}

static void done_edit(void *ctx, const struct err *e, struct file_result *res)
{
	struct request *r = ctx;
	struct jsonw w = {.b = &r->answer};
	if (e) {
		request_fail(r, e);
		return;
	}
	jw_open(&w, '{');
	jw_ku64(&w, "replaced", res->replaced);
	jw_ku64(&w, "line", res->line);
	if (res->n) {
		jw_key(&w, "file");
		file_encode(&w, &res->list[0]);
	}
	jw_close(&w, '}');
	request_answer(r, 200);
}

// --- the questions ---

void get_file_list(struct request *r)
{
	uint64_t depth = 1, limit = 1000;
	const char *path = request_query(r, "path");
	struct file_at at = file_at(r, NULL);
	if (query_u64(r, "depth", 100, &depth) && query_u64(r, "limit", LIST_MAX, &limit))
		file_list(&at, path ? path : "", (unsigned)depth, (unsigned)limit, (struct file_done){done_list, r});
}

void get_file_stat(struct request *r)
{
	const char *path;
	struct file_at at = file_at(r, NULL);
	if (file_query_path(r, &path))
		file_stat(&at, path, file_query_flag(r, "follow") ? FILE_FOLLOW : 0, (struct file_done){done_record, r});
}

static void done_empty(void *ctx, const struct err *e, struct file_result *res)
{
	(void)res;
	if (e)
		request_fail(ctx, e);
	else
		request_answer(ctx, 204);
}

void delete_file(struct request *r)
{
	const char *path;
	struct file_at at = file_at(r, NULL);
	if (file_query_path(r, &path))
		file_remove(&at, path, FILE_MUST | (file_query_flag(r, "recursive") ? 0 : FILE_PLAIN), (struct file_done){done_empty, r});
}

static int get_text(struct request *r, const char *key, const char **out, struct err *e)
{
	if (json_get_str(r->json, key, out, e))
		return -1;
	return *out && **out ? 0 : err_set(e, ERR_INVALID, "field \"%s\" is missing", key);
}

static int get_mode(struct request *r, uint32_t *out, struct err *e)
{
	const char *s;
	if (json_get_str(r->json, "mode", &s, e))
		return -1;
	*out = 0;
	for (const char *p = s; p && *p; p++) {
		if (*p < '0' || *p > '7' || p - s > 3)
			return err_set(e, ERR_INVALID, "mode must be octal, such as \"0755\"");
		*out = *out * 8 + (uint32_t)(*p - '0');
	}
	return 0;
}

static int get_flag(struct request *r, const char *key, bool preset, unsigned flag, unsigned *inout, struct err *e)
{
	bool on = preset;
	if (json_get_bool(r->json, key, &on, e))
		return -1;
	*inout |= on ? flag : 0;
	return 0;
}

void post_file_mkdir(struct request *r)
{
	static const char *const known[] = {"path", "mode", "new", "user", NULL};
	struct err e;
	const char *path, *user;
	struct file_how how = {0};
	if (json_only(r->json, known, &e) || get_text(r, "path", &path, &e) || json_get_str(r->json, "user", &user, &e) ||
	    get_mode(r, &how.mode, &e) || get_flag(r, "new", false, FILE_NEW, &how.flags, &e)) {
		request_fail(r, &e);
		return;
	}
	struct file_at at = file_at(r, user);
	file_mkdir(&at, path, &how, (struct file_done){done_record, r});
}

static void from_to(struct request *r, void (*op)(const struct file_at *, const char *, const char *, unsigned, struct file_done))
{
	static const char *const known[] = {"from", "to", "parents", "replace", "user", NULL};
	struct err e;
	const char *from, *to, *user;
	unsigned flags = 0;
	bool replace = false;
	if (json_only(r->json, known, &e) || get_text(r, "from", &from, &e) || get_text(r, "to", &to, &e) ||
	    json_get_str(r->json, "user", &user, &e) || get_flag(r, "parents", false, FILE_PARENTS, &flags, &e) ||
	    json_get_bool(r->json, "replace", &replace, &e)) {
		request_fail(r, &e);
		return;
	}
	struct file_at at = file_at(r, user);
	op(&at, from, to, flags | (replace ? 0 : FILE_NEW), (struct file_done){done_record, r});
}

void post_file_move(struct request *r)
{
	from_to(r, file_move);
}

void post_file_copy(struct request *r)
{
	from_to(r, file_copy);
}

void post_file_remove(struct request *r)
{
	static const char *const known[] = {"path", "recursive", "user", NULL};
	struct err e;
	const char *path, *user;
	bool recursive = false;
	if (json_only(r->json, known, &e) || get_text(r, "path", &path, &e) || json_get_str(r->json, "user", &user, &e) ||
	    json_get_bool(r->json, "recursive", &recursive, &e)) {
		request_fail(r, &e);
		return;
	}
	struct file_at at = file_at(r, user);
	file_remove(&at, path, FILE_MUST | (recursive ? 0 : FILE_PLAIN), (struct file_done){done_empty, r});
}

static int decode_query(struct request *r, struct file_query *q, char ***globs, char ***nots, struct err *e)
{
	static const char *const known[] = {"path", "regex", "literal", "ignore_case", "globs", "not", "hidden", "files_only",
					    "limit", "timeout_ms", "user", NULL};
	uint64_t limit = 200, ms = 10000;
	if (json_only(r->json, known, e) || json_get_str(r->json, "path", &q->dir, e) || json_get_str(r->json, "regex", &q->regex, e) ||
	    json_get_bool(r->json, "literal", &q->literal, e) || json_get_bool(r->json, "ignore_case", &q->nocase, e) ||
	    json_get_strv(r->json, "globs", globs, e) || json_get_strv(r->json, "not", nots, e) ||
	    json_get_bool(r->json, "hidden", &q->hidden, e) || json_get_bool(r->json, "files_only", &q->files_only, e) ||
	    json_get_u64(r->json, "limit", &limit, e) || json_get_u64(r->json, "timeout_ms", &ms, e))
		return -1;
	if (strv_len(*globs ? *globs : (char *[]){NULL}) + strv_len(*nots ? *nots : (char *[]){NULL}) > 40)
		return err_set(e, ERR_INVALID, "at most 40 globs");
	q->globs = *globs;
	q->nots = *nots;
	q->limit = limit && limit < FILE_HITS_MAX ? (unsigned)limit : FILE_HITS_MAX;
	q->ms = ms < 60000 ? (unsigned)ms : 60000;
	return 0;
}

void post_file_search(struct request *r)
{
	struct err e;
	struct file_query q = {0};
	char **globs = NULL, **nots = NULL;
	const char *user = NULL;
	if (decode_query(r, &q, &globs, &nots, &e) || json_get_str(r->json, "user", &user, &e)) {
		request_fail(r, &e);
	} else {
		struct file_at at = file_at(r, user);
		file_search(&at, &q, (struct file_done){done_search, r});
	}
	strv_free(globs);
	strv_free(nots);
}

static int decode_edit(const json_t *o, struct file_edit *out, struct err *e)
{
	const char *old, *put;
	if (json_get_str(o, "old", &old, e) || json_get_str(o, "new", &put, e) || json_get_bool(o, "all", &out->all, e))
		return -1;
	if (!old || !*old || !put)
		return err_set(e, ERR_INVALID, "an edit has \"old\", the exact text to replace, and \"new\"");
	out->old = str_of(old);
	out->put = str_of(put);
	return 0;
}

static int decode_edits(const json_t *list, struct file_edit *out, size_t *n, struct err *e)
{
	static const char *const known[] = {"old", "new", "all", NULL};
	size_t i;
	json_t *o;
	*n = json_array_size(list);
	if (!json_is_array(list) || !*n || *n > EDITS_MAX)
		return err_set(e, ERR_INVALID, "field \"edits\" must be a list of 1 to %d", EDITS_MAX);
	json_array_foreach(list, i, o)
	{
		if (json_only(o, known, e) || decode_edit(o, &out[i], e))
			return err_wrap(e, "edits");
	}
	return 0;
}

void post_file_edit(struct request *r)
{
	static const char *const known[] = {"path", "edits", "etag", "user", NULL};
	struct err e;
	const char *path, *etag, *user;
	struct file_edit edits[EDITS_MAX] = {0};
	size_t n;
	if (json_only(r->json, known, &e) || get_text(r, "path", &path, &e) || json_get_str(r->json, "etag", &etag, &e) ||
	    json_get_str(r->json, "user", &user, &e) || decode_edits(json_object_get(r->json, "edits"), edits, &n, &e)) {
		request_fail(r, &e);
		return;
	}
	struct file_at at = file_at(r, user);
	file_edit(&at, path, edits, n, etag, (struct file_done){done_edit, r});
}
