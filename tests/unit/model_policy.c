// SPDX-License-Identifier: Apache-2.0
// Rules, the order of judging, and that nothing but a well-formed list allows anything (T-041, T-042, T-046).
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/policy.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the four above it
#include <cmocka.h>

static struct host_name name(const char *s)
{
	struct host_name h;
	struct err e;
	if (host_parse(s, strlen(s), &h, &e))
		fail_msg("%s: %s", s, e.msg);
	return h;
}

// A policy of a NULL-terminated list of rules.
static struct policy make(const char *const *rules)
{
	struct policy p = {0};
	struct err e = {0};
	for (; *rules; rules++)
		if (policy_add_text(&p, *rules, "test", &e))
			fail_msg("%s", e.msg);
	return p;
}
#define MAKE(...) make((const char *const[]){__VA_ARGS__, NULL})

static enum verdict ask(const struct policy *p, const char *host, int port, const char *method, const char *path)
{
	struct host_name h = name(host);
	struct request q = {&h, (uint16_t)port, method, path};
	return policy_judge(p, &q, NULL);
}
#define allows(p, host, port) (ask(p, host, port, NULL, NULL) == VERDICT_ALLOW)
#define serves(p, host, method, path) (ask(p, host, 443, method, path) == VERDICT_ALLOW)

static const char *why(const struct policy *p, const char *host, int port, const char *method, const char *path)
{
	static char text[RULE_TEXT + 1];
	struct host_name h = name(host);
	struct request q = {&h, (uint16_t)port, method, path};
	const struct rule *r;
	auto_buf struct buf b = BUF_INIT(sizeof text);
	policy_judge(p, &q, &r);
	if (!r)
		return "none";
	rule_print(&b, r);
	assert_int_equal(fmt_to(text, sizeof text, "%s", buf_cstr(&b)), 0);
	return text;
}

static void comes_back(const char *text, const char *want)
{
	struct rule r, again;
	struct err e = {0};
	auto_buf struct buf b = BUF_INIT(RULE_TEXT + 1), c = BUF_INIT(RULE_TEXT + 1);
	if (rule_parse(text, "test", &r, &e))
		fail_msg("%s", e.msg);
	rule_print(&b, &r);
	assert_string_equal(buf_cstr(&b), want);
	if (rule_parse(buf_cstr(&b), "test", &again, &e))
		fail_msg("%s", e.msg);
	rule_print(&c, &again);
	assert_string_equal(buf_cstr(&c), want);
	rule_done(&r);
	rule_done(&again);
}

static void rules_come_back(void **state)
{
	(void)state;
	comes_back("a.test", "a.test");
	comes_back("  A.TEST.  ", "a.test");
	comes_back("*.A.test:8443", "*.a.test:8443");
	comes_back("!a.test", "!a.test");
	comes_back(" ! a.test", "!a.test");
	comes_back("!*.a.test:22", "!*.a.test:22");
	comes_back("GET a.test/v1/*", "GET a.test/v1/*");
	comes_back("!DELETE a.test/x", "!DELETE a.test/x");
	comes_back("a.test open", "a.test open");
	comes_back("*.a.test  pass", "*.a.test pass");
	comes_back("db.test:5432=10.0.0.7", "db.test:5432=10.0.0.7");
	comes_back("db.test:5432=[FD00:0:0::7]", "db.test:5432=[fd00::7]");
	comes_back("POST m.test:11434/api/*=127.0.0.1 open", "POST m.test:11434/api/*=127.0.0.1 open");
	comes_back("a.test/%41b%20c%3D%c3%BC", "a.test/Ab%20c%3D%C3%BC");
	comes_back("a.test/@s%2Fn", "a.test/@s/n");
	comes_back("GET open.test", "GET open.test");
	comes_back("a.test/*", "a.test/*");
	comes_back("a.test/", "a.test/");
	comes_back("M-SEARCH a.test", "M-SEARCH a.test");
}

