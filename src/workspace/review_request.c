// SPDX-License-Identifier: Apache-2.0
#include "workspace/review_request.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

static int from_base64(const char *text, char **out, struct err *e)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t n = strlen(text), at = 0;
	auto_free char *p = xcalloc(1, n / 4 * 3 + 4);
	uint32_t bits = 0, have = 0;
	for (; *text && *text != '='; text++) {
		const char *d = strchr(digits, *text);
		if (!d)
			return err_set(e, ERR_INVALID, "not base64: %.100s", text);
		bits = bits << 6 | (uint32_t)(d - digits);
		if ((have += 6) >= 8)
			p[at++] = (char)(bits >> (have -= 8));
	}
	if (n % 4 || memchr(p, 0, at))
		return err_set(e, ERR_INVALID, "a path in base64 is cut or holds a zero byte");
	*out = take(&p);
	return 0;
}

static int add_decoded(char ***v, char **encoded, struct err *e)
{
	for (char **p = encoded; p && *p; p++) {
		char *path = NULL;
		if (from_base64(*p, &path, e))
			return -1;
		strv_add(v, path);
		free(path);
	}
	return 0;
}

// KEY and KEY_b64 together.
static int get_paths(const json_t *o, const char *key, char ***out, struct err *e)
{
	char **plain = NULL, **encoded = NULL;
	auto_free char *key64 = xasprintf("%s_b64", key);
	int rc = json_get_strv(o, key, &plain, e) || json_get_strv(o, key64, &encoded, e) || add_decoded(&plain, encoded, e);
	strv_free(encoded);
	for (char **p = plain; !rc && p && *p; p++)
		if (!delta_path_ok(*p))
			rc = err_set(e, ERR_INVALID, "\"%s\": %.100s is no path below the workspace", key, *p);
	if (rc)
		strv_free(plain);
	else
		*out = plain;
	return rc ? -1 : 0;
}

static int get_set(const json_t *set, struct selection *out, struct err *e)
{
	static const char *const known[] = {"all", "paths", "paths_b64", "hunks", NULL};
	if (!set)
		return 0;
	if (!json_is_object(set))
		return err_set(e, ERR_INVALID, "\"set\" is no object");
	return json_only(set, known, e) || json_get_bool(set, "all", &out->all, e) || get_paths(set, "paths", &out->paths, e) ||
	       json_get_strv(set, "hunks", &out->hunks, e);
}

static int get_edits(const json_t *edits, char ***out, struct err *e)
{
	const char *id;
	json_t *v;
	if (edits && !json_is_object(edits))
		return err_set(e, ERR_INVALID, "\"edits\" is no object");
	json_object_foreach(edits, id, v)
	{
		const char *lines = json_string_value(v);
		if (!lines || strlen(lines) > LINES_MAX)
			return err_set(e, ERR_INVALID, "\"edits\": %.40s must be given lines, at most %u bytes of them", id, LINES_MAX);
		strv_add(out, id);
		strv_add(out, lines);
	}
	return 0;
}

static int get_word(const json_t *o, const char *key, const char *const *words, unsigned *out, struct err *e)
{
	const char *s;
	if (json_get_str(o, key, &s, e))
		return -1;
	for (unsigned i = 0; s && words[i]; i++)
		if (!strcmp(s, words[i])) {
			*out = i;
			return 0;
		}
	return s ? err_set(e, ERR_INVALID, "\"%s\" can not be \"%.40s\"", key, s) : 0;
}

static int get_places(const json_t *o, struct review_request *r, struct err *e)
{
	uint64_t t0 = 0, mask = 022;
	if (json_get_str(o, "shadow", &r->spec.shadow, e) || json_get_str(o, "target", &r->spec.target, e) ||
	    json_get_str(o, "base", &r->spec.base, e) || json_get_str(o, "log", &r->log, e) || json_get_str(o, "out", &r->out, e) || json_get_str(o, "to", &r->apply.to, e) ||
	    json_get_u64(o, "dev", &r->spec.dev, e) || json_get_u64(o, "ino", &r->spec.ino, e) || json_get_u64(o, "t0", &t0, e) ||
	    json_get_u64(o, "umask", &mask, e) || json_get_strv(o, "hide", &r->spec.hide, e))
		return -1;
	r->spec.t0_ns = (int64_t)t0;
	r->apply.umask = mask & 0777;
	return r->spec.shadow ? 0 : err_set(e, ERR_INVALID, "\"shadow\" is missing");
}

