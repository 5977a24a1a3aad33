// SPDX-License-Identifier: Apache-2.0
// Whose rules count, what a gate is told, and that what was taken back is told at once: against a backend that only
// writes down what it was asked.
#include "engine/net_int.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/seal.h"
#include "engine/net.h"
#include "model/msg.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
// cmocka wants the headers above it
#include <cmocka.h>

#define CA_TEXT "-----BEGIN CERTIFICATE-----\\nC\\n-----END CERTIFICATE-----\\n-----BEGIN PRIVATE KEY-----\\nK\\n-----END PRIVATE KEY-----\\n"

static char top[64];
static struct loop loop;
static struct store *store;
static struct engine *g;
static char a_cell;
static struct cell_net told; // by start or policy
static int starts, tells, answers;
static struct reply last;

static void note(const struct cell_net *n)
{
	cell_net_done(&told);
	told = (struct cell_net){.on = n->on, .policy = BUF_INIT(1 << 20), .secrets = BUF_INIT(1 << 20),
				 .ca_cert = n->ca_cert ? xstrdup(n->ca_cert) : NULL};
	buf_add(&told.policy, n->policy.p, n->policy.n);
	buf_add(&told.secrets, n->secrets.p, n->secrets.n);
}

static struct cell *fake_start(struct backend *b, const struct cell_spec *spec, bool fresh, struct cell_watcher *w)
{
	(void)b, (void)fresh, (void)w;
	starts++;
	note(&spec->net);
	return (struct cell *)&a_cell;
}

static void fake_policy(struct cell *c, const struct cell_net *n, struct reply r)
{
	(void)c;
	tells++;
	last = r;
	note(n);
}

static void fake_answer(struct cell *c, uint32_t ask, uint8_t verdict, uint8_t scope, const char *by)
{
	(void)c, (void)ask, (void)verdict, (void)scope, (void)by;
	answers++;
}

static void fake_remove(struct backend *b, char *const *dirs, struct reply r)
{
	(void)b, (void)dirs, (void)r;
}

static void fake_event(struct cell *c, const char *type, const char *by, const char *body, struct reply r)
{
	(void)c, (void)type, (void)by, (void)body, (void)r;
}

static const struct backend_ops ops = {.start = fake_start, .remove = fake_remove, .event = fake_event, .policy = fake_policy,
				       .answer = fake_answer};
static struct backend backend = {.name = "fake", .ops = &ops};

static void open_all(void)
{
	struct err e;
	auto_free char *home = xasprintf("%s/home", top), *db = xasprintf("%s/state.db", home), *image = xasprintf("%s/skep-image", top);
	store = store_open(db, &e);
	assert_non_null(store);
	g = engine_new(&(struct engine_config){.skep_home = home, .home = "/nowhere", .owner = "o", .image_program = image, .loop = &loop,
					       .store = store, .backend = &backend}, &e);
	assert_non_null(g);
	free(g->site_config);
	free(g->user_config);
	g->site_config = xasprintf("%s/site.yaml", top);
	g->user_config = xasprintf("%s/user.yaml", top);
}

static void close_all(void)
{
	engine_free(g);
	store_close(store);
}

static void put(const char *name, const char *text, mode_t mode)
{
	struct err e;
	auto_free char *path = xasprintf("%s/%s", top, name);
	assert_int_equal(fs_write(AT_FDCWD, path, text, strlen(text), mode, &e), 0);
}

static int set_up(void **state)
{
	struct err e;
	(void)state;
	memcpy(top, "/tmp/skep-policy-XXXXXX", 24);
	if (!mkdtemp(top) || loop_init(&loop, &e))
		return -1;
	starts = tells = answers = 0;
	put("skep-gate", "#!/bin/sh\nprintf %b '" CA_TEXT "'\n", 0700);
	auto_free char *p = xasprintf("%s/p", top), *home = xasprintf("%s/home", top);
	if (mkdir(p, 0755) || mkdir(home, 0700))
		return -1;
	open_all();
	return 0;
}

static int tear_down(void **state)
{
	struct err e;
	(void)state;
	close_all();
	loop_done(&loop);
	cell_net_done(&told);
	return fs_remove_tree(AT_FDCWD, top, &e);
}