static void what_is_no_rule(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"",
		" ",
		"!",
		"!!a.test",
		"*",
		"*:443",
		"*.",
		"**.a.test",
		"a.*.test",
		"*a.test",
		"a.test.*",
		"*.*.test",
		"open",
		"pass",
		"get a.test",
		"G\tT a.test",
		"GET POST a.test",
		"GET a.test open pass",
		"a.test open x",
		"a.test closed",
		"GET a.test pass",
		"a.test/x pass",
		"!a.test open",
		"!a.test pass",
		"!a.test=127.0.0.1",
		"a.test:0443",
		"a.test:+443",
		"a.test:443 x",
		"a.test:0",
		"a.test:",
		"a.test:http",
		"https://a.test",
		"a.test/x?y=1",
		"a.test/x?y",
		"a.test/#",
		"a.test/../b",
		"a.test/./b",
		"a.test/%2e%2e/b",
		"a.test//b",
		"a.test/a;b",
		"a.test/a%3Bb",
		"a.test/%5c",
		"a.test/\\",
		"a.test/%00",
		"a.test/%0a",
		"a.test/%",
		"a.test/%zz",
		"a.test/%2541",
		"a.test/*/b",
		"a.test/**",
		"a.test/%2A",
		"a.test/\xc3\xbc",
		"a.test/%c0%ae",
		"=127.0.0.1",
		"a.test=",
		"a.test=127.1",
		"a.test=0x7f.0.0.1",
		"a.test=127.0.0.01",
		"a.test=::1",
		"a.test=[::1",
		"a.test=[127.0.0.1]",
		"a.test=[::ffff:10.0.0.1]",
		"a.test=[::10.0.0.1]",
		"a.test=0.0.0.0",
		"a.test=[::]",
		"a.test=224.0.0.1",
		"a.test=[ff02::1]",
		"a.test=255.255.255.255",
		"a.test=[fe80::1%lo]",
		"a.test=10.0.0.1=10.0.0.2",
		"a.test=b.test",
		"127.0.0.1",
		"[::1]:443",
		"127.0.0.0/8:*",
		"198.18.0.7",
		"224.0.0.1",
		"0.0.0.0",
		"[::]",
		"10.1.2.3/8",
		"1.2.3.4/path",
		"GET 1.2.3.4",
		"1.2.3.4 open",
		"1.2.3.4 pass",
		"1.2.3.4=10.0.0.1",
		"1.2.3.4:0",
		"1.2.3.4:",
		"a.test:*",
		"2001:db8::1:*x",
		"*.1",
		"# a comment",
		"\xef\xbb\xbf"
		"a.test",
		"a.test\n",
		"a.test\r\nb.test",
		"a.test,b.test",
		"b\xc3\xbc"
		"cher.test",
		"%61.test",
		"a.test\x01",
		"@a.test",
	};
	for (size_t i = 0; i < countof(bad); i++) {
		struct rule r;
		struct err e = {0};
		if (!rule_parse(bad[i], "t", &r, &e))
			fail_msg("taken: %s", bad[i]);
	}
}

static void rules_are_bounded(void **state)
{
	(void)state;
	struct rule r;
	struct err e = {0};
	auto_buf struct buf b = BUF_INIT(10000);
	buf_str(&b, "a.test/");
	while (b.n < RULE_TEXT)
		buf_byte(&b, 'x');
	assert_int_equal(rule_parse(buf_cstr(&b), "t", &r, &e), 0);
	rule_done(&r);
	buf_byte(&b, 'x');
	assert_int_equal(rule_parse(buf_cstr(&b), "t", &r, &e), -1);
	assert_int_equal(e.kind, ERR_LIMIT);
	assert_int_equal(rule_parse("a.test", buf_cstr(&b), &r, &e), -1);
	struct policy p = {0};
	for (int i = 0; i < POLICY_RULES; i++)
		assert_int_equal(policy_add_text(&p, "a.test", "t", &e), 0);
	assert_int_equal(policy_add_text(&p, "a.test", "t", &e), -1);
	assert_int_equal(e.kind, ERR_LIMIT);
	policy_done(&p);
}

static void exact_and_suffix(void **state)
{
	(void)state;
	struct policy p = MAKE("allowed.test", "*.zone.test");
	assert_true(allows(&p, "allowed.test", 443));
	assert_true(allows(&p, "ALLOWED.TEST.", 443));
	static const char *const others[] = {
		"evilallowed.test", "xallowed.test", "allowed.test.evil.test", "a.allowed.test", "test",
		"zone.test",	    "evilzone.test", "a.zone.test.evil.test",  "allowed.tes",	 "allowed.testx"};
	for (size_t i = 0; i < countof(others); i++)
		if (allows(&p, others[i], 443))
			fail_msg("allowed: %s", others[i]);
	assert_true(allows(&p, "a.zone.test", 443));
	assert_true(allows(&p, "a.b.c.zone.test", 80));
	policy_done(&p);
}

static void port_rules(void **state)
{
	(void)state;
	struct policy p = MAKE("a.test", "b.test:8443", "c.test:22", "*.d.test:1000", "!*.d.test:1000", "e.test:25",
			       "e.test", "!e.test");
	assert_true(allows(&p, "a.test", 80));
	assert_true(allows(&p, "a.test", 443));
	assert_false(allows(&p, "a.test", 22));
	assert_false(allows(&p, "a.test", 8443));
	assert_true(allows(&p, "b.test", 8443));
	assert_false(allows(&p, "b.test", 443));
	assert_true(allows(&p, "c.test", 22));
	assert_false(allows(&p, "x.d.test", 1000));
	assert_false(allows(&p, "e.test", 25)); // a deny without a port is for every port
	assert_false(allows(&p, "e.test", 443));
	policy_done(&p);
}

