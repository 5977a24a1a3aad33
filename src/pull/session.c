// SPDX-License-Identifier: Apache-2.0
// One thread and one curl multi handle. curl is told to follow no redirect and to keep no login: both are decided here,
// for each step.
#include "pull/session.h"

#include "base/base64.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "pull/challenge.h"
#include <curl/curl.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define REDIRECTS 5
#define TRIES 5 // without a byte in between
#define TRIES_FIRST 2 // where the host has not answered yet: its name may be wrong
#define RETRY_MS 300
#define RETRY_MAX_MS 30000
#define CONNECT_S 20
#define STALL_S 60 // without a byte
#define POLL_MS 200
#define TOKEN_MAX (1u << 20)
#define CA_MAX (8u << 20)
#define LOGINS 2 // of one transfer: a token may end while it waits
#define NO_RANGE UINT64_MAX

enum run_state { RUN_WAITING, RUN_RUNNING, RUN_DONE, RUN_FAILED };

// What a transfer is while pull_session_run has it.
struct transfer_run {
	struct pull_session *s;
	struct pull_transfer *t;
	enum run_state state;
	CURL *easy;
	struct curl_slist *headers;
	struct pull_url url;
	struct pull_url token_url; // set: this asks for a token, there
	uint64_t at_ms;		   // when it may begin
	unsigned redirects, tries, logins, login_used;
	bool begun, moved; // the sink has the body; bytes came since the last try began
	char *location;
	struct pull_challenge challenge;
	uint64_t retry_after_ms;
	uint64_t offset, range_from; // asked for; answered, NO_RANGE where that is not said
	struct err err;		     // of the sink
};

struct pull_session {
	struct pull_session_config c;
	struct pull_url base; // "" = not known yet: https or http
	char *ca;
	size_t ca_n;
	char *login;	   // the Authorization header for the registry; NULL = none yet
	unsigned n_logins; // counts up with each new one
	bool answered;	   // somebody did
};

// --- setting up ---