static void on_done(void *ctx, const struct err *e, const struct outcome *o)
{
	(void)o;
	struct err *out = ctx;
	*out = e ? *e : (struct err){0};
}

static void set_secret(const char *name, const char *host, const char *value)
{
	struct err e = {0};
	struct secret_request q = {.name = xstrdup(name), .host = xstrdup(host), .as = xstrdup("bearer"), .value = BUF_INIT(1024)};
	buf_str(&q.value, value);
	engine_secret_set(g, &q, (struct done){on_done, &e});
	if (e.kind)
		fail_msg("%s", e.msg);
}

static char **list(const char *one)
{
	char **v = NULL;
	strv_add(&v, one);
	return v;
}

// The newest sandbox, made with this network on top/p; its kind of failure.
static enum err_kind create(struct net_request n, bool start)
{
	static struct err e; // a start is answered later
	struct create c = {.cwd = xasprintf("%s/p", top), .net = n, .start = start, .limits = LIMITS_DEFAULT};
	e.kind = ERR_BUG;
	engine_create(g, &c, (struct done){on_done, &e});
	return e.kind;
}

static enum verdict verdict(const char *host, uint16_t port)
{
	struct policy p = {0};
	struct err e;
	struct host_name h;
	assert_int_equal(host_parse(host, strlen(host), &h, &e), 0);
	if (engine_policy(g, g->boxes->row.id, &p, NULL, &e))
		fail_msg("%s", e.msg);
	enum verdict v = policy_judge(&p, &(struct request){.host = &h, .port = port}, NULL);
	policy_done(&p);
	return v;
}

static enum verdict told_verdict(const char *host)
{
	struct policy p = {0};
	struct err e;
	struct host_name h;
	struct wire w = {.p = (uint8_t *)told.policy.p, .n = told.policy.n};
	assert_int_equal(host_parse(host, strlen(host), &h, &e), 0);
	assert_int_equal(policy_read(&w, &p, &e), 0);
	enum verdict v = policy_judge(&p, &(struct request){.host = &h, .port = 443}, NULL);
	policy_done(&p);
	return v;
}

static void comes_up(struct box *b)
{
	struct cell_up up = {.pid = 1, .start = 2};
	b->w.up(&b->w, &up, NULL);
}

static void on_tick(struct timer *t)
{
	(void)t;
	loop_stop(&loop);
}

// Until the CA is made and the cell is started with it.
static void run_until_started(int want)
{
	struct err e;
	for (int i = 0; i < 500 && starts + tells < want; i++) {
		struct timer t = {.fn = on_tick};
		loop.stop = false;
		timer_set(&loop, &t, 10);
		assert_int_equal(loop_run(&loop, &e), 0);
	}
	assert_int_equal(starts + tells, want);
}

static void test_nothing_said_is_closed(void **state)
{
	(void)state;
	assert_int_equal(create((struct net_request){0}, true), ERR_BUG); // under way
	assert_int_equal(starts, 1);
	assert_false(told.on || told.secrets.n || told.ca_cert);
	assert_int_equal(verdict("a.test", 443), VERDICT_DENY);
	assert_false(g->boxes->row.has_net);
	comes_up(g->boxes);
	assert_int_equal(tells, 0);
}

static void test_whose_word_counts(void **state)
{
	(void)state;
	put("user.yaml", "net: {allow: [user.test], deny: [both.test]}\n", 0600);
	put("site.yaml", "net: {allow: [site.test], deny: [never.test]}\n", 0644);
	assert_int_equal(create((struct net_request){.allow = list("never.test"), .expose = list("5432:db.test")}, false), ERR_NONE);
	assert_int_equal(verdict("user.test", 443), VERDICT_ALLOW);
	assert_int_equal(verdict("site.test", 443), VERDICT_ALLOW);
	assert_int_equal(verdict("never.test", 443), VERDICT_DENY); // deny beats allow, whoever said it
	assert_int_equal(verdict("both.test", 443), VERDICT_DENY);
	assert_int_equal(verdict("db.test", 5432), VERDICT_ALLOW);
	assert_int_equal(verdict("db.test", 443), VERDICT_DENY);
	put("user.yaml", "net: {allow: [other.test]}\n", 0600); // seen without a restart
	assert_int_equal(verdict("user.test", 443), VERDICT_DENY);
	assert_int_equal(verdict("other.test", 443), VERDICT_ALLOW);
}

