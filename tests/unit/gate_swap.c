// SPDX-License-Identifier: Apache-2.0
// Where a placeholder becomes a secret, and everywhere it must not.
#include "base/mem.h"
#include "gate/swap.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the headers above it
#include <cmocka.h>

#define P(n) "skep_" n "_0123456789abcdef0123456789abcdef"

struct world {
	struct policy policy;
	struct secret_value values[8];
	size_t n;
	struct host_name host;
	struct head head;
	struct swap_used used[POLICY_SECRETS];
	const char *name;
};

static void bind_to(struct world *w, const char *name, const char *as, const char *value)
{
	struct err e;
	struct secret_ref r = {.name = xstrdup(name),
			       .placeholder = xasprintf("skep_%s_0123456789abcdef0123456789abcdef", name)};
	assert_int_equal(host_parse("api.test", 8, &r.host, &e), 0);
	assert_int_equal(secret_as_parse(as, &r.as, &r.key, &e), 0);
	w->values[w->n++] =
		(struct secret_value){xstrdup(name), xstrdup(r.placeholder), (uint8_t *)xstrdup(value), strlen(value)};
	assert_int_equal(policy_add_secret(&w->policy, &r, &e), 0);
}

static void world_done(struct world *w)
{
	policy_done(&w->policy);
	head_done(&w->head);
	for (size_t i = 0; i < w->n; i++) {
		free(w->values[i].name);
		free(w->values[i].placeholder);
		free(w->values[i].value);
	}
	*w = (struct world){0};
}
#define auto_world __attribute__((cleanup(world_done)))

static void request(struct world *w, const char *path)
{
	head_done(&w->head);
	w->head.method = xstrdup("GET");
	w->head.path = xstrdup(path);
}

static void field(struct world *w, const char *name, const char *value)
{
	head_add(&w->head, str_of(name), str_of(value));
}

static int swap_to(struct world *w, const char *host, uint16_t port, bool verified)
{
	struct err e;
	assert_int_equal(host_parse(host, strlen(host), &w->host, &e), 0);
	struct swap s = {&w->policy, w->values, w->n, &w->host, port, verified};
	return swap_request(&s, &w->head, w->used, &w->name);
}

static int swap_here(struct world *w)
{
	return swap_to(w, "api.test", 443, true);
}

static void test_bearer(void **state)
{
	auto_world struct world w = {0};
	(void)state;
	bind_to(&w, "TOK", "bearer", "real");
	request(&w, "/");
	field(&w, "authorization", "Bearer " P("TOK"));
	assert_int_equal(swap_here(&w), 1);
	assert_string_equal(head_get(&w.head, "Authorization"), "Bearer real");
	assert_string_equal(w.used[0].ref->name, "TOK");
	assert_true(w.head.f[0].ours);
}

static void test_twice(void **state)
{
	auto_world struct world w = {0};
	(void)state;
	bind_to(&w, "TOK", "bearer", "real");
	request(&w, "/");
	field(&w, "authorization", "Bearer " P("TOK"));
	field(&w, "Cookie", "mine");
	field(&w, "Authorization", "Bearer " P("TOK"));
	assert_int_equal(swap_here(&w), 1);
	assert_string_equal(head_get(&w.head, "Authorization"), "Bearer real");
	assert_int_equal(w.head.n, 2);
}

static void test_injected(void **state)
{
	auto_world struct world w = {0};
	(void)state;
	bind_to(&w, "TOK", "bearer", "real");
	bind_to(&w, "KEY", "header:X-Key", "other");
	request(&w, "/");
	field(&w, "Authorization", "Bearer mine");
	field(&w, "X-Api-Key", "mine");
	field(&w, "X-Key", "mine");
	field(&w, "Cookie", "mine");
	assert_int_equal(swap_here(&w), 2);
	assert_string_equal(head_get(&w.head, "Authorization"), "Bearer real");
	assert_string_equal(head_get(&w.head, "X-Key"), "other");
	assert_null(head_get(&w.head, "X-Api-Key"));
	assert_string_equal(head_get(&w.head, "Cookie"), "mine");
	assert_int_equal(w.head.n, 3);
}

