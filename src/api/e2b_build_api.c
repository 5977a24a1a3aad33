// SPDX-License-Identifier: Apache-2.0
// Requests about builds of templates: beginning one, and how far it is.
#include "api/e2b_templates.h"
#include "api/e2b_routes.h"

#include "api/auth.h"
#include "base/mem.h"
#include "model/imageref.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define LOGS_PAGE 100

static bool is_base_image(const char *image)
{
	static const char *const names[] = {"e2bdev/base", "e2bdev/code-interpreter"};
	for (size_t i = 0; i < countof(names); i++) {
		size_t n = strlen(names[i]);
		if (!strncmp(image, names[i], n) && (!image[n] || !strcmp(image + n, ":latest")))
			return true;
	}
	return false;
}

struct starting {
	struct request *r;
	char template_id[ID_SIZE], build[40];
	char base_id[ID_SIZE], base_build[40];
	char image[ID_SIZE];
	char *ref, *username, *password; // of an image that is pulled; NULL
	bool on_template;
	struct err refusal;
};

static struct e2b_build *lookup(const char *template_id, const char *build, struct e2b_template **out)
{
	*out = e2b_template_named(template_id);
	return *out ? e2b_build_of(*out, build) : NULL;
}

static void begin(struct starting *s)
{
	struct request *r = s->r;
	struct err no;
	struct e2b_template *t, *base_t;
	struct e2b_build *b = lookup(s->template_id, s->build, &t), *on = s->on_template ? lookup(s->base_id, s->base_build, &base_t) : NULL;
	if (!b || b->builder) {
		e2b_error(r, b ? 409 : 404, b ? "build '%s' is under way" : "build '%s' not found", s->build);
	} else {
		e2b_build_begin(r, t, b, r->json,
				&(struct e2b_base){.build = on,
						   .image = *s->image ? s->image : NULL,
						   .ref = s->ref,
						   .username = s->username,
						   .password = s->password,
						   .docker_logins = s->ref && !request_may(r, SCOPE_ADMIN, NULL, &no),
						   .start_cmd = *json_str(r->json, "startCmd") ? json_str(r->json, "startCmd") : NULL,
						   .ready_cmd = *json_str(r->json, "readyCmd") ? json_str(r->json, "readyCmd") : NULL,
						   .refusal = s->refusal.kind ? &s->refusal : NULL});
		request_answer(r, 202);
	}
	free(s->ref);
	free(s->username);
	free(s->password);
	free(s);
}

static void on_base(void *ctx, const struct err *e)
{
	struct starting *s = ctx;
	if (e)
		s->refusal = *e;
	begin(s);
}

static int read_login(struct starting *s, const json_t *login, struct err *e)
{
	const char *user, *password;
	if (!login || json_is_null(login))
		return 0;
	if (strcmp(json_str(login, "type"), "registry"))
		return err_set(e, ERR_UNSUPPORTED, "fromImageRegistry: only a login with user name and password is served");
	if (json_get_str(login, "username", &user, e) || json_get_str(login, "password", &password, e))
		return err_wrap(e, "fromImageRegistry");
	s->username = user ? xstrdup(user) : NULL;
	s->password = password ? xstrdup(password) : NULL;
	return 0;
}

// An image that was imported here under this name or has this id; any other one is pulled, also one that is here: it may
// have changed.
static void on_image(struct starting *s, const char *image)
{
	struct image_row i = {0};
	struct image_ref ref;
	struct err e;
	bool here = !engine_image_get(s->r->engine, image, &i, &e);
	if (here && (!i.digest || (i.name && !strcmp(i.name, image)) || !strcmp(i.id, image))) {
		memcpy(s->image, i.id, sizeof s->image);
	} else if (image_ref_parse(image, &ref, &e)) {
		err_set(&s->refusal, ERR_INVALID, "image '%.80s': %s", image, e.msg);
	} else {
		s->ref = image_ref_text(&ref);
		image_ref_done(&ref);
		if (read_login(s, json_object_get(s->r->json, "fromImageRegistry"), &e))
			s->refusal = e;
	}
	image_row_done(&i);
	begin(s);
}