static void test_the_site_fixes_the_preset(void **state)
{
	(void)state;
	put("site.yaml", "net: git\n", 0644);
	assert_int_equal(create((struct net_request){.preset = xstrdup("open")}, false), ERR_DENIED);
	assert_int_equal(create((struct net_request){.preset = xstrdup("none")}, false), ERR_NONE);
	assert_int_equal(verdict("github.com", 443), VERDICT_DENY);
	assert_int_equal(create((struct net_request){0}, false), ERR_NONE);
	assert_int_equal(verdict("github.com", 443), VERDICT_ALLOW);
}

static void test_a_broken_configuration_stops_creates(void **state)
{
	(void)state;
	put("user.yaml", "net: [\n", 0600);
	assert_int_equal(create((struct net_request){0}, false), ERR_INVALID);
	put("user.yaml", "nets: none\n", 0600);
	assert_int_equal(create((struct net_request){0}, false), ERR_INVALID);
	put("user.yaml", "# nothing\n", 0600);
	assert_int_equal(create((struct net_request){0}, false), ERR_NONE);
}

static void test_refused_requests(void **state)
{
	(void)state;
	assert_int_equal(create((struct net_request){.allow = list("127.0.0.1")}, false), ERR_INVALID);
	assert_int_equal(create((struct net_request){.allow = list("!a.test")}, false), ERR_INVALID);
	assert_int_equal(create((struct net_request){.expose = list("70000")}, false), ERR_INVALID);
	assert_int_equal(create((struct net_request){.expose = list("80:*.a.test")}, false), ERR_INVALID);
	assert_int_equal(create((struct net_request){.secrets = list("NONE")}, false), ERR_NOT_FOUND);
	assert_int_equal(create((struct net_request){.preset = xstrdup("all")}, false), ERR_INVALID);
	assert_int_equal(create((struct net_request){.preset = xstrdup("registries")}, false), ERR_CONFLICT); // the caller must name them
	assert_int_equal(create((struct net_request){.preset = xstrdup("registries"), .registries = list("r.test\tnpm")}, false), ERR_NONE);
	assert_int_equal(verdict("r.test", 443), VERDICT_ALLOW);
	assert_null(g->boxes->next); // what was refused left nothing
}

static void test_projects_are_hostile_until_trusted(void **state)
{
	struct err e = {0};
	struct trust_view v = {0};
	auto_free char *p = xasprintf("%s/p", top);
	(void)state;
	put("p/.skep.yaml", "net: {allow: [p.test]}\n", 0644);
	assert_int_equal(create((struct net_request){0}, false), ERR_NONE);
	assert_int_equal(verdict("p.test", 443), VERDICT_DENY);
	assert_int_equal(strv_len(g->boxes->notices), 1);
	assert_int_equal(engine_trust_look(g, p, &v, &e), 0);
	assert_int_equal(v.state, TRUST_NO);
	put("p/.skep.yaml", "net: {allow: [p.test, evil.test]}\n", 0644); // between look and yes
	engine_trust(g, p, v.sha256, NULL, (struct done){on_done, &e});
	assert_int_equal(e.kind, ERR_CONFLICT);
	assert_int_equal(verdict("p.test", 443), VERDICT_DENY);
	put("p/.skep.yaml", "net: {allow: [p.test]}\n", 0644);
	engine_trust(g, p, v.sha256, NULL, (struct done){on_done, &e});
	assert_int_equal(e.kind, ERR_NONE);
	assert_int_equal(verdict("p.test", 443), VERDICT_ALLOW);
	put("p/.skep.yaml", "net: {allow: [p.test]} # more\n", 0644);
	assert_int_equal(verdict("p.test", 443), VERDICT_DENY);
	put("p/.skep.yaml", "net: {allow: [p.test]}\n", 0644);
	assert_int_equal(verdict("p.test", 443), VERDICT_ALLOW);
	close_all(); // the next daemon knows it, too
	open_all();
	assert_int_equal(verdict("p.test", 443), VERDICT_ALLOW);
	engine_trust(g, p, NULL, NULL, (struct done){on_done, &e});
	assert_int_equal(verdict("p.test", 443), VERDICT_DENY);
	trust_view_done(&v);
}