// The system's authorities, followed by the site's own.
static int session_read_ca(struct pull_session *s, struct err *e)
{
	static const char *const bundles[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"};
	struct err ignored;
	auto_buf struct buf b = BUF_INIT(CA_MAX);
	for (size_t i = 0; i < countof(bundles) && !b.n; i++)
		if (fs_read(AT_FDCWD, bundles[i], &b, &ignored))
			buf_clear(&b);
	buf_byte(&b, '\n');
	if (s->c.ca_file && fs_read(AT_FDCWD, s->c.ca_file, &b, e))
		return err_wrap(e, "ca_file");
	s->ca_n = b.n;
	s->ca = buf_take(&b);
	return 0;
}

static int session_base(struct pull_session *s, bool https, struct err *e)
{
	auto_free char *text = xasprintf("%s://%s/", https ? "https" : "http", s->c.at->host);
	pull_url_done(&s->base);
	return pull_url_parse(NULL, text, &s->base, e);
}

struct pull_session *pull_session_new(const struct pull_session_config *c, struct err *e)
{
	if (curl_global_init(CURL_GLOBAL_DEFAULT)) {
		err_set(e, ERR_SYSTEM, "libcurl does not start");
		return NULL;
	}
	struct pull_session *s = xcalloc(1, sizeof *s);
	s->c = *c;
	s->login = c->bearer ? xasprintf("Authorization: Bearer %s", c->bearer) : NULL;
	if (session_read_ca(s, e) || session_base(s, c->at->https, e)) {
		pull_session_free(s);
		return NULL;
	}
	return s;
}

void pull_session_free(struct pull_session *s)
{
	pull_url_done(&s->base);
	free(s->ca);
	free(s->login);
	free(s);
}

// --- one step of a transfer ---

static void run_header_value(char *to, size_t size, const char *value, size_t n)
{
	if (n < size) {
		memcpy(to, value, n);
		to[n] = 0;
	}
}

static void run_header(struct transfer_run *r, const char *name, size_t n_name, const char *value, size_t n)
{
	auto_free char *text = xstrndup(value, n);
	uint64_t seconds;
	if (n_name == 8 && !strncasecmp(name, "location", n_name)) {
		free(r->location);
		r->location = take(&text);
	} else if (n_name == 16 && !strncasecmp(name, "www-authenticate", n_name)) {
		pull_challenge_add(&r->challenge, text);
	} else if (n_name == 12 && !strncasecmp(name, "content-type", n_name)) {
		run_header_value(r->t->type, sizeof r->t->type, value, n);
	} else if (n_name == 21 && !strncasecmp(name, "docker-content-digest", n_name)) {
		run_header_value(r->t->digest, sizeof r->t->digest, value, n);
	} else if (n_name == 11 && !strncasecmp(name, "retry-after", n_name) && !str_to_u64(str_of(text), 0, 3600, &seconds)) {
		r->retry_after_ms = seconds * 1000;
	} else if (n_name == 13 && !strncasecmp(name, "content-range", n_name) && str_has_prefix(text, "bytes ")) {
		struct str rest = str_of(text + strlen("bytes ")), from;
		if (!str_next(&rest, '-', &from) || str_to_u64(from, 0, INT64_MAX, &r->range_from))
			r->range_from = NO_RANGE;
	}
}

static size_t run_on_header(char *p, size_t size, size_t count, void *ctx)
{
	struct transfer_run *r = ctx;
	size_t all = size * count, n = all;
	const char *colon = memchr(p, ':', n);
	while (n && (p[n - 1] == '\r' || p[n - 1] == '\n' || p[n - 1] == ' '))
		n--;
	if (!colon || colon >= p + n)
		return all;
	const char *value = colon + 1;
	while (value < p + n && (*value == ' ' || *value == '\t'))
		value++;
	run_header(r, p, (size_t)(colon - p), value, (size_t)(p + n - value));
	return all;
}

static int run_begin_sink(struct transfer_run *r, bool continued)
{
	const struct pull_sink *sink = &r->t->sink;
	r->begun = true;
	if (continued && r->range_from != r->offset)
		return err_set(&r->err, ERR_INVALID, "%.200s answers with another part than was asked for", r->url.host);
	return sink->begin ? sink->begin(sink->ctx, continued, &r->err) : 0;
}

static size_t run_on_data(char *p, size_t size, size_t count, void *ctx)
{
	struct transfer_run *r = ctx;
	long status = 0;
	size_t n = size * count;
	curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status != 200 && status != 206)
		return n; // of an error: it is thrown away
	if (!r->begun && run_begin_sink(r, status == 206))
		return 0;
	if (n)
		r->moved = true;
	return r->t->sink.data(r->t->sink.ctx, p, n, &r->err) ? 0 : n;
}

static void run_add_header(struct transfer_run *r, const char *line)
{
	r->headers = curl_slist_append(r->headers, line);
}

static char *session_basic_line(const struct pull_session *s)
{
	auto_free char *pair = xasprintf("%s:%s", s->c.user, s->c.password);
	auto_buf struct buf b = BUF_INIT(64 << 10);
	buf_str(&b, "Authorization: Basic ");
	base64_add(&b, pair, strlen(pair));
	return buf_take(&b);
}

// Basic for the place where tokens come from; the registry's own login at its own origin; nothing anywhere else.
static void run_add_login(struct transfer_run *r)
{
	const struct pull_session *s = r->s;
	if (r->token_url.text) {
		if (!s->c.user || strcmp(r->url.origin, r->token_url.origin))
			return;
		auto_free char *line = session_basic_line(s);
		run_add_header(r, line);
	} else if (s->login && !strcmp(r->url.origin, s->base.origin)) {
		r->login_used = s->n_logins;
		run_add_header(r, s->login);
	}
}

static void run_release(struct transfer_run *r, CURLM *multi)
{
	if (!r->easy)
		return;
	curl_multi_remove_handle(multi, r->easy);
	curl_easy_cleanup(r->easy);
	curl_slist_free_all(r->headers);
	r->easy = NULL;
	r->headers = NULL;
}