// Asked for by one placeholder: nothing else is added, and the client's own credential goes.
static void test_one_asked_for(void **state)
{
	auto_world struct world w = {0};
	(void)state;
	bind_to(&w, "TOK", "bearer", "real");
	bind_to(&w, "KEY", "header:X-Key", "other");
	request(&w, "/");
	field(&w, "X-Key", "k=" P("KEY"));
	field(&w, "Authorization", "Bearer mine");
	assert_int_equal(swap_here(&w), 1);
	assert_string_equal(head_get(&w.head, "X-Key"), "k=other");
	assert_null(head_get(&w.head, "Authorization"));
}

static const char *sent(struct world *w, const char *name)
{
	int n = 0;
	for (size_t i = 0; i < w->head.n; i++)
		n += !strcasecmp(w->head.f[i].name, name);
	return n == 1 ? head_get(&w->head, name) : n ? "several" : NULL;
}

// Whatever the client said there, and nothing else is touched.
static void test_set(void **state)
{
	auto_world struct world w = {0};
	struct err e;
	(void)state;
	bind_to(&w, "A", "set:X-Env", "prod");
	bind_to(&w, "B", "set:authorization", "Bearer ours");
	request(&w, "/");
	field(&w, "x-env", "mine");
	field(&w, "X-ENV", P("A"));
	field(&w, "X-Api-Key", "own");
	assert_int_equal(swap_here(&w), 2);
	assert_string_equal(sent(&w, "X-Env"), "prod");
	assert_string_equal(sent(&w, "Authorization"), "Bearer ours");
	assert_string_equal(sent(&w, "X-Api-Key"), "own");
	request(&w, "/");
	assert_int_equal(swap_to(&w, "api.test", 443, false), 0);
	assert_int_equal(swap_to(&w, "x.api.test", 443, true), 0);
	assert_null(sent(&w, "X-Env"));
	// A wildcard gives way to the name itself, and to a longer one: sets are not joined.
	struct secret_ref r = {.name = xstrdup("C"), .placeholder = xstrdup(PLACEHOLDER_PLAIN "C_0123456789"), .as = SECRET_SET, .key = xstrdup("X-Wide"), .wildcard = true};
	assert_int_equal(host_parse("test", 4, &r.host, &e), 0);
	w.values[w.n++] = (struct secret_value){xstrdup("C"), xstrdup(r.placeholder), (uint8_t *)xstrdup("w"), 1};
	assert_int_equal(policy_add_secret(&w.policy, &r, &e), 0);
	request(&w, "/");
	assert_int_equal(swap_here(&w), 2);
	assert_null(sent(&w, "X-Wide"));
	request(&w, "/");
	assert_int_equal(swap_to(&w, "other.test", 443, true), 1);
	assert_string_equal(sent(&w, "X-Wide"), "w");
	struct swap s = {&w.policy, w.values, w.n, &w.host, 443, true};
	assert_false(swap_knows_host(&s)); // it is plain: answers are not searched for it
	struct secret_ref no = {.name = xstrdup("D"), .placeholder = xstrdup(P("D")), .as = SECRET_BEARER, .wildcard = true, .host = {"test"}};
	assert_int_equal(policy_add_secret(&w.policy, &no, &e), -1);
}

static void basic_is(const char *as, const char *value, const char *sent, const char *want)
{
	auto_world struct world w = {0};
	bind_to(&w, "GIT", as, value);
	request(&w, "/");
	field(&w, "Authorization", sent);
	assert_int_equal(swap_here(&w), 1);
	assert_string_equal(head_get(&w.head, "Authorization"), want);
}