static void test_a_secret_reaches_only_the_gate(void **state)
{
	struct secrets got;
	struct err e;
	(void)state;
	set_secret("TOKEN", "api.test", "hunter2");
	create((struct net_request){.secrets = list("TOKEN")}, true);
	run_until_started(1); // a child makes the CA first
	struct box *b = g->boxes;
	assert_true(told.on);
	assert_string_equal(told.ca_cert, "-----BEGIN CERTIFICATE-----\nC\n-----END CERTIFICATE-----\n");
	assert_null(memmem(told.policy.p, told.policy.n, "hunter2", 7));
	assert_int_equal(secrets_read(told.secrets.p, told.secrets.n, &got, &e), 0);
	assert_int_equal(got.n, 1);
	assert_true(got.v[0].n == 7 && !memcmp(got.v[0].value, "hunter2", 7));
	assert_non_null(strstr(got.ca_key, "PRIVATE KEY"));
	char **env = net_env(b);
	assert_int_equal(strv_len(env), 1);
	assert_int_equal(strncmp(env[0], "TOKEN=skep_TOKEN_", 17), 0);
	assert_string_equal(strchr(env[0], '=') + 1, got.v[0].placeholder);
	assert_int_equal(b->net.secrets.n, 0); // nothing stays here
	strv_free(env);
	secrets_done(&got);
	comes_up(b);
}

static char *placeholder(void)
{
	char **env = net_env(g->boxes);
	char *s = env ? xstrdup(env[0]) : NULL;
	strv_free(env);
	return s;
}

// Headers that are set: sealed in the row, found again by the next skepd, replaced as a whole, and they open nothing.
static void test_headers(void **state)
{
	struct secrets got;
	struct policy p;
	struct err e = {0};
	(void)state;
	assert_int_equal(create((struct net_request){.headers = list("a.test\tHost\tv"), .allow = list("a.test")}, false), ERR_INVALID);
	assert_int_equal(create((struct net_request){.headers = list("1.2.3.4\tX\tv")}, false), ERR_INVALID);
	assert_int_equal(create((struct net_request){.headers = list("a.test\tX\t")}, false), ERR_INVALID);
	assert_int_equal(create((struct net_request){.headers = list("a.test\tX\ta\r\nb: c")}, false), ERR_INVALID);
	assert_int_equal(create((struct net_request){.headers = list("*.a.test:8443\tX-Key\thunter2"), .allow = list("b.a.test:8443")}, false), ERR_NONE);
	assert_null(strstr(g->boxes->row.net.headers[0], "hunter2"));
	close_all();
	open_all();
	static struct err started;
	engine_start(g, g->boxes->row.id, (struct done){on_done, &started});
	run_until_started(1);
	comes_up(g->boxes);
	assert_int_equal(secrets_read(told.secrets.p, told.secrets.n, &got, &e), 0);
	assert_int_equal(got.n, 1);
	assert_memory_equal(got.v[0].value, "hunter2", 7);
	secrets_done(&got);
	struct wire w = {.p = (uint8_t *)told.policy.p, .n = told.policy.n};
	assert_int_equal(policy_read(&w, &p, &e), 0);
	assert_true(p.n_secrets == 1 && p.secrets[0].as == SECRET_SET && p.secrets[0].wildcard && secret_ref_is_plain(&p.secrets[0]));
	policy_done(&p);
	assert_int_equal(verdict("c.a.test", 8443), VERDICT_DENY);
	struct net_request none = {.headers = xcalloc(1, sizeof *none.headers)};
	engine_policy_set(g, g->boxes->row.id, &none, (struct done){on_done, &e});
	last.fn(last.ctx, NULL);
	assert_true(g->boxes->row.net.headers && !g->boxes->row.net.headers[0]);
}

static void test_placeholders_are_fresh_and_stay(void **state)
{
	(void)state;
	set_secret("TOKEN", "api.test", "v");
	create((struct net_request){.secrets = list("TOKEN")}, false);
	auto_free char *one = placeholder();
	create((struct net_request){.secrets = list("TOKEN")}, false);
	auto_free char *two = placeholder();
	assert_true(one && two && strcmp(one, two));
	close_all();
	open_all();
	auto_free char *again = placeholder();
	assert_true(!strcmp(again, one) || !strcmp(again, two));
}