static void run_options(struct transfer_run *r)
{
	struct pull_session *s = r->s;
	struct curl_blob ca = {s->ca, s->ca_n, CURL_BLOB_NOCOPY};
	curl_easy_setopt(r->easy, CURLOPT_URL, r->url.text);
	curl_easy_setopt(r->easy, CURLOPT_PROTOCOLS_STR, r->url.https ? "https" : "http");
	curl_easy_setopt(r->easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(r->easy, CURLOPT_PROXY, "");
	curl_easy_setopt(r->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(r->easy, CURLOPT_USERAGENT, "skep");
	curl_easy_setopt(r->easy, CURLOPT_HTTPHEADER, r->headers);
	curl_easy_setopt(r->easy, CURLOPT_HEADERFUNCTION, run_on_header);
	curl_easy_setopt(r->easy, CURLOPT_HEADERDATA, r);
	curl_easy_setopt(r->easy, CURLOPT_WRITEFUNCTION, run_on_data);
	curl_easy_setopt(r->easy, CURLOPT_WRITEDATA, r);
	curl_easy_setopt(r->easy, CURLOPT_PRIVATE, r);
	curl_easy_setopt(r->easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
	curl_easy_setopt(r->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(r->easy, CURLOPT_LOW_SPEED_TIME, (long)STALL_S);
	curl_easy_setopt(r->easy, CURLOPT_CAINFO_BLOB, &ca);
	curl_easy_setopt(r->easy, CURLOPT_BUFFERSIZE, 128L << 10);
}

static int run_begin(struct transfer_run *r, CURLM *multi, struct err *e)
{
	const struct pull_sink *sink = &r->t->sink;
	r->easy = curl_easy_init();
	if (!r->easy)
		return err_set(e, ERR_SYSTEM, "libcurl gives no handle");
	r->offset = sink->offset ? sink->offset(sink->ctx) : 0;
	r->range_from = NO_RANGE;
	r->begun = r->moved = false;
	r->retry_after_ms = 0;
	pull_challenge_done(&r->challenge);
	mem_free_ptr(&r->location);
	r->location = NULL;
	if (r->t->accept) {
		auto_free char *accept = xasprintf("Accept: %s", r->t->accept);
		run_add_header(r, accept);
	}
	if (r->offset) {
		auto_free char *range = xasprintf("Range: bytes=%llu-", (unsigned long long)r->offset);
		run_add_header(r, range);
	}
	run_add_login(r);
	run_options(r);
	if (curl_multi_add_handle(multi, r->easy))
		return err_set(e, ERR_SYSTEM, "libcurl takes no transfer");
	r->state = RUN_RUNNING;
	return 0;
}

// --- logging in ---

static int session_token(struct pull_session *s, const struct transfer_run *r, struct err *e);

static int session_login(struct pull_session *s, struct transfer_run *r, struct err *e)
{
	static const char how[] = "it does not exist there or needs a login: `docker login` on this machine, or `skep secret set NAME --host HOST "
				  "--as basic` with user:password and `--secret NAME`";
	const struct pull_challenge *c = &r->challenge;
	if (r->login_used < s->n_logins && s->login)
		return 0; // another transfer has logged in meanwhile
	if (r->logins++ >= LOGINS || s->c.bearer)
		return err_set(e, ERR_DENIED, "%.200s refuses the login (401): %s", s->c.at->host, how);
	s->n_logins++;
	if (c->bearer && c->realm)
		return session_token(s, r, e);
	if (c->basic && s->c.user && r->logins == 1) {
		free(s->login);
		s->login = session_basic_line(s);
		return 0;
	}
	return err_set(e, ERR_DENIED, "%.200s gives no access (401): %s", s->c.at->host, how);
}

// --- what an answer means ---

static void run_retry(struct transfer_run *r, uint64_t in_ms)
{
	r->state = RUN_WAITING;
	r->at_ms = clock_ms() + in_ms;
}

static int run_again_later(struct transfer_run *r, struct err *e)
{
	uint64_t wait = (uint64_t)RETRY_MS << r->tries;
	if (r->moved)
		r->tries = 0;
	if (++r->tries >= (r->s->answered ? TRIES : TRIES_FIRST))
		return -1;
	if (r->retry_after_ms > wait)
		wait = r->retry_after_ms < RETRY_MAX_MS ? r->retry_after_ms : RETRY_MAX_MS;
	*e = (struct err){0};
	run_retry(r, wait);
	return 0;
}

static bool code_is_tls(CURLcode code)
{
	return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CERTPROBLEM || code == CURLE_SSL_ISSUER_ERROR;
}

static int run_broke(struct transfer_run *r, CURLcode code, struct err *e)
{
	if (r->err.kind) { // the sink said no
		*e = r->err;
		return -1;
	}
	if (code_is_tls(code))
		return err_set(e, ERR_DENIED, "%.200s shows a certificate that is not believed (%s): name its authority as ca_file in config.yaml",
			       r->url.host, curl_easy_strerror(code));
	if (code == CURLE_SSL_CONNECT_ERROR && r->s->c.at->http && r->s->base.https && !strcmp(r->url.origin, r->s->base.origin)) {
		if (session_base(r->s, false, e))
			return -1;
		pull_url_done(&r->url);
		if (pull_url_parse(&r->s->base, r->t->path, &r->url, e))
			return -1;
		run_retry(r, 0);
		return 0;
	}
	err_set(e, ERR_UNAVAILABLE, "%.200s: %s", r->url.host, curl_easy_strerror(code));
	return run_again_later(r, e);
}

static int run_redirected(struct transfer_run *r, struct err *e)
{
	struct pull_url to = {0};
	if (!r->location)
		return err_set(e, ERR_INVALID, "%.200s redirects to nowhere", r->url.host);
	if (++r->redirects > REDIRECTS)
		return err_set(e, ERR_LIMIT, "%.200s: more than %d redirects", r->s->c.at->host, REDIRECTS);
	if (pull_url_parse(&r->url, r->location, &to, e))
		return -1;
	if (pull_url_follows(&r->url, &to, e)) {
		pull_url_done(&to);
		return -1;
	}
	pull_url_done(&r->url);
	r->url = to;
	run_retry(r, 0);
	return 0;
}

// A try that comes later begins at the registry again: what a redirect led to may hold for a while only.
static int run_from_registry(struct transfer_run *r, struct err *e)
{
	const char *path = r->token_url.text ? r->token_url.text : r->t->path;
	r->redirects = 0;
	pull_url_done(&r->url);
	return pull_url_parse(r->token_url.text ? NULL : &r->s->base, path, &r->url, e);
}

static int run_unauthorized(struct transfer_run *r, struct err *e)
{
	if (r->token_url.text)
		return err_set(e, ERR_DENIED, "%.200s refuses user and password", r->url.host);
	if (strcmp(r->url.origin, r->s->base.origin))
		return err_set(e, ERR_DENIED, "%.200s, to which the registry leads, gives no access", r->url.host);
	if (session_login(r->s, r, e))
		return -1;
	run_retry(r, 0);
	return 0;
}

static int run_ended(struct transfer_run *r, struct err *e)
{
	const struct pull_sink *sink = &r->t->sink;
	if (!r->begun && run_begin_sink(r, false)) { // an empty body
		*e = r->err;
		return -1;
	}
	int rc = sink->end ? sink->end(sink->ctx, e) : 0;
	if (rc < 0)
		return -1;
	if (rc > 0)
		run_retry(r, 0);
	else
		r->state = RUN_DONE;
	return 0;
}

static int run_answered(struct transfer_run *r, long status, struct err *e)
{
	switch (status) {
	case 200:
	case 206:
		return run_ended(r, e);
	case 301:
	case 302:
	case 303:
	case 307:
	case 308:
		return run_redirected(r, e);
	case 401:
		return run_unauthorized(r, e);
	case 403:
		return err_set(e, ERR_DENIED, "%.200s refuses access (403)", r->url.host);
	case 404:
		return err_set(e, ERR_NOT_FOUND, "%.200s has no such image or tag", r->url.host);
	default:
		break;
	}
	err_set(e, ERR_UNAVAILABLE, "%.200s answers with status %ld", r->url.host, status);
	if (status != 429 && status < 500)
		return -1;
	return run_again_later(r, e) || run_from_registry(r, e) ? -1 : 0;
}

static int run_finished(struct transfer_run *r, CURLM *multi, CURLcode code, struct err *e)
{
	long status = 0;
	curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
	run_release(r, multi);
	if (code) {
		if (run_broke(r, code, e))
			return -1;
		return run_from_registry(r, e);
	}
	r->s->answered = true;
	return run_answered(r, status, e);
}

// --- all of them ---

struct round {
	struct pull_session *s;
	CURLM *multi;
	struct transfer_run *runs;
	size_t n, together;
};

static size_t round_count(const struct round *o, enum run_state state)
{
	size_t count = 0;
	for (size_t i = 0; i < o->n; i++)
		count += o->runs[i].state == state;
	return count;
}

// How long to wait for something to happen.
static int round_pause(const struct round *o, bool running)
{
	uint64_t now = clock_ms();
	size_t free_places = o->together - round_count(o, RUN_RUNNING);
	for (size_t i = 0; i < o->n && free_places; i++)
		if (o->runs[i].state == RUN_WAITING && o->runs[i].at_ms <= now)
			return 0;
	return running ? POLL_MS : RETRY_MS / 10;
}

static int round_begin(struct round *o, struct err *e)
{
	uint64_t now = clock_ms();
	size_t running = round_count(o, RUN_RUNNING);
	for (size_t i = 0; i < o->n && running < o->together; i++) {
		struct transfer_run *r = &o->runs[i];
		if (r->state != RUN_WAITING || r->at_ms > now)
			continue;
		if (run_begin(r, o->multi, e))
			return -1;
		running++;
	}
	return 0;
}

static int round_collect(struct round *o, struct err *e)
{
	int left;
	CURLMsg *m;
	while ((m = curl_multi_info_read(o->multi, &left))) {
		struct transfer_run *r = NULL;
		CURLcode code = m->data.result;
		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&r);
		if (run_finished(r, o->multi, code, e)) {
			r->state = RUN_FAILED;
			return -1;
		}
	}
	return 0;
}

static int round_work(struct round *o, struct err *e)
{
	int running;
	while (round_count(o, RUN_DONE) < o->n) {
		if (round_begin(o, e))
			return -1;
		if (curl_multi_perform(o->multi, &running))
			return err_set(e, ERR_SYSTEM, "libcurl failed");
		if (round_collect(o, e))
			return -1;
		if (o->s->c.tick)
			o->s->c.tick(o->s->c.ctx);
		int pause = round_pause(o, running);
		if (pause && round_count(o, RUN_DONE) < o->n)
			curl_multi_poll(o->multi, NULL, 0, pause, NULL);
	}
	return 0;
}

static void run_done(struct transfer_run *r, CURLM *multi)
{
	run_release(r, multi);
	pull_url_done(&r->url);
	pull_url_done(&r->token_url);
	pull_challenge_done(&r->challenge);
	free(r->location);
}

static int session_run(struct pull_session *s, struct transfer_run *runs, size_t n, size_t together, struct err *e)
{
	struct round o = {s, curl_multi_init(), runs, n, together};
	int rc = o.multi ? 0 : err_set(e, ERR_SYSTEM, "libcurl gives no handle");
	for (size_t i = 0; i < n && !rc; i++) {
		runs[i].s = s;
		rc = run_from_registry(&runs[i], e);
	}
	if (!rc)
		rc = round_work(&o, e);
	for (size_t i = 0; i < n; i++)
		run_done(&runs[i], o.multi);
	if (o.multi)
		curl_multi_cleanup(o.multi);
	return rc;
}

int pull_session_run(struct pull_session *s, struct pull_transfer *t, size_t n, size_t together, struct err *e)
{
	struct transfer_run *runs = xcalloc(n + 1, sizeof *runs);
	for (size_t i = 0; i < n; i++)
		runs[i].t = &t[i];
	int rc = session_run(s, runs, n, together, e);
	free(runs);
	return rc;
}

// --- bodies in memory ---

static int memory_begin(void *ctx, bool continued, struct err *e)
{
	(void)e;
	if (!continued)
		buf_clear(ctx);
	return 0;
}

static int memory_data(void *ctx, const char *p, size_t n, struct err *e)
{
	struct buf *b = ctx;
	buf_add(b, p, n);
	return b->overflow ? err_set(e, ERR_LIMIT, "the registry's answer is longer than %zu bytes", b->max) : 0;
}

int pull_session_get(struct pull_session *s, const char *path, const char *accept, struct buf *out, char type[128], char digest[128],
		     struct err *e)
{
	auto_free char *own = xstrdup(path);
	struct pull_transfer t = {.path = own, .accept = accept, .sink = {.begin = memory_begin, .data = memory_data, .ctx = out}};
	if (pull_session_run(s, &t, 1, 1, e))
		return -1;
	memcpy(type, t.type, sizeof t.type);
	memcpy(digest, t.digest, sizeof t.digest);
	return 0;
}

static void token_url_add(struct buf *b, const char *key, const char *value)
{
	char *escaped = value ? curl_easy_escape(NULL, value, 0) : NULL;
	if (escaped)
		buf_fmt(b, "%c%s=%s", b->n && strchr(b->p, '?') ? '&' : '?', key, escaped);
	curl_free(escaped);
}

static int session_token_url(struct pull_session *s, const struct pull_challenge *c, struct pull_url *out, struct err *e)
{
	auto_buf struct buf b = BUF_INIT(16 << 10);
	auto_free char *scope = xasprintf("repository:%s%s:pull", s->c.at->prefix, s->c.repository);
	buf_str(&b, c->realm);
	token_url_add(&b, "service", c->service);
	token_url_add(&b, "scope", c->scope ? c->scope : scope);
	if (pull_url_parse(&s->base, buf_cstr(&b), out, e))
		return -1;
	if (pull_url_follows(&s->base, out, e)) {
		pull_url_done(out);
		return -1;
	}
	return 0;
}

static bool token_is(const char *t)
{
	size_t n = strlen(t);
	if (!n || n > TOKEN_MAX / 2)
		return false;
	for (; *t; t++)
		if (*t <= 0x20 || *t > 0x7e)
			return false;
	return true;
}

// A token of the place that the challenge names: for this repository, to read.
static int session_token(struct pull_session *s, const struct transfer_run *r, struct err *e)
{
	auto_buf struct buf body = BUF_INIT(TOKEN_MAX);
	struct pull_transfer t = {.sink = {.begin = memory_begin, .data = memory_data, .ctx = &body}};
	struct transfer_run run = {.t = &t};
	void (*tick)(void *ctx) = s->c.tick;
	if (session_token_url(s, &r->challenge, &run.token_url, e))
		return -1;
	s->c.tick = NULL;
	int rc = session_run(s, &run, 1, 1, e);
	s->c.tick = tick;
	if (rc)
		return err_wrap(e, "login");
	auto_json json_t *answer = json_read(buf_cstr(&body), body.n, e);
	const char *token = answer ? json_str(answer, "token") : "";
	if (answer && !*token)
		token = json_str(answer, "access_token");
	if (!token_is(token))
		return err_set(e, ERR_INVALID, "login: the answer holds no token");
	free(s->login);
	s->login = xasprintf("Authorization: Bearer %s", token);
	return 0;
}