static void deny_beats_allow_in_any_order(void **state)
{
	(void)state;
	struct policy p = MAKE("bad.zone.test", "*.zone.test", "!bad.zone.test"),
		      q = MAKE("!*.zone.test", "good.zone.test:443");
	assert_false(allows(&p, "bad.zone.test", 443));
	assert_true(allows(&p, "good.zone.test", 443));
	assert_string_equal(why(&p, "bad.zone.test", 443, NULL, NULL), "!bad.zone.test");
	assert_false(allows(&q, "good.zone.test", 443));
	q.open_all = q.ask = true;
	assert_false(allows(&q, "good.zone.test", 443));
	assert_true(allows(&q, "zone.test", 443));
	policy_done(&p);
	policy_done(&q);
}

static void the_most_specific_is_told(void **state)
{
	(void)state;
	struct policy p = MAKE("*.test", "*.b.test", "a.b.test", "a.b.test:443", "a.b.test:443/x/*",
			       "a.b.test:443/x/y/*", "a.b.test:443/x/y/z", "GET a.b.test:443/x/y/z");
	assert_string_equal(why(&p, "c.test", 443, NULL, NULL), "*.test");
	assert_string_equal(why(&p, "c.b.test", 443, NULL, NULL), "*.b.test");
	assert_string_equal(why(&p, "a.b.test", 80, NULL, NULL), "a.b.test");
	assert_string_equal(why(&p, "a.b.test", 443, "PUT", "/"), "a.b.test:443");
	assert_string_equal(why(&p, "a.b.test", 443, "PUT", "/x/"), "a.b.test:443/x/*");
	assert_string_equal(why(&p, "a.b.test", 443, "PUT", "/x/y/"), "a.b.test:443/x/y/*");
	assert_string_equal(why(&p, "a.b.test", 443, "PUT", "/x/y/z"), "a.b.test:443/x/y/z");
	assert_string_equal(why(&p, "a.b.test", 443, "GET", "/x/y/z?q=/../"), "GET a.b.test:443/x/y/z");
	assert_string_equal(why(&p, "other", 443, NULL, NULL), "none");
	policy_done(&p);
}

static void methods_and_paths(void **state)
{
	(void)state;
	struct policy p = MAKE("GET a.test/v1/*", "POST a.test/v1/chat");
	assert_true(allows(&p, "a.test", 443)); // the connection; each request is judged
	assert_true(serves(&p, "a.test", "GET", "/v1/models"));
	assert_true(serves(&p, "a.test", "GET", "/v1/models?x=1#y"));
	assert_true(serves(&p, "a.test", "GET", "/v1/"));
	assert_true(serves(&p, "a.test", "GET", "/%761/m%6fdels"));
	assert_true(serves(&p, "a.test", "POST", "/v1/chat"));
	assert_true(serves(&p, "a.test", "POST", "/v1/chat?stream=true"));
	static const char *const refused[] = {
		"/",
		"/v1",
		"/v2/",
		"/v1/../admin",
		"/v1/%2e%2e/admin",
		"/v1/%2E./admin",
		"/v1/..%2fadmin",
		"/v1/..;/admin",
		"/v1/..\\admin",
		"/v1/%5c",
		"//v1/x",
		"/v1//x",
		"/v1/./x",
		"/V1/x",
		"/v1/%00",
		"/v1/%0d%0a",
		"/v1/%",
		"/v1/%zz",
		"/v1/%252e%252e/",
		"/v1/\xc3\xbc",
		"/v1/%c0%ae%c0%ae/",
		"v1/x",
		"*",
		"",
		"http://a.test/v1/x",
		"?/v1/",
		"/v1?/v1/",
		"/v1#/v1/",
		"/v1/x/..",
		"/v1/.",
		"/v1/x\x01",
	};
	for (size_t i = 0; i < countof(refused); i++)
		if (serves(&p, "a.test", "GET", refused[i]))
			fail_msg("served: %s", refused[i]);
	assert_false(serves(&p, "a.test", "get", "/v1/models"));
	assert_false(serves(&p, "a.test", "DELETE", "/v1/models"));
	assert_false(serves(&p, "a.test", "POST", "/v1/chat/"));
	assert_false(serves(&p, "a.test", "POST", "/v1/cha"));
	assert_false(serves(&p, "a.test", "GET", NULL));
	policy_done(&p);
}

static void denied_paths(void **state)
{
	(void)state;
	struct policy p = MAKE("a.test", "!a.test/admin/*", "!DELETE a.test", "b.test/*", "c.test open");
	assert_true(allows(&p, "a.test", 443));
	struct host_name a = name("a.test");
	assert_true(policy_opens(&p, &a, 443));
	assert_true(serves(&p, "a.test", "GET", "/x"));
	static const char *const refused[] = {"/admin/x",  "/%61dmin/x", "/admin%2Fx",	  "/x/../admin/x", "/./admin/x",
					      "//admin/x", "/admin;a/x", "/x/..%5cadmin", "/%2561dmin/x",  "*",
					      "/ADMIN/x",  "/Admin/",	 "/%41dmin/x"};
	for (size_t i = 0; i < countof(refused); i++)
		if (serves(&p, "a.test", "GET", refused[i]))
			fail_msg("served: %s", refused[i]);
	assert_false(serves(&p, "a.test", "DELETE", "/x"));
	assert_false(serves(&p, "a.test", "delete", "/x"));
	assert_true(serves(&p, "b.test", "GET", "/a/../b"));
	assert_true(serves(&p, "b.test", "OPTIONS", "*"));
	assert_true(serves(&p, "c.test", "GET", "//a/../b;c"));
	policy_done(&p);
}