void e2b_post_build(struct request *r)
{
	struct err e;
	struct e2b_template *t = e2b_template_of(r), *base;
	struct e2b_build *b = t ? e2b_build_of(t, r->parts[1]) : NULL, *on = NULL;
	const char *image = json_str(r->json, "fromImage"), *from = json_str(r->json, "fromTemplate");
	if (!t)
		return;
	if (!b || strcmp(b->state, "waiting") || t->builtin) {
		e2b_error(r, b ? 409 : 404, b ? "build '%.60s' was started already" : "build '%.60s' not found", r->parts[1]);
		return;
	}
	struct starting *s = xcalloc(1, sizeof *s);
	s->r = r;
	memcpy(s->template_id, t->id, sizeof s->template_id);
	memcpy(s->build, b->id, sizeof s->build);
	if (*image && !is_base_image(image)) {
		on_image(s, image);
		return;
	}
	base = e2b_template_find(*from ? from : "base", &on, &e);
	if (!base || !on) {
		s->refusal = e;
		begin(s);
		return;
	}
	s->on_template = true;
	memcpy(s->base_id, base->id, sizeof s->base_id);
	memcpy(s->base_build, on->id, sizeof s->base_build);
	e2b_template_ready(r, base, on, on_base, s);
}

// --- how far it is ---

static void put_entry(struct jsonw *w, const char *log, bool text_only)
{
	struct str rest = str_of(log), ms, level, step;
	uint64_t at = 0;
	if (!str_next(&rest, '\t', &ms) || !str_next(&rest, '\t', &level) || !str_next(&rest, '\t', &step) || str_to_u64(ms, 0, INT64_MAX, &at))
		return;
	if (text_only) {
		jw_str(w, rest.n ? rest.p : "", rest.n);
		return;
	}
	auto_free char *l = xstrndup(level.p, level.n), *s = xstrndup(step.p, step.n);
	jw_open(w, '{');
	jw_ktime(w, "timestamp", at);
	jw_kstr(w, "level", l);
	jw_key(w, "message");
	jw_str(w, rest.n ? rest.p : "", rest.n);
	jw_kstr(w, "step", s);
	jw_close(w, '}');
}

static void put_logs(struct jsonw *w, const char *key, const struct e2b_build *b, size_t from, size_t n, bool text_only)
{
	size_t all = strv_len(b->logs);
	jw_key(w, key);
	jw_open(w, '[');
	for (size_t i = from; i < all && i < from + n; i++)
		put_entry(w, b->logs[i], text_only);
	jw_close(w, ']');
}

static bool page_of(struct request *r, uint64_t *from, uint64_t *n)
{
	const char *offset = request_query(r, "logsOffset"), *limit = request_query(r, "limit");
	*n = LOGS_PAGE;
	if ((!offset || !str_to_u64(str_of(offset), 0, INT32_MAX, from)) && (!limit || !str_to_u64(str_of(limit), 0, LOGS_PAGE, n)))
		return true;
	e2b_error(r, 400, "logsOffset and limit are whole numbers, limit at most %d", LOGS_PAGE);
	return false;
}

// NULL: answered with 404.
static struct e2b_build *named_build(struct request *r, const struct e2b_template *t)
{
	struct e2b_build *b = e2b_build_of(t, r->parts[1]);
	if (!b)
		e2b_error(r, 404, "build '%.60s' not found", r->parts[1]);
	return b;
}

void e2b_get_build_status(struct request *r)
{
	struct e2b_template *t = e2b_template_of(r);
	struct e2b_build *b = t ? named_build(r, t) : NULL;
	struct jsonw w = answer_json(r);
	uint64_t from = 0, n;
	if (!b || !page_of(r, &from, &n))
		return;
	jw_open(&w, '{');
	jw_kstr(&w, "templateID", t->id);
	jw_kstr(&w, "buildID", b->id);
	jw_kstr(&w, "status", b->state);
	put_logs(&w, "logs", b, from, n, true);
	put_logs(&w, "logEntries", b, from, n, false);
	if (b->reason) {
		jw_key(&w, "reason");
		jw_open(&w, '{');
		jw_kstr(&w, "message", b->reason);
		jw_kstr(&w, "step", b->reason_step);
		jw_key(&w, "logEntries");
		jw_raw(&w, "[]");
		jw_close(&w, '}');
	}
	jw_close(&w, '}');
	request_answer(r, 200);
}

void e2b_get_build_logs(struct request *r)
{
	struct e2b_template *t = e2b_template_of(r);
	struct e2b_build *b = t ? named_build(r, t) : NULL;
	struct jsonw w = answer_json(r);
	uint64_t from = 0, n;
	if (!b || !page_of(r, &from, &n))
		return;
	jw_open(&w, '{');
	put_logs(&w, "logs", b, from, n, false);
	jw_close(&w, '}');
	request_answer(r, 200);
}