static void test_revocation_is_told_at_once(void **state)
{
	struct err e = {0};
	(void)state;
	set_secret("TOKEN", "api.test", "hunter2");
	create((struct net_request){.secrets = list("TOKEN"), .allow = list("a.test")}, true);
	run_until_started(1);
	comes_up(g->boxes);
	assert_int_equal(told_verdict("api.test"), VERDICT_ALLOW);
	e.kind = ERR_BUG;
	engine_secret_remove(g, "TOKEN", (struct done){on_done, &e});
	assert_int_equal(tells, 1);
	assert_int_equal(told_verdict("api.test"), VERDICT_DENY);
	assert_int_equal(told_verdict("a.test"), VERDICT_ALLOW);
	assert_null(memmem(told.secrets.n ? told.secrets.p : "", told.secrets.n, "hunter2", 7));
	assert_int_equal(e.kind, ERR_BUG); // not answered before the cell has
	last.fn(last.ctx, NULL);
	assert_int_equal(e.kind, ERR_NONE);
	char **env = net_env(g->boxes);
	assert_null(env);
}

static void test_what_changes_while_a_cell_starts(void **state)
{
	struct err e = {0};
	(void)state;
	set_secret("TOKEN", "api.test", "v");
	create((struct net_request){.secrets = list("TOKEN")}, true);
	run_until_started(1);
	engine_secret_remove(g, "TOKEN", (struct done){on_done, &e});
	assert_int_equal(tells, 0); // its spec is under way
	comes_up(g->boxes);
	assert_int_equal(tells, 1);
	assert_int_equal(told_verdict("api.test"), VERDICT_DENY);
	last.fn(last.ctx, NULL);
}

static void test_an_error_closes_a_live_cell(void **state)
{
	struct err e = {0};
	(void)state;
	create((struct net_request){.allow = list("a.test")}, true);
	comes_up(g->boxes);
	put("user.yaml", "net: [\n", 0600);
	struct net_request n = {.allow = list("b.test")};
	engine_policy_set(g, g->boxes->row.id, &n, (struct done){on_done, &e});
	assert_int_equal(e.kind, ERR_INVALID); // refused as a whole
	set_secret("X", "x.test", "v");
	g->boxes->row.net.secrets = list("X\tskep_X_00000000000000000000000000000000");
	engine_secret_remove(g, "X", (struct done){on_done, &e});
	assert_int_equal(e.kind, ERR_INVALID);
	assert_int_equal(told_verdict("a.test"), VERDICT_DENY);
	last.fn(last.ctx, NULL);
}

static void test_set_is_hot(void **state)
{
	struct err e = {0};
	(void)state;
	create((struct net_request){.allow = list("a.test")}, true);
	comes_up(g->boxes);
	struct net_request n = {.allow = list("b.test"), .remove = list("a.test")};
	engine_policy_set(g, g->boxes->row.id, &n, (struct done){on_done, &e});
	assert_int_equal(told_verdict("a.test"), VERDICT_DENY);
	assert_int_equal(told_verdict("b.test"), VERDICT_ALLOW);
	last.fn(last.ctx, NULL);
	n = (struct net_request){.allow = list("GET c.test/x")}; // opens: a CA is made first
	e.kind = ERR_BUG;
	engine_policy_set(g, g->boxes->row.id, &n, (struct done){on_done, &e});
	run_until_started(3);
	assert_non_null(told.ca_cert);
	assert_int_equal(e.kind, ERR_BUG);
	last.fn(last.ctx, NULL);
	assert_int_equal(e.kind, ERR_NONE);
}