static void passed_hosts_are_not_opened(void **state)
{
	(void)state;
	struct policy p = MAKE("*.a.test pass", "GET x.a.test/v1/*", "b.test pass", "!b.test/admin", "GET c.test/",
			       "c.test:8443 pass");
	struct host_name x = name("x.a.test"), b = name("b.test"), c = name("c.test");
	assert_false(policy_opens(&p, &x, 443));
	assert_string_equal(why(&p, "x.a.test", 443, NULL, NULL), "*.a.test pass");
	assert_false(policy_opens(&p, &b, 443));
	assert_false(allows(&p, "b.test", 443)); // nobody could keep the deny
	assert_true(policy_opens(&p, &c, 443));
	assert_true(allows(&p, "c.test", 8443));
	assert_false(policy_opens(&p, &c, 8443));
	policy_done(&p);
}

static void add_secret(struct policy *p, const char *host, uint16_t port)
{
	struct err e = {0};
	struct secret_ref s = {.name = xstrdup("TOKEN"),
			       .host = name(host),
			       .port = port,
			       .as = SECRET_HEADER,
			       .key = xstrdup("X-Api-Key"),
			       .placeholder = xstrdup("skep_TOKEN_0123456789abcdef0123456789abcdef")};
	if (policy_add_secret(p, &s, &e))
		fail_msg("%s", e.msg);
	assert_null(s.name);
}

static void what_is_opened(void **state)
{
	(void)state;
	struct policy p = MAKE("plain.test", "open.test open", "GET m.test", "path.test/x", "*.w.test open", "api.test",
			       "pin.test pass");
	static const struct {
		const char *host;
		uint16_t port;
		bool opens;
	} rows[] = {
		{"plain.test", 443, false}, {"open.test", 443, true},  {"open.test", 80, true},
		{"open.test", 22, false},   {"m.test", 443, true},     {"path.test", 443, true},
		{"w.test", 443, false},	    {"a.w.test", 443, true},   {"api.test", 443, true},
		{"api.test", 80, false},    {"api.test", 8443, false}, {"sub.api.test", 443, false},
		{"test", 443, false},	    {"pin.test", 443, false},  {"alt.test", 8443, true},
		{"alt.test", 443, false},
	};
	add_secret(&p, "api.test", 0);
	add_secret(&p, "pin.test", 443);
	add_secret(&p, "alt.test", 8443);
	for (size_t i = 0; i < countof(rows); i++) {
		struct host_name h = name(rows[i].host);
		if (policy_opens(&p, &h, rows[i].port) != rows[i].opens)
			fail_msg("%s:%d", rows[i].host, rows[i].port);
	}
	assert_false(allows(&p, "alt.test", 8443)); // a secret is no permission
	policy_done(&p);
}

static bool answers(const struct policy *p, const char *host)
{
	struct host_name h = name(host);
	return policy_names(p, &h);
}

static void names_dns_answers(void **state)
{
	(void)state;
	struct policy p = MAKE("a.test", "ssh.test:22", "*.w.test", "!bad.w.test", "!half.test:443", "half.test",
			       "none.test:443", "!none.test:443", "GET path.test/x", "!*.gone.test", "x.gone.test",
			       "part.test", "!part.test/admin");
	static const char *const yes[] = {"a.test",	"A.TEST.",   "ssh.test",  "x.w.test",
					  "y.x.w.test", "half.test", "path.test", "part.test"};
	static const char *const no[] = {"b.test",	"w.test",   "bad.w.test", "none.test",
					 "x.gone.test", "x.a.test", "test",	  "evila.test"};
	for (size_t i = 0; i < countof(yes); i++)
		if (!answers(&p, yes[i]))
			fail_msg("not answered: %s", yes[i]);
	for (size_t i = 0; i < countof(no); i++)
		if (answers(&p, no[i]))
			fail_msg("answered: %s", no[i]);
	p.ask = true;
	assert_true(answers(&p, "b.test"));
	assert_false(answers(&p, "bad.w.test"));
	assert_false(answers(&p, "x.gone.test"));
	p.ask = false;
	p.open_all = true;
	assert_true(answers(&p, "b.test"));
	assert_false(answers(&p, "bad.w.test"));
	policy_done(&p);
}

