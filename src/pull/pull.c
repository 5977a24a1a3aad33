// SPDX-License-Identifier: Apache-2.0
// The order: manifest (through an index, if there is one), configuration, layers beside each other, the layout's index.
#include "pull/pull.h"

#include "base/clock.h"
#include "base/mem.h"
#include "pull/layout.h"
#include <stdlib.h>
#include <string.h>

#define PROGRESS_MS 200

struct pull_work {
	const struct pull_job *job;
	const struct pull_report *report;
	struct pull_layout layout;
	struct pull_session *session;
	struct pull_manifest manifest;
	struct pull_blob top, chosen; // what the reference names; the image's manifest
	struct pull_incoming *in;     // one per layer
	size_t n_in;
	uint64_t said_ms, said_bytes;
};

// --- the job ---

static int job_take(const json_t *o, const char *key, char **out, struct err *e)
{
	const char *s;
	if (json_get_str(o, key, &s, e))
		return -1;
	*out = s && *s ? xstrdup(s) : NULL;
	return 0;
}

static int job_fill(const json_t *o, struct pull_job *j, struct err *e)
{
	static const char *const known[] = {"ref", "host", "prefix", "https", "http", "user", "password", "bearer", "ca_file", "have", "room", NULL};
	auto_free char *ref = NULL;
	if (json_only(o, known, e) || job_take(o, "ref", &ref, e) || image_ref_parse(ref ? ref : "", &j->ref, e))
		return -1;
	if (job_take(o, "host", &j->at.host, e) || job_take(o, "prefix", &j->at.prefix, e) || json_get_bool(o, "https", &j->at.https, e) ||
	    json_get_bool(o, "http", &j->at.http, e))
		return -1;
	if (job_take(o, "user", &j->user, e) || job_take(o, "password", &j->password, e) || job_take(o, "bearer", &j->bearer, e) ||
	    job_take(o, "ca_file", &j->ca_file, e) || json_get_strv(o, "have", &j->have, e) || json_get_u64(o, "room", &j->room, e))
		return -1;
	if (!j->at.prefix)
		j->at.prefix = xstrdup("");
	if (j->user && !j->password)
		j->password = xstrdup("");
	if (!j->at.host || !(j->at.https || j->at.http))
		return err_set(e, ERR_INVALID, "the job names no registry");
	return 0;
}

int pull_job_read(const char *p, size_t n, struct pull_job *out, struct err *e)
{
	struct pull_job j = {0};
	auto_json json_t *o = json_read(p, n, e);
	if (!o || job_fill(o, &j, e)) {
		pull_job_done(&j);
		return -1;
	}
	*out = j;
	return 0;
}

void pull_job_done(struct pull_job *j)
{
	image_ref_done(&j->ref);
	image_endpoint_done(&j->at);
	free(j->user);
	free(j->password);
	free(j->bearer);
	free(j->ca_file);
	strv_free(j->have);
	*j = (struct pull_job){0};
}

// --- progress ---

static void work_say(struct pull_work *k, bool always)
{
	uint64_t bytes = 0, done = 0, now = clock_ms();
	for (size_t i = 0; i < k->n_in; i++) {
		bytes += k->in[i].at;
		done += k->in[i].done;
	}
	if (!always && (now < k->said_ms + PROGRESS_MS || bytes == k->said_bytes))
		return;
	k->said_ms = now;
	k->said_bytes = bytes;
	auto_buf struct buf b = BUF_INIT(4096);
	struct jsonw w = {.b = &b};
	jw_open(&w, '{');
	jw_key(&w, "progress");
	jw_open(&w, '{');
	jw_ku64(&w, "bytes", bytes);
	jw_ku64(&w, "total", k->manifest.bytes);
	jw_ku64(&w, "layers", k->n_in);
	jw_ku64(&w, "layers_done", done);
	jw_close(&w, '}');
	jw_close(&w, '}');
	k->report->said(k->report->ctx, &b);
}

static void work_tick(void *ctx)
{
	struct pull_work *k = ctx;
	if (k->n_in)
		work_say(k, false);
}

// --- documents ---

static char *work_path(const struct pull_work *k, const char *kind, const char *name)
{
	return xasprintf("/v2/%s%s/%s/%s", k->job->at.prefix, k->job->ref.repository, kind, name);
}

// A manifest or index: by digest it is compared with that, by tag with what the registry says its digest is.
static json_t *work_document(struct pull_work *k, const char *name, enum pull_document *kind, struct pull_blob *out, struct pull_manifest *m,
			     struct err *e)
{
	char type[128], said[128], hex[SHA256_HEX];
	auto_buf struct buf body = BUF_INIT(PULL_DOCUMENT_MAX);
	auto_free char *path = work_path(k, "manifests", name);
	if (pull_session_get(k->session, path, PULL_ACCEPT, &body, type, said, e))
		return NULL;
	sha256_hex(body.n ? body.p : "", body.n, hex);
	const char *wanted = image_digest_is(name) ? name : said;
	if (image_digest_is(wanted) && strcmp(wanted + 7, hex)) {
		err_set(e, ERR_INVALID, "the registry sent another content for %s: sha256:%s", wanted, hex);
		return NULL;
	}
	auto_free char *digest = xasprintf("sha256:%s", hex);
	memcpy(out->digest, digest, PULL_DIGEST);
	out->size = body.n;
	json_t *doc = json_read(buf_cstr(&body), body.n, e);
	if (!doc || pull_document_kind(doc, type, kind, e) || (*kind == PULL_IMAGE && pull_layout_put(&k->layout, out, &body, e))) {
		json_decref(doc);
		return NULL;
	}
	const char *own = json_str(doc, "mediaType");
	size_t n = strcspn(*own ? own : type, "; ");
	if (n < sizeof m->media_type) {
		memcpy(m->media_type, *own ? own : type, n);
		m->media_type[n] = 0;
	}
	return doc;
}

