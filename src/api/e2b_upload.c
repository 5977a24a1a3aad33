// SPDX-License-Identifier: Apache-2.0
// Files for the COPY steps of a build: archives that clients put here under the hash they computed, and that a build reads.
// Each is a file without a name on the disk of SKEP_HOME: it is gone with this daemon, and clients ask before they rely on it.
#include "api/e2b_int.h"
#include "api/e2b_routes.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/sha256.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HASH 64
#define UPLOADS_MAX 64
#define UPLOAD_MAX_BYTES (2ULL << 30)
#define ALL_MAX_BYTES (8ULL << 30)

struct upload {
	char hash[HASH + 1], key[KEY_SIZE]; // key: who has the address may put the file there
	int fd;				    // -1 = nothing yet
	uint64_t size;
	char digest[SHA256_HEX]; // of what came: the hash is only what somebody says
	struct upload *next;
};

static struct upload *uploads; // newest first

static void upload_free(struct upload *u)
{
	close_fd(&u->fd);
	free(u);
}

void e2b_uploads_free(void)
{
	while (uploads) {
		struct upload *u = uploads;
		uploads = u->next;
		upload_free(u);
	}
}

static struct upload *by_hash(const char *hash)
{
	for (struct upload *u = uploads; u; u = u->next)
		if (!strcmp(u->hash, hash))
			return u;
	return NULL;
}

static struct upload *by_key(const char *key)
{
	for (struct upload *u = uploads; u; u = u->next)
		if (key_equal(u->key, key))
			return u;
	return NULL;
}

int e2b_upload_fd(const char *hash, uint64_t *out_size)
{
	struct upload *u = by_hash(hash);
	if (u)
		*out_size = u->size;
	return u ? u->fd : -1;
}

const char *e2b_upload_digest(const char *hash)
{
	struct upload *u = by_hash(hash);
	return u && u->fd >= 0 ? u->digest : NULL;
}

// The oldest make room.
static void trim(void)
{
	uint64_t bytes = 0;
	int n = 0;
	for (struct upload **p = &uploads; *p;) {
		bytes += (*p)->size;
		if (++n <= UPLOADS_MAX && bytes <= ALL_MAX_BYTES) {
			p = &(*p)->next;
			continue;
		}
		struct upload *u = *p;
		bytes -= u->size;
		n--;
		*p = u->next;
		upload_free(u);
	}
}

static bool hash_is(const char *s)
{
	return strlen(s) == HASH && strspn(s, "0123456789abcdef") == HASH;
}

// Where the client reached us is where it shall put the file.
static char *address(struct request *r, const struct upload *u)
{
	const char *host = request_header(r, "Host"), *proto = request_header(r, "X-Forwarded-Proto");
	return xasprintf("%s://%s/e2b/upload/%s", proto && !strcmp(proto, "https") ? "https" : "http", host ? host : "localhost", u->key);
}

void e2b_get_files(struct request *r)
{
	const char *hash = r->parts[1];
	struct jsonw w = answer_json(r);
	struct err e;
	if (!e2b_template_find(r->parts[0], NULL, &e)) {
		request_fail(r, &e);
		return;
	}
	if (!hash_is(hash)) {
		e2b_error(r, 400, "not the SHA-256 of files");
		return;
	}
	struct upload *u = by_hash(hash);
	bool present = u && u->fd >= 0;
	if (!u) {
		u = xcalloc(1, sizeof *u);
		u->fd = -1;
		memcpy(u->hash, hash, HASH);
		key_make(u->key);
		u->next = uploads;
		uploads = u;
		trim();
	}
	auto_free char *url = address(r, u);
	jw_open(&w, '{');
	jw_kbool(&w, "present", present);
	jw_kstr(&w, "url", url);
	jw_close(&w, '}');
	request_answer(r, 201);
}

// --- the file itself ---

struct receiving {
	int fd;
	uint64_t size;
	struct sha256 sum;
	char key[KEY_SIZE];
};

static void receiving_free(struct request *r)
{
	struct receiving *x = r->ctx;
	r->ctx = NULL;
	if (!x)
		return;
	close_fd(&x->fd);
	free(x);
}

static size_t on_body(struct request *r, const char *p, size_t n)
{
	struct receiving *x = r->ctx;
	struct err e;
	if (!x)
		return n;
	x->size += n;
	sha256_add(&x->sum, p, n);
	if (x->size > UPLOAD_MAX_BYTES)
		err_set(&e, ERR_LIMIT, "the files are more than %llu bytes", UPLOAD_MAX_BYTES);
	if (x->size <= UPLOAD_MAX_BYTES && !fs_write_all(x->fd, p, n, &e))
		return n;
	receiving_free(r);
	request_fail(r, &e);
	return n;
}

static void on_body_end(struct request *r)
{
	struct receiving *x = r->ctx;
	struct upload *u = by_key(x->key);
	if (u) { // a later one takes the place: the same hash, the same files
		close_fd(&u->fd);
		u->fd = take_fd(&x->fd);
		u->size = x->size;
		sha256_end_hex(&x->sum, u->digest);
		trim();
	}
	receiving_free(r);
	request_answer(r, 200);
}

// Its answer is thrown away; it has to be given all the same.
static void on_gone(struct request *r)
{
	receiving_free(r);
	if (!r->status)
		request_answer(r, 499);
}

void e2b_put_upload(struct request *r)
{
	struct err e;
	struct upload *u = strlen(r->parts[0]) == KEY_SIZE - 1 ? by_key(r->parts[0]) : NULL;
	if (!u) {
		e2b_error(r, 404, "nobody asked for these files");
		return;
	}
	struct receiving *x = xcalloc(1, sizeof *x);
	memcpy(x->key, u->key, sizeof x->key);
	sha256_init(&x->sum);
	x->fd = engine_scratch(r->engine, &e);
	r->ctx = x;
	if (x->fd < 0) {
		receiving_free(r);
		request_fail(r, &e);
		return;
	}
	r->on_body = on_body;
	r->on_body_end = on_body_end;
	r->on_gone = on_gone;
}