static const char *address(const struct policy *p, const char *host, uint16_t port)
{
	struct host_name h = name(host);
	return policy_address(p, &h, port);
}

static void pinned_addresses(void **state)
{
	(void)state;
	struct policy p = MAKE("db.test:5432=127.0.0.1", "db.test", "*.svc.test=10.0.0.1", "x.svc.test",
			       "y.svc.test=[fd00::1]", "y.svc.test open", "!n.svc.test");
	assert_string_equal(address(&p, "db.test", 5432), "127.0.0.1");
	assert_null(address(&p, "db.test", 443));
	assert_null(address(&p, "db.test", 22));
	assert_string_equal(address(&p, "a.svc.test", 443), "10.0.0.1");
	assert_null(address(&p, "x.svc.test", 443)); // the exact rule says nothing of an address
	assert_string_equal(address(&p, "y.svc.test", 443), "fd00::1");
	assert_null(address(&p, "svc.test", 443));
	assert_false(allows(&p, "n.svc.test", 443));
	policy_done(&p);
}

// Only what the preset itself brought, whatever else is said of the host.
static void mirrors(void **state)
{
	(void)state;
	char *registries[] = {(char *)"m.test\tnpm", (char *)"p.test:8443\tpip", NULL};
	struct policy p = MAKE("a.test", "*.m.test");
	struct err e = {0};
	struct host_name m = name("m.test"), q = name("p.test"), a = name("a.test"), sub = name("x.m.test");
	assert_int_equal(preset_add(&p, "registries", registries, &e), 0);
	assert_true(policy_is_mirror(&p, &m, 443) && policy_is_mirror(&p, &q, 8443));
	assert_false(policy_is_mirror(&p, &m, 22) || policy_is_mirror(&p, &q, 443));
	assert_false(policy_is_mirror(&p, &a, 443) || policy_is_mirror(&p, &sub, 443));
	policy_done(&p);
}

static bool dials(const struct policy *p, const char *address, uint16_t port)
{
	struct host_name h = {0};
	memcpy(h.s, address, strlen(address));
	return policy_judge(p, &(struct request){&h, port, NULL, NULL}, NULL) == VERDICT_ALLOW;
}

static void ranges(void **state)
{
	(void)state;
	comes_back("203.0.113.0/24:443", "203.0.113.0/24:443");
	comes_back("203.0.113.7/32", "203.0.113.7");
	comes_back("2001:DB8::/32", "[2001:db8::/32]");
	comes_back("[2600::1]:*", "[2600::1]:*");
	comes_back("!10.0.0.0/8:*", "!10.0.0.0/8");
	comes_back("!127.0.0.1", "!127.0.0.1");
	comes_back("a.test:1=[::1]", "a.test:1=[::1]");
	struct policy p = MAKE("9.9.0.0/16", "!9.9.9.0/24:443", "[2600::/16]:22", "8.0.0.0/8:*", "!8.8.8.8");
	assert_true(policy_has_ranges(&p));
	assert_true(dials(&p, "9.9.1.1", 443) && dials(&p, "9.9.1.1", 80) && dials(&p, "9.9.9.9", 80));
	assert_false(dials(&p, "9.9.1.1", 22) || dials(&p, "9.9.9.9", 443) || dials(&p, "9.10.0.1", 443));
	assert_true(dials(&p, "2600::5", 22) && dials(&p, "8.1.1.1", 65535));
	assert_false(dials(&p, "2600::5", 443) || dials(&p, "8.8.8.8", 53) || dials(&p, "2601::", 22));
	assert_false(allows(&p, "a.test", 443)); // a range says nothing of names
	policy_done(&p);
	p = MAKE("a.test");
	p.open_all = p.ask = true; // open is every name; an address is never asked about
	assert_false(policy_has_ranges(&p) || dials(&p, "8.8.8.8", 443));
	policy_done(&p);
	p = MAKE("!8.8.8.8");
	assert_false(policy_has_ranges(&p));
	policy_done(&p);
	p = MAKE("[::/0]", "!8.8.8.0/24"); // whoever carries it to IPv4 would reach what is denied
	assert_true(dials(&p, "64:ff9b::909:909", 443) && dials(&p, "2600::1", 443));
	assert_false(dials(&p, "64:ff9b::808:808", 443) || dials(&p, "2002:808:808::1", 443) || dials(&p, "2600::5efe:808:808", 443));
	policy_done(&p);
}