// The job to collect from first; none: what was collected last is looked at.
static int get_fetch(const json_t *o, struct review_request *r, struct err *e)
{
	r->fetch.spec = (struct collect_spec){COPY_FILE_MAX, COPY_TOTAL_MAX, 0, NULL};
	if (get_paths(o, "scope", &r->spec.scope, e) || json_get_str(o, "socket", &r->fetch.socket, e) || json_get_str(o, "ticket", &r->fetch.ticket, e) ||
	    json_get_u64(o, "file_max", &r->fetch.spec.file_max, e) || json_get_u64(o, "total_max", &r->fetch.spec.total_max, e) ||
	    json_get_u64(o, "keep_free", &r->fetch.spec.keep_free, e))
		return -1;
	r->fetch.shadow = r->spec.shadow;
	r->fetch.spec.paths = r->spec.scope;
	if (r->fetch.spec.file_max > COPY_FILE_MAX)
		r->fetch.spec.file_max = COPY_FILE_MAX;
	return r->fetch.socket && !r->fetch.ticket ? err_set(e, ERR_INVALID, "\"ticket\" is missing") : 0;
}

static int get_wishes(const json_t *o, struct review_request *r, struct err *e)
{
	static const char *const formats[] = {"json", "patch", "stat", "name-status", NULL};
	static const char *const conflicts[] = {"stop", "skip", "markers", NULL};
	unsigned format = 0, conflict = 0;
	uint64_t context = 3;
	bool text = true;
	if (get_word(o, "format", formats, &format, e) || get_word(o, "conflicts", conflicts, &conflict, e) ||
	    json_get_u64(o, "context", &context, e) || json_get_bool(o, "text", &text, e) || json_get_bool(o, "ignored", &r->spec.ignored, e) ||
	    json_get_str(o, "digest", &r->apply.digest, e) || json_get_bool(o, "accept_risk", &r->apply.accept_risk, e) ||
	    get_paths(o, "accept", &r->apply.accept, e) || get_set(json_object_get(o, "set"), &r->apply.set, e) ||
	    get_edits(json_object_get(o, "edits"), &r->apply.edits, e))
		return -1;
	if (context > 1000)
		return err_set(e, ERR_INVALID, "\"context\" is over 1000");
	r->format = (enum review_format)format;
	r->apply.conflicts = (enum conflicts)conflict;
	r->context = text ? (int)context : -1;
	return json_get_str(o, "author", &r->author, e) || json_get_str(o, "email", &r->email, e) ||
	       json_get_str(o, "subject", &r->subject, e) || json_get_str(o, "message", &r->message, e) ||
	       json_get_str(o, "parent", &r->parent, e) ||
	       json_get_u64(o, "date", &r->date, e);
}

int review_request_read(const char *p, size_t n, struct review_request *r, struct err *e)
{
	static const char *const known[] = {"edits", "ignored", "hide", "shadow", "target", "base", "log",	"out",	  "to",	     "dev",	"ino",	  "t0",	      "umask",
					    "format", "conflicts", "context", "text", "digest", "accept_risk", "accept", "accept_b64",
					    "scope", "scope_b64", "socket", "ticket", "file_max", "total_max", "keep_free",
					    "set",    "author",	 "email", "subject", "message", "date", "parent", NULL};
	*r = (struct review_request){.spec.renames = true, .spec.risks = true, .context = 3};
	r->json = json_read(p, n, e);
	if (r->json && json_is_object(r->json) && !json_only(r->json, known, e) && !get_places(r->json, r, e) && !get_fetch(r->json, r, e) &&
	    !get_wishes(r->json, r, e))
		return 0;
	if (r->json && !json_is_object(r->json))
		err_set(e, ERR_INVALID, "the request is no object");
	review_request_done(r);
	return -1;
}

void review_request_done(struct review_request *r)
{
	strv_free(r->apply.set.paths);
	strv_free(r->apply.set.hunks);
	strv_free(r->apply.accept);
	strv_free(r->apply.edits);
	strv_free(r->spec.hide);
	strv_free(r->spec.scope);
	json_decref(r->json);
	*r = (struct review_request){0};
}