static void test_basic(void **state)
{
	(void)state;
	// bob:PLACEHOLDER -> bob:pw, PLACEHOLDER -> u:pw, PLACEHOLDER: -> pw:
	basic_is("git", "pw", "Basic Ym9iOnNrZXBfR0lUXzAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJjZGVm", "Basic Ym9iOnB3");
	basic_is("basic", "u:pw", "basic c2tlcF9HSVRfMDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "Basic dTpwdw==");
	basic_is("basic", "pw", "Basic c2tlcF9HSVRfMDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY6", "Basic cHc6");
	basic_is("file", "pw", "token " P("GIT"), "token pw");
}

static void test_query(void **state)
{
	auto_world struct world w = {0};
	(void)state;
	bind_to(&w, "Q", "query:key", "a b&c");
	request(&w, "/v1?x=1&key=" P("Q") "&key=mine&mykey=2");
	assert_int_equal(swap_here(&w), 1);
	assert_string_equal(w.head.path, "/v1?x=1&key=a%20b%26c&mykey=2");
	request(&w, "/v1?x=1");
	assert_int_equal(swap_here(&w), 0);
	assert_string_equal(w.head.path, "/v1?x=1");
	request(&w, "/v1?other=" P("Q"));
	assert_int_equal(swap_here(&w), -1);
	assert_string_equal(w.name, "Q");
}

// Whatever a service calls them, and however a key is written.
static void test_own_credentials(void **state)
{
	static const char *const go[] = {"Authorization", "X-Vault-Token", "DD-API-KEY", "apikey", "X-Auth-Email", "X-Shopify-Access-Token",
					 "X-Client-Secret", "X-JFrog-Art-Api-Key", "Circle-Token", "x-amz-security-token"};
	static const char *const stay[] = {"Cookie", "Idempotency-Key", "Mcp-Session-Id", "X-CSRF-Token", "X-ContinuationToken", "Sec-WebSocket-Key",
					   "Accept", "anthropic-version"};
	auto_world struct world w = {0};
	(void)state;
	bind_to(&w, "TOK", "bearer", "real");
	bind_to(&w, "Q", "query:api_key", "real");
	request(&w, "/v1?a=1&access_token=mine&private%5Ftoken=mine&API_KEY=mine&api_key=" P("Q") "&ap%69_key=mine;token=mine&;b=%2");
	for (size_t i = 0; i < countof(go); i++)
		field(&w, go[i], "mine");
	for (size_t i = 0; i < countof(stay); i++)
		field(&w, stay[i], "kept");
	assert_int_equal(swap_here(&w), 1);
	assert_string_equal(w.head.path, "/v1?a=1&api_key=real&;b=%2");
	assert_int_equal(w.head.n, countof(stay));
	for (size_t i = 0; i < w.head.n; i++)
		assert_string_equal(w.head.f[i].value, "kept");
	struct swap s = {&w.policy, w.values, w.n, &w.host, 443, true};
	request(&w, "/");
	field(&w, "X-Vault-Token", "mine");
	field(&w, "X-Checksum", "kept");
	assert_null(swap_trailer(&s, &w.head));
	assert_int_equal(w.head.n, 1);
	field(&w, "X-Checksum", P("TOK"));
	assert_string_equal(swap_trailer(&s, &w.head), "TOK");
	request(&w, "/v1?a=1;private_token=mine;b=2&token=mine"); // as some servers part them
	assert_int_equal(swap_here(&w), 1);
	assert_string_equal(w.head.path, "/v1?a=1;b=2");
	request(&w, "/v1?access_token=mine&&x");
	assert_int_equal(swap_to(&w, "other.test", 443, true), 0);
	assert_string_equal(w.head.path, "/v1?access_token=mine&&x");
}

static int refused(const char *name, const char *value, const char *path, const char *host, uint16_t port,
		   bool verified)
{
	auto_world struct world w = {0};
	bind_to(&w, "TOK", "bearer", "real");
	request(&w, path);
	if (name)
		field(&w, name, value);
	int n = swap_to(&w, host, port, verified);
	for (size_t i = 0; i < w.head.n; i++)
		assert_null(strstr(w.head.f[i].value, "real"));
	return n;
}

static void test_elsewhere(void **state)
{
	(void)state;
	assert_int_equal(refused("Authorization", "Bearer " P("TOK"), "/", "other.test", 443, true), -1);
	assert_int_equal(refused("Authorization", "Bearer " P("TOK"), "/", "a.api.test", 443, true), -1);
	assert_int_equal(refused("Authorization", "Bearer " P("TOK"), "/", "api.test", 8443, true), -1);
	assert_int_equal(refused("Authorization", "Bearer " P("TOK"), "/", "api.test", 443, false), -1);
	assert_int_equal(refused(NULL, NULL, "/" P("TOK"), "other.test", 443, true), -1);
	assert_int_equal(refused("X-" P("TOK"), "x", "/", "other.test", 443, true), -1);
	// u:PLACEHOLDER in Basic
	assert_int_equal(refused("Authorization", "Basic dTpza2VwX1RPS18wMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njc4OWFiY2RlZg==",
				 "/", "other.test", 443, true),
			 -1);
	assert_int_equal(refused("X-Skep", "skep_TOK_of_another_sandbox", "/", "other.test", 443, true), 0);
	assert_int_equal(refused(NULL, NULL, "/", "api.test", 443, false), 0); // nothing is added either
}

static void test_wrong_place(void **state)
{
	auto_world struct world w = {0};
	(void)state;
	bind_to(&w, "TOK", "bearer", "real");
	request(&w, "/");
	field(&w, "X-Other", P("TOK"));
	assert_int_equal(swap_here(&w), -1);
	request(&w, "/?t=" P("TOK"));
	assert_int_equal(swap_here(&w), -1);
	request(&w, "/");
	field(&w, "Authorization", "token " P("TOK"));
	assert_int_equal(swap_here(&w), -1);
	request(&w, "/"); // in its place and in another one
	field(&w, "Authorization", "Bearer " P("TOK"));
	field(&w, "X-Other", P("TOK"));
	assert_int_equal(swap_here(&w), -1);
}

// A value can not write further header lines, nor name another secret.
static void test_hostile_value(void **state)
{
	auto_world struct world w = {0};
	(void)state;
	bind_to(&w, "TOK", "bearer", "a\r\nX-Evil: b");
	bind_to(&w, "TWO", "header:X-Two", P("TOK"));
	request(&w, "/");
	field(&w, "Authorization", "Bearer " P("TOK"));
	assert_int_equal(swap_here(&w), -1);
	request(&w, "/");
	assert_int_equal(swap_here(&w), 1);
	assert_null(head_get(&w.head, "Authorization"));
	assert_string_equal(head_get(&w.head, "X-Two"), P("TOK"));
}

static void test_search(void **state)
{
	static const char text[] = "some body with " P("TOK") " inside";
	auto_world struct world w = {0};
	(void)state;
	bind_to(&w, "TOK", "bearer", "real");
	struct swap s = {&w.policy, w.values, w.n, &w.host, 443, true};
	for (size_t step = 1; step < sizeof text; step++) {
		struct swap_search q = {0};
		const char *found = NULL;
		for (size_t at = 0; at < sizeof text - 1 && !found; at += step)
			found = swap_search_add(&s, &q, text + at,
						sizeof text - 1 - at < step ? sizeof text - 1 - at : step);
		assert_string_equal(found ? found : "nothing", "TOK");
	}
	struct swap_search q = {.seen = SWAP_BODY};
	assert_null(swap_search_add(&s, &q, text, sizeof text - 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bearer), cmocka_unit_test(test_twice),	      cmocka_unit_test(test_injected),
		cmocka_unit_test(test_set),
		cmocka_unit_test(test_one_asked_for), cmocka_unit_test(test_basic),
		cmocka_unit_test(test_query),	      cmocka_unit_test(test_elsewhere),
		cmocka_unit_test(test_wrong_place),   cmocka_unit_test(test_hostile_value),
		cmocka_unit_test(test_search),	      cmocka_unit_test(test_own_credentials),
	};
	return cmocka_run_group_tests_name("gate/swap", tests, NULL, NULL);
}