static void ranges_that_are_not_everybodys(void **state)
{
	(void)state;
	struct policy p = MAKE("0.0.0.0/0:*", "[::/0]:*", "8.0.0.0/5:*", "169.254.0.0/16:*", "192.168.1.7:*");
	static const char *const closed[] = {"10.0.0.1", "127.0.0.1", "169.254.169.254", "100.100.100.200", "192.168.1.8", "172.16.0.1",
					     "224.0.0.1", "198.18.0.1", "::1", "fd00:ec2::254", "fe80::1", "64:ff9b::a00:1", "168.63.129.16"};
	for (size_t i = 0; i < countof(closed); i++)
		if (dials(&p, closed[i], 80))
			fail_msg("open: %s", closed[i]);
	assert_true(dials(&p, "1.1.1.1", 22) && dials(&p, "2606:4700::1111", 22));
	assert_true(dials(&p, "169.254.7.7", 80) && dials(&p, "192.168.1.7", 80)); // named
	policy_done(&p);
	p = MAKE("10.0.0.0/8", "169.254.169.254", "[fd00::/8]");
	assert_true(dials(&p, "10.200.0.1", 443) && dials(&p, "169.254.169.254", 80) && dials(&p, "fd12::1", 443));
	assert_false(dials(&p, "169.254.169.253", 80) || dials(&p, "fd00:ec2::254", 80) || dials(&p, "192.168.0.1", 443));
	policy_done(&p);
}

// By its address a denied name could be reached all the same.
static void everything_gives_way_to_a_denied_name(void **state)
{
	(void)state;
	struct policy p = MAKE("0.0.0.0/0:*", "9.0.0.0/8:*", "!evil.test");
	assert_false(dials(&p, "1.1.1.1", 443));
	assert_true(dials(&p, "9.1.1.1", 443));
	policy_done(&p);
	p = MAKE("0.0.0.0/0:*", "!9.0.0.0/8");
	assert_true(dials(&p, "1.1.1.1", 443));
	assert_false(dials(&p, "9.1.1.1", 443));
	policy_done(&p);
}

static void nothing_said_nothing_allowed(void **state)
{
	(void)state;
	struct policy p = {0};
	struct err e = {0};
	assert_false(allows(&p, "a.test", 443));
	assert_false(answers(&p, "a.test"));
	assert_string_equal(why(&p, "a.test", 443, NULL, NULL), "none");
	p.ask = true;
	assert_int_equal(ask(&p, "a.test", 443, NULL, NULL), VERDICT_ASK);
	assert_int_equal(ask(&p, "a.test", 9, "GET", "/"), VERDICT_ASK);
	p.ask = false;
	assert_int_equal(policy_add_text(&p, "#", "t", &e), -1);
	assert_int_equal(policy_add_text(&p, "", "t", &e), -1);
	assert_int_equal(p.n, 0);
	struct wire w = {0};
	struct policy q = {.open_all = true};
	assert_int_equal(policy_read(&w, &q, &e), -1);
	assert_false(q.open_all || q.ask || q.n);
	struct wire junk = {(const uint8_t *)"\x01\x01\0\0\0\x03\0\0\0a b\x01\0\0\0x\0\0\0\0", 21, false};
	assert_int_equal(policy_read(&junk, &q, &e), -1);
	assert_false(q.open_all || q.ask || q.n);
}