static void test_answers(void **state)
{
	struct err e = {0};
	(void)state;
	create((struct net_request){.has_ask = true, .ask = true}, true);
	struct box *b = g->boxes;
	comes_up(b);
	b->w.asked(&b->w, &(struct cell_ask){.id = 1, .host = "q.test", .port = 443, .method = "", .path = ""});
	b->w.asked(&b->w, &(struct cell_ask){.id = 2, .host = "r.test", .port = 8443, .method = "", .path = ""});
	b->w.asked(&b->w, &(struct cell_ask){.id = 3, .host = "s.test", .port = 443, .method = "POST", .path = "/a?b"});
	engine_answer(g, b->row.id, 7, VERDICT_ALLOW, SCOPE_ONCE, (struct done){on_done, &e});
	assert_int_equal(e.kind, ERR_NOT_FOUND);
	engine_answer(g, b->row.id, 1, VERDICT_ALLOW, SCOPE_ONCE, (struct done){on_done, &e});
	assert_int_equal(e.kind, ERR_NONE);
	assert_int_equal(tells, 0); // leaves nothing behind
	engine_answer(g, b->row.id, 1, VERDICT_ALLOW, SCOPE_ONCE, (struct done){on_done, &e});
	assert_int_equal(e.kind, ERR_NOT_FOUND); // the first answer counts
	engine_answer(g, b->row.id, 2, VERDICT_DENY, SCOPE_SANDBOX, (struct done){on_done, &e});
	assert_int_equal(verdict("r.test", 8443), VERDICT_DENY);
	assert_int_equal(verdict("r.test", 443), VERDICT_ASK);
	last.fn(last.ctx, NULL);
	b->w.answered(&b->w, 3, VERDICT_ALLOW, SCOPE_ALWAYS); // somebody attached to the cell did
	run_until_started(3);
	last.fn(last.ctx, NULL);
	assert_int_equal(strv_len(g->answers), 1);
	assert_string_equal(g->answers[0], "POST s.test:443/a");
	assert_int_equal(answers, 2);
	close_all();
	open_all();
	assert_int_equal(strv_len(g->answers), 1);
}

static void test_secret_requests(void **state)
{
	static const struct {
		const char *name, *host, *as, *value;
		enum err_kind kind;
	} rows[] = {
		{"A", "a.test", "bearer", "v", ERR_NONE},	    {"A", "a.test:8443", "header:X-Key", "v", ERR_NONE},
		{"A", "*.a.test", "bearer", "v", ERR_INVALID},	    {"A", "10.0.0.1", "bearer", "v", ERR_INVALID},
		{"A", "a.test", "header", "v", ERR_INVALID},	    {"A", "a.test", "cookie", "v", ERR_INVALID},
		{"A B", "a.test", "bearer", "v", ERR_INVALID},	    {"PATH", "a.test", "bearer", "v", ERR_INVALID},
		{"LD_PRELOAD", "a.test", "bearer", "v", ERR_INVALID}, {"A", "a.test", "bearer", "", ERR_INVALID},
		{"A", "a.test", "bearer", "v\r\nHost: b", ERR_INVALID},
	};
	(void)state;
	for (size_t i = 0; i < countof(rows); i++) {
		struct err e = {0};
		struct secret_request q = {.name = xstrdup(rows[i].name), .host = xstrdup(rows[i].host), .as = xstrdup(rows[i].as),
					   .value = BUF_INIT(1024)};
		buf_str(&q.value, rows[i].value);
		engine_secret_set(g, &q, (struct done){on_done, &e});
		if (e.kind != rows[i].kind)
			fail_msg("%s %s %s: %s", rows[i].name, rows[i].host, rows[i].as, e.msg);
		assert_null(q.value.p);
	}
	assert_int_equal(g->n_secrets, 1);
	g->secrets[0].port = 1; // a row that somebody edited
	auto_secret struct buf out = BUF_INIT(1024);
	struct err e;
	assert_int_equal(secret_value(g, "A", &out, &e), -1);
	assert_int_equal(e.kind, ERR_DENIED);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_nothing_said_is_closed),	 T(test_whose_word_counts),
		T(test_the_site_fixes_the_preset), T(test_a_broken_configuration_stops_creates),
		T(test_refused_requests),	 T(test_projects_are_hostile_until_trusted),
		T(test_a_secret_reaches_only_the_gate), T(test_headers), T(test_placeholders_are_fresh_and_stay),
		T(test_revocation_is_told_at_once), T(test_what_changes_while_a_cell_starts),
		T(test_an_error_closes_a_live_cell), T(test_set_is_hot),
		T(test_answers),		 T(test_secret_requests),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