static bool work_has(const struct pull_work *k)
{
	for (char **h = k->job->have; h && *h; h++)
		if (!strcmp(*h, k->top.digest))
			return true;
	return false;
}

// 1: it is here already.
static int work_manifest(struct pull_work *k, struct err *e)
{
	enum pull_document kind;
	struct pull_manifest found = {0};
	const char *name = k->job->ref.digest ? k->job->ref.digest : k->job->ref.tag;
	json_t *doc = work_document(k, name, &kind, &k->top, &found, e);
	if (!doc)
		return -1;
	k->chosen = k->top;
	if (work_has(k)) {
		json_decref(doc);
		return 1;
	}
	if (kind == PULL_INDEX) {
		struct pull_blob image;
		int rc = pull_index_choose(doc, &image, e);
		json_decref(doc);
		if (rc)
			return -1;
		doc = work_document(k, image.digest, &kind, &k->chosen, &found, e);
		if (doc && kind == PULL_INDEX) {
			json_decref(doc);
			return err_set(e, ERR_UNSUPPORTED, "the image's index names another index");
		}
		if (!doc)
			return -1;
	}
	int rc = pull_manifest_read(doc, &k->manifest, e);
	memcpy(k->manifest.media_type, found.media_type, sizeof found.media_type);
	json_decref(doc);
	return rc;
}

static json_t *work_config(struct pull_work *k, struct err *e)
{
	char type[128], said[128];
	auto_buf struct buf body = BUF_INIT(PULL_DOCUMENT_MAX);
	auto_free char *path = work_path(k, "blobs", k->manifest.config.digest);
	if (pull_session_get(k->session, path, NULL, &body, type, said, e) || pull_layout_put(&k->layout, &k->manifest.config, &body, e))
		return NULL;
	return json_read(buf_cstr(&body), body.n, e);
}

// --- layers ---

static int work_room(const struct pull_work *k, struct err *e)
{
	uint64_t wanted = 0;
	for (size_t i = 0; i < k->n_in; i++)
		wanted += k->in[i].blob.size - k->in[i].at;
	if (k->job->room && k->manifest.bytes > k->job->room)
		return err_set(e, ERR_LIMIT, "the image has %llu MiB, the disk budget leaves %llu: remove some (skep image ls, skep ps) or raise "
			       "disk_budget in config.yaml", (unsigned long long)(k->manifest.bytes >> 20), (unsigned long long)(k->job->room >> 20));
	return pull_layout_room(&k->layout, wanted, e);
}

static int work_open_layers(struct pull_work *k, struct err *e)
{
	k->in = xcalloc(k->manifest.n + 1, sizeof *k->in);
	for (; k->n_in < k->manifest.n; k->n_in++)
		if (pull_incoming_open(&k->layout, &k->manifest.layers[k->n_in], &k->in[k->n_in], e))
			return -1;
	return 0;
}

static int work_layers(struct pull_work *k, struct err *e)
{
	if (work_open_layers(k, e) || work_room(k, e))
		return -1;
	struct pull_transfer *t = xcalloc(k->n_in + 1, sizeof *t);
	size_t n = 0;
	for (size_t i = 0; i < k->n_in; i++)
		if (!k->in[i].done) {
			t[n].path = work_path(k, "blobs", k->in[i].blob.digest);
			t[n++].sink = pull_incoming_sink(&k->in[i]);
		}
	work_say(k, true);
	int rc = pull_session_run(k->session, t, n, PULL_TOGETHER, e);
	for (size_t i = 0; i < n; i++)
		free(t[i].path);
	free(t);
	if (!rc)
		work_say(k, true);
	return rc;
}

static int work_run(struct pull_work *k, struct jsonw *w, struct err *e)
{
	int here = work_manifest(k, e);
	if (here < 0)
		return -1;
	jw_kstr(w, "digest", k->top.digest);
	jw_kbool(w, "have", here);
	if (here)
		return 0;
	auto_json json_t *config = work_config(k, e);
	if (!config || work_layers(k, e) || pull_layout_finish(&k->layout, &k->manifest, &k->chosen, e))
		return -1;
	jw_key(w, "config");
	pull_config_write(w, config);
	return 0;
}

static int work_begin(struct pull_work *k, int dir, struct err *e)
{
	const struct pull_job *j = k->job;
	struct pull_session_config c = {.at = &j->at, .repository = j->ref.repository, .user = j->user, .password = j->password, .bearer = j->bearer,
					.ca_file = j->ca_file, .tick = work_tick, .ctx = k};
	k->session = pull_session_new(&c, e);
	if (!k->session || pull_layout_open(dir, &k->layout, e))
		return -1;
	return k->report->seal(e);
}

int pull_image(const struct pull_job *j, int dir, const struct pull_report *r, struct jsonw *w, struct err *e)
{
	struct pull_work k = {.job = j, .report = r, .layout = {-1, -1}};
	int rc = work_begin(&k, dir, e) || work_run(&k, w, e) ? -1 : 0;
	for (size_t i = 0; i < k.n_in; i++)
		pull_incoming_close(&k.in[i]);
	free(k.in);
	pull_manifest_done(&k.manifest);
	pull_layout_close(&k.layout);
	if (k.session)
		pull_session_free(k.session);
	if (rc) {
		auto_free char *ref = image_ref_text(&j->ref);
		err_wrap(e, "%.200s", ref);
	}
	return rc;
}