static void a_policy_comes_back(void **state)
{
	(void)state;
	struct policy p = MAKE("a.test", "!GET b.test/x%20y/*", "db.test:5432=[fd00::1]", "*.c.test pass"), q;
	struct err e = {0};
	auto_buf struct buf b = BUF_INIT(POLICY_WIRE), c = BUF_INIT(POLICY_WIRE);
	p.ask = true;
	add_secret(&p, "a.test", 8443);
	policy_write(&b, &p);
	struct wire w = {(const uint8_t *)b.p, b.n, false};
	if (policy_read(&w, &q, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(w.n, 0);
	policy_write(&c, &q);
	assert_int_equal(b.n, c.n);
	assert_memory_equal(b.p, c.p, b.n);
	assert_true(q.ask);
	assert_false(q.open_all);
	assert_string_equal(q.rules[1].path, "/x y/*");
	assert_string_equal(q.rules[1].from, "test");
	assert_string_equal(q.secrets[0].key, "X-Api-Key");
	assert_int_equal(q.secrets[0].port, 8443);
	policy_done(&q);
	for (size_t n = 0; n < b.n; n++) { // cut off anywhere: nothing
		struct wire cut = {(const uint8_t *)b.p, n, false};
		assert_int_equal(policy_read(&cut, &q, &e), -1);
		assert_int_equal(q.n + q.n_secrets, 0);
	}
	policy_done(&p);
}

static void the_biggest_policy_fits_its_bound(void **state)
{
	(void)state;
	struct policy p = {0};
	struct err e = {0};
	auto_buf struct buf text = BUF_INIT(RULE_TEXT + 1), b = BUF_INIT(POLICY_WIRE);
	buf_str(&text, "a.test/");
	while (text.n < RULE_TEXT)
		buf_byte(&text, 'x');
	for (int i = 0; i < POLICY_RULES; i++)
		assert_int_equal(policy_add_text(&p, buf_cstr(&text), "preset registries (something)", &e), 0);
	for (int i = 0; i < POLICY_SECRETS; i++)
		add_secret(&p, "a.test", 0);
	struct secret_ref more = {.name = xstrdup("A"),
				  .host = name("a.test"),
				  .as = SECRET_BEARER,
				  .placeholder = xstrdup("skep_A_0123456789abcdef")};
	assert_int_equal(policy_add_secret(&p, &more, &e), -1);
	assert_int_equal(e.kind, ERR_LIMIT);
	policy_write(&b, &p);
	assert_false(b.overflow);
	policy_done(&p);
}

static void refuse_ref(const char *secret, enum secret_as as, const char *key, const char *placeholder)
{
	struct policy p = {0};
	struct err e = {0};
	struct secret_ref s = {.name = xstrdup(secret),
			       .host = name("a.test"),
			       .as = as,
			       .key = key ? xstrdup(key) : NULL,
			       .placeholder = placeholder ? xstrdup(placeholder) : NULL};
	if (!policy_add_secret(&p, &s, &e))
		fail_msg("taken: %s %d %s %s", secret, as, key ? key : "-", placeholder ? placeholder : "-");
	assert_null(s.name);
}

static void malformed_secrets(void **state)
{
	(void)state;
	static const char good[] = "skep_A_0123456789abcdef";
	refuse_ref("", SECRET_BEARER, NULL, good);
	refuse_ref("1A", SECRET_BEARER, NULL, good);
	refuse_ref("A-B", SECRET_BEARER, NULL, good);
	refuse_ref("A=B", SECRET_BEARER, NULL, good);
	refuse_ref("A", SECRET_AS, NULL, good);
	refuse_ref("A", SECRET_BEARER, "X", good);
	refuse_ref("A", SECRET_HEADER, NULL, good);
	refuse_ref("A", SECRET_HEADER, "", good);
	refuse_ref("A", SECRET_HEADER, "a b", good);
	refuse_ref("A", SECRET_HEADER, "a\r\nb", good);
	refuse_ref("A", SECRET_HEADER, "a:", good);
	refuse_ref("A", SECRET_HEADER, "Host", good);
	refuse_ref("A", SECRET_HEADER, "transfer-ENCODING", good);
	refuse_ref("A", SECRET_QUERY, "a&b", good);
	refuse_ref("A", SECRET_BEARER, NULL, NULL);
	refuse_ref("A", SECRET_BEARER, NULL, "");
	refuse_ref("A", SECRET_BEARER, NULL, "short");
	refuse_ref("A", SECRET_BEARER, NULL, "skep_A_0123456789 abcdef");
}

static void places_of_secrets(void **state)
{
	(void)state;
	static const char *const bad[] = {"",	  "header",  "header:",	   "query",    "bearer:x",
					  "git:", "nothing", "header:a b", "HEADER:x", "file:/x"};
	enum secret_as as;
	char *key;
	struct err e = {0};
	for (size_t i = 0; i < countof(bad); i++)
		if (!secret_as_parse(bad[i], &as, &key, &e))
			fail_msg("taken: %s", bad[i]);
	assert_int_equal(secret_as_parse("header:X-Api-Key", &as, &key, &e), 0);
	assert_int_equal(as, SECRET_HEADER);
	assert_string_equal(key, "X-Api-Key");
	free(key);
	assert_int_equal(secret_as_parse("git", &as, &key, &e), 0);
	assert_int_equal(as, SECRET_GIT);
	assert_null(key);
	for (int i = 0; i < SECRET_AS; i++)
		assert_string_not_equal(secret_as_name(i), "?");
}

static void values_come_back(void **state)
{
	(void)state;
	char a[] = "A", pa[] = "skep_A_0123456789abcdef", b_[] = "B", pb[] = "skep_B_0123456789abcdef";
	uint8_t bytes[] = {0, 1, 255, '\n'};
	struct secret_value v[] = {{a, pa, bytes, sizeof bytes}, {b_, pb, bytes, 0}};
	struct secrets s;
	struct err e = {0};
	auto_buf struct buf b = BUF_INIT(10000);
	secrets_write(&b, v, 2, "PEM");
	if (secrets_read(b.p, b.n, &s, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(s.n, 2);
	assert_string_equal(s.v[0].name, "A");
	assert_string_equal(s.v[1].placeholder, pb);
	assert_int_equal(s.v[0].n, sizeof bytes);
	assert_memory_equal(s.v[0].value, bytes, sizeof bytes);
	assert_int_equal(s.v[1].n, 0);
	assert_string_equal(s.ca_key, "PEM");
	secrets_done(&s);
	for (size_t n = 0; n < b.n; n++)
		assert_int_equal(secrets_read(b.p, n, &s, &e), -1);
	buf_byte(&b, 0);
	assert_int_equal(secrets_read(b.p, b.n, &s, &e), -1);
	buf_clear(&b);
	secrets_write(&b, NULL, 0, "");
	assert_int_equal(secrets_read(b.p, b.n, &s, &e), 0);
	secrets_done(&s);
}

static void presets(void **state)
{
	(void)state;
	struct policy p = {0};
	struct err e = {0};
	char one[] = "mirror.corp.test\tnpm", two[] = "deb.corp.test:8080\tapt", three[] = "plain.test";
	char *list[] = {one, two, three, NULL};
	assert_int_equal(preset_add(&p, "none", NULL, &e), 0);
	assert_int_equal(preset_add(&p, "registries", NULL, &e), 0);
	assert_int_equal(p.n, 0);
	assert_int_equal(preset_add(&p, "registries", list, &e), 0);
	assert_int_equal(p.n, 3);
	assert_string_equal(p.rules[0].from, "preset registries (npm)");
	assert_string_equal(p.rules[2].from, "preset registries");
	assert_true(allows(&p, "mirror.corp.test", 443));
	assert_true(allows(&p, "deb.corp.test", 8080));
	assert_false(allows(&p, "deb.corp.test", 80));
	assert_int_equal(preset_add(&p, "git,llm", list, &e), 0);
	assert_true(allows(&p, "github.com", 22));
	assert_true(allows(&p, "api.anthropic.com", 443));
	assert_false(allows(&p, "evil.test", 443));
	assert_int_equal(preset_add(&p, "open", NULL, &e), 0);
	assert_true(allows(&p, "evil.test", 12345));
	policy_done(&p);
}

static void a_bad_preset_adds_nothing(void **state)
{
	(void)state;
	struct policy p = {0};
	struct err e = {0};
	static const char *const bad[] = {"", "git,", ",git", "Git", "open,x", "git llm", "registry", "none\n", "none,open", "git,none"};
	for (size_t i = 0; i < countof(bad); i++)
		if (!preset_add(&p, bad[i], NULL, &e))
			fail_msg("taken: %s", bad[i]);
	static const char *const entries[] = {
		"*.corp.test\tnpm", "a.test=10.0.0.1\tnpm", "a.test/x\tnpm", "!a.test", "", "\tnpm",
		"127.0.0.1\tpip",   "a.test open",	    "GET a.test"};
	for (size_t i = 0; i < countof(entries); i++) {
		char good[] = "good.test\tnpm";
		auto_free char *entry = xstrdup(entries[i]);
		char *list[] = {good, entry, NULL};
		if (!preset_add(&p, "registries", list, &e))
			fail_msg("taken: %s", entries[i]);
	}
	assert_int_equal(p.n, 0);
	assert_false(p.open_all);
	policy_done(&p);
}

static void json_in_the_order_of_judging(void **state)
{
	(void)state;
	struct policy p = MAKE("*.test", "a.test", "!*.evil.test", "!x.evil.test");
	struct err e = {0};
	auto_buf struct buf b = BUF_INIT(100000);
	static const char *const order[] = {"!x.evil.test", "!*.evil.test", "a.test", "*.test"};
	add_secret(&p, "a.test", 0);
	policy_json(&b, &p);
	auto_json json_t *o = json_read(b.p, b.n, &e);
	assert_non_null(o);
	for (size_t i = 0; i < countof(order); i++)
		assert_string_equal(json_str(json_array_get(json_object_get(o, "rules"), i), "rule"), order[i]);
	assert_string_equal(json_str(o, "otherwise"), "deny");
	assert_int_equal(json_u64(json_array_get(json_object_get(o, "secrets"), 0), "port"), 443);
	assert_null(strstr(b.p, "0123456789abcdef"));
	policy_done(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_come_back),
		cmocka_unit_test(what_is_no_rule),
		cmocka_unit_test(rules_are_bounded),
		cmocka_unit_test(exact_and_suffix),
		cmocka_unit_test(port_rules),
		cmocka_unit_test(deny_beats_allow_in_any_order),
		cmocka_unit_test(the_most_specific_is_told),
		cmocka_unit_test(methods_and_paths),
		cmocka_unit_test(denied_paths),
		cmocka_unit_test(passed_hosts_are_not_opened),
		cmocka_unit_test(what_is_opened),
		cmocka_unit_test(names_dns_answers),
		cmocka_unit_test(pinned_addresses),
		cmocka_unit_test(mirrors),
		cmocka_unit_test(ranges),
		cmocka_unit_test(ranges_that_are_not_everybodys),
		cmocka_unit_test(everything_gives_way_to_a_denied_name),
		cmocka_unit_test(nothing_said_nothing_allowed),
		cmocka_unit_test(a_policy_comes_back),
		cmocka_unit_test(the_biggest_policy_fits_its_bound),
		cmocka_unit_test(malformed_secrets),
		cmocka_unit_test(places_of_secrets),
		cmocka_unit_test(values_come_back),
		cmocka_unit_test(presets),
		cmocka_unit_test(a_bad_preset_adds_nothing),
		cmocka_unit_test(json_in_the_order_of_judging),
	};
	return cmocka_run_group_tests_name("model/policy", tests, NULL, NULL);
}
