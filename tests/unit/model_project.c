// SPDX-License-Identifier: Apache-2.0
// Project and config files: what they say, what needs trust, and that nothing odd says anything (T-046).
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/project.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// cmocka wants the four above it
#include <cmocka.h>

static struct project read_project(const char *text)
{
	struct project p;
	struct err e = {0};
	if (project_parse(text, strlen(text), &p, &e))
		fail_msg("%s", e.msg);
	return p;
}

static void full_file(void **state)
{
	(void)state;
	struct project p = read_project(
		"# a project\n"
		"image: debian-12\n"
		"setup:\n  run:\n    - npm ci\n    - make deps\n  files: [package-lock.json, sub/go.sum]\n  net: registries\n"
		"env:\n  CI: true\n  EMPTY:\n  QUOTED: \"a b\"\n"
		"secrets: [GITHUB_TOKEN, OPENAI]\n"
		"net:\n  preset: [git, llm]\n  allow:\n    - Api.Example.TEST.\n    - GET *.x.test/v1/*\n  deny: evil.test\n  ask: true\n"
		"limits:\n  memory: 8g\n  cpus: 1.5\n  pids: 100\n  timeout: 10m\n"
		"ports: [3000, 8080]\n"
		"hide: ['.env', \"secrets/\", '**/*.pem']\n"
		"mounts: /data:/data:ro\n"
		"test: make test\n");
	assert_string_equal(p.image, "debian-12");
	assert_int_equal(strv_len(p.setup), 2);
	assert_string_equal(p.setup[1], "make deps");
	assert_string_equal(p.setup_files[1], "sub/go.sum");
	assert_string_equal(p.env[0], "CI=true");
	assert_string_equal(p.env[1], "EMPTY=");
	assert_string_equal(p.env[2], "QUOTED=a b");
	assert_int_equal(p.n_ports, 2);
	assert_int_equal(p.ports[1], 8080);
	assert_string_equal(p.hide[0], ".env");
	assert_string_equal(p.hide[1], "secrets");
	assert_string_equal(p.test, "make test");
	assert_true(p.limits.set[LIMIT_CPUS]);
	assert_int_equal(p.limits.value[LIMIT_CPUS], 1500);
	assert_int_equal(p.limits.value[LIMIT_TIMEOUT], 600000);
	assert_false(p.limits.set[LIMIT_MEMORY]);
	assert_true(project_has_wishes(&p));
	assert_true(p.wishes.limits.set[LIMIT_MEMORY]);
	assert_int_equal(p.wishes.limits.value[LIMIT_MEMORY], 8ULL << 30);
	assert_string_equal(p.wishes.setup_net.preset, "registries");
	assert_string_equal(p.wishes.net.preset, "git,llm");
	assert_string_equal(p.wishes.net.deny[0], "!evil.test");
	assert_true(p.wishes.net.has_ask && p.wishes.net.ask);
	assert_string_equal(p.wishes.secrets[1], "OPENAI");
	assert_string_equal(p.wishes.mounts[0], "/data:/data:ro");
	project_done(&p);
}

static void helpers_need_trust(void **state)
{
	(void)state;
	struct project p = read_project("env: {A: 1, LD_PRELOAD: x, https_proxy: y, GIT_SSH_COMMAND: z, NODE_OPTIONS: o, NODE_ENV: dev, X_BASE_URL: u}\n");
	assert_int_equal(strv_len(p.env), 2);
	assert_string_equal(p.env[1], "NODE_ENV=dev");
	assert_int_equal(strv_len(p.wishes.env), 5);
	assert_true(project_has_wishes(&p));
	project_done(&p);
	assert_true(env_is_helper("PATH") && env_is_helper("PATH=/x") && env_is_helper("SKEP_EXEC=1") && env_is_helper("No_Proxy="));
	assert_false(env_is_helper("PATHS") || env_is_helper("DEBUG") || env_is_helper("DATABASE_URL=x") || env_is_helper("LDAP=1"));
}

static void shapes_of_values(void **state)
{
	(void)state;
	struct project p = read_project("setup: npm ci\nenv: [A=1, B=]\nnet: git\nports: 80\nsecrets: X\n");
	assert_string_equal(p.setup[0], "npm ci");
	assert_string_equal(p.env[1], "B=");
	assert_string_equal(p.wishes.net.preset, "git");
	assert_int_equal(p.ports[0], 80);
	assert_string_equal(p.wishes.secrets[0], "X");
	project_done(&p);
	p = read_project("{image: a, setup: [x], env: {K: 'no'}}");
	assert_string_equal(p.env[0], "K=no");
	assert_false(project_has_wishes(&p));
	project_done(&p);
}

static void nothing_said(void **state)
{
	(void)state;
	static const char *const files[] = {
		"",
		"\n",
		"   \n",
		"# only a comment\n",
		"#",
		"\xef\xbb\xbf",
		"\xef\xbb\xbf# comment\n",
		"---\n",
		"---\n...\n",
		"~",
		"null\n",
		"{}",
		"net:\n",
		"net: ~\n",
		"net: {}\n",
		"net:\n  allow:\n  deny:\n",
		"net: {allow: [], deny: []}\nsecrets: []\n",
		"secrets:\nlimits:\n",
		"net:\n  # - everything.test\n",
		"limits: {}\n",
		"limits:\n  memory:\n",
	};
	for (size_t i = 0; i < countof(files); i++) {
		struct project p = read_project(files[i]);
		struct policy policy = {0};
		struct err e = {0};
		if (project_has_wishes(&p))
			fail_msg("wishes: %s", files[i]);
		assert_int_equal(net_add(&policy, &p.wishes.net, "project", NULL, &e), 0);
		assert_true(!policy.n && !policy.open_all && !policy.ask);
		project_done(&p);
		struct config c;
		if (strstr(files[i], "secrets"))
			continue;
		assert_int_equal(config_parse(files[i], strlen(files[i]), &c, &e), 0);
		assert_true(!c.net.preset && !c.net.allow && !c.net.has_ask && !c.resolver && !c.has_strict);
		config_done(&c);
	}
}

static void bom_is_no_key(void **state)
{
	(void)state;
	struct project p = read_project("\xef\xbb\xbfimage: x\n");
	assert_string_equal(p.image, "x");
	project_done(&p);
}

static void refused(const char *text, size_t n, const char *want)
{
	struct project p = {.image = NULL};
	struct err e = {0};
	if (!project_parse(text, n, &p, &e))
		fail_msg("taken: %s", text);
	if (want && !strstr(e.msg, want))
		fail_msg("\"%s\" gives \"%s\", not \"%s\"", text, e.msg, want);
}

static void errors_name_their_line(void **state)
{
	(void)state;
	static const char *const rows[][2] = {
		{"image: a\nimagine: b\n", "line 2: unknown key imagine"},
		{"net:\n  allow:\n  permit: []\n", "line 3: unknown key permit"},
		{"\"a\\e[31m\": b\n", "line 1: unknown key (not a word)"},
		{"limits:\n  ram: 1\n", "line 2"},
		{"limits:\n  memory: lots\n", "line 2"},
		{"limits:\n  pids: -1\n", "line 2"},
		{"image: a\nimage: b\n", "line 2: the key is there twice"},
		{"net:\n  preset: git\n  preset: open\n", "line 3: the key is there twice"},
		{"net:\n  preset:\n    - git\n    - none\n", "line 4: the network preset none contradicts"},
		{"net:\n  allow:\n  - good.test\n  - 127.0.0.1\n", "line 4: rule \"127.0.0.1\""},
		{"net:\n  allow: ['!x.test']\n", "line 2"},
		{"net:\n  deny: ['!x.test']\n", "line 2"},
		{"net:\n  allow: ['*']\n", "line 2"},
		{"net: everything\n", "line 1"},
		{"net: [git, everything]\n", "line 1"},
		{"net:\n  ask: yes\n", "line 2: true or false"},
		{"net:\n  ask: [true]\n", "line 2"},
		{"net:\n  allow: {a.test: 1}\n", "line 2"},
		{"net:\n  allow: [[a.test]]\n", "line 2"},
		{"net:\n  allow: ['']\n", "line 2"},
		{"net:\n  allow: [~, '']\n", "line 2"},
		{"image: [a]\n", "line 1"},
		{"image: ''\n", "line 1"},
		{"test: {a: b}\n", "line 1"},
		{"env: {1A: b}\n", "line 1"},
		{"env: {A: [b]}\n", "line 1"},
		{"env: [A]\n", "line 1: K=V"},
		{"env: ['=x']\n", "line 1"},
		{"ports: [0]\n", "line 1"},
		{"ports: [70000]\n", "line 1"},
		{"ports: ['0443']\n", "line 1"},
		{"secrets: [a-b]\n", "line 1"},
		{"secrets: [{name: a}]\n", "line 1"},
		{"hide: [/etc]\n", "line 1"},
		{"hide: [../x]\n", "line 1"},
		{"hide: [a/../../x]\n", "line 1"},
		{"hide: [a//b]\n", "line 1"},
		{"hide: ['/']\n", "line 1"},
		{"mounts: [data]\n", "line 1"},
		{"setup:\n  run: x\n  files: [../lock]\n", "line 3"},
		{"setup:\n  do: x\n", "line 2: unknown key do"},
		{"min_isolation: strict\n", "line 1: unknown key"},
		{"resolver: 127.0.0.1\n", "line 1: unknown key"},
		{"- a\n- b\n", "line 1"},
		{"just text\n", "line 1"},
		{"a: b: c\n", "line 1: not YAML"},
		{"image: a\n\tnet: b\n", "line 2: not YAML"},
		{"image: 'a\n", "not YAML"},
		{"net: [git\n", "not YAML"},
		{"image: a\n\nx: \x01\n", "line 3"},
	};
	for (size_t i = 0; i < countof(rows); i++)
		refused(rows[i][0], strlen(rows[i][0]), rows[i][1]);
}

static void tricks(void **state)
{
	(void)state;
	static const char *const files[] = {
		"image: &a x\n",
		"env: &a {A: b}\nnet: *a\n",
		"setup: &s [a, b]\n",
		"env: {A: *x}\n",
		"image: !!str x\n",
		"image: !x y\n",
		"ports: !!set {}\n",
		"%TAG ! tag:x,2000:\n---\nimage: x\n",
		"image: a\n---\nimage: b\n",
		"? [a]\n: b\n",
		"? {a: b}\n: c\n",
		"<<: {image: a}\n",
		"image: \"a\\0b\"\n",
		"\"ima\\0ge\": b\n",
		"image: \xff\n",
		"image: \xc0\xae\n",
		"a: [[[[[[[[[[x]]]]]]]]]]\n",
	};
	for (size_t i = 0; i < countof(files); i++)
		refused(files[i], strlen(files[i]), NULL);
	refused("image: a\0b: c", 13, NULL);
	refused("\xff\xfei\0m\0", 6, "UTF-8");
	refused("\xfe\xff\0i", 4, "UTF-8");
}

static void sizes_are_bounded(void **state)
{
	(void)state;
	struct err e = {0};
	struct project p;
	auto_buf struct buf b = BUF_INIT(1 << 20);
	buf_str(&b, "setup:\n");
	for (int i = 0; i < 5000; i++)
		buf_str(&b, "- a\n");
	refused(b.p, b.n, "too many");
	buf_clear(&b);
	while (b.n < PROJECT_FILE)
		buf_byte(&b, '#');
	assert_int_equal(project_parse(b.p, b.n, &p, &e), 0);
	project_done(&p);
	buf_byte(&b, '#');
	assert_int_equal(project_parse(b.p, b.n, &p, &e), -1);
	assert_int_equal(e.kind, ERR_LIMIT);
	buf_clear(&b);
	while (b.n < PROJECT_FILE)
		buf_byte(&b, '[');
	refused(b.p, b.n, NULL);
	buf_clear(&b);
	buf_str(&b, "ports: [1");
	for (int i = 0; i < PROJECT_PORTS; i++)
		buf_str(&b, ",2");
	buf_str(&b, "]");
	refused(b.p, b.n, "at most 32");
}

static void rules_reach_the_policy(void **state)
{
	(void)state;
	struct project p = read_project("net: {preset: registries, allow: [a.test], deny: [b.test], ask: true}\n");
	struct policy policy = {0};
	struct err e = {0};
	char one[] = "m.test\tpip", bad[] = "*.m.test\tpip";
	char *list[] = {one, NULL}, *broken[] = {one, bad, NULL};
	assert_int_equal(net_add(&policy, &p.wishes.net, "project", broken, &e), -1);
	assert_true(!policy.n && !policy.ask);
	assert_int_equal(net_add(&policy, &p.wishes.net, "project", list, &e), 0);
	assert_int_equal(policy.n, 3);
	assert_true(policy.ask);
	assert_string_equal(policy.rules[0].from, "preset registries (pip)");
	assert_string_equal(policy.rules[1].from, "project");
	assert_true(policy.rules[2].deny);
	policy_done(&policy);
	project_done(&p);
}

static void limits_above_the_default_need_trust(void **state)
{
	(void)state;
	struct project p = read_project("limits: {memory: 1g, disk: 0, pids: 513, nofile: 4096, cpus: 0, idle: 1h}\n");
	assert_true(p.limits.set[LIMIT_MEMORY] && p.limits.set[LIMIT_NOFILE] && p.limits.set[LIMIT_CPUS] &&
		    p.limits.set[LIMIT_IDLE]);
	assert_true(p.wishes.limits.set[LIMIT_DISK] && p.wishes.limits.set[LIMIT_PIDS]);
	assert_false(p.limits.set[LIMIT_DISK] || p.limits.set[LIMIT_PIDS] || p.wishes.limits.set[LIMIT_MEMORY]);
	assert_int_equal(p.limits.value[LIMIT_MEMORY], 1ULL << 30);
	assert_int_equal(p.wishes.limits.value[LIMIT_DISK], 0);
	assert_int_equal(p.wishes.limits.value[LIMIT_PIDS], 513);
	project_done(&p);
}

static void config_files(void **state)
{
	(void)state;
	struct config c;
	struct err e = {0};
	const char *text =
		"net:\n  deny: ['*.corp.test']\nmin_isolation: strict\nresolver: 127.0.0.53\nca_file: /etc/corp.pem\ndisk_budget: 50g\nlimits: {memory: 16g}\n";
	if (config_parse(text, strlen(text), &c, &e))
		fail_msg("%s", e.msg);
	assert_true(c.has_strict && c.strict);
	assert_string_equal(c.resolver, "127.0.0.53:53");
	assert_string_equal(c.ca_file, "/etc/corp.pem");
	assert_true(c.has_budget && c.budget == 50ULL << 30);
	assert_string_equal(c.net.deny[0], "!*.corp.test");
	assert_int_equal(c.limits.value[LIMIT_MEMORY], 16ULL << 30);
	config_done(&c);
	assert_int_equal(config_parse("resolver: '[::1]:5353'", 22, &c, &e), 0);
	assert_string_equal(c.resolver, "[::1]:5353");
	config_done(&c);
	static const char *const bad[] = {
		"image: x",
		"setup: x",
		"secrets: [A]",
		"min_isolation: weak",
		"min_isolation: [strict]",
		"resolver: localhost",
		"resolver: 127.1",
		"resolver: '::1'",
		"resolver: '[::1'",
		"resolver: '[127.0.0.1]'",
		"resolver: 1.2.3.4:0",
		"resolver: '1.2.3.4:'",
		"resolver: '[::1]x'",
		"resolver: [a]",
		"ca_file: corp.pem",
		"ca_file: [/a]",
		"disk_budget: much",
		"disk_budget: [1g]",
		"trust: all",
	};
	for (size_t i = 0; i < countof(bad); i++)
		if (!config_parse(bad[i], strlen(bad[i]), &c, &e))
			fail_msg("taken: %s", bad[i]);
}

static void effect_as_json(void **state)
{
	(void)state;
	struct project p = read_project(
		"image: i\nports: [80]\nenv: {A: b}\nnet: {allow: [a.test], ask: false}\nsecrets: [S]\nlimits: {pids: 9999}\n");
	struct err e = {0};
	auto_buf struct buf b = BUF_INIT(10000);
	project_json(&b, &p);
	auto_json json_t *o = json_read(b.p, b.n, &e);
	assert_non_null(o);
	assert_string_equal(
		b.p,
		"{\"now\":{\"image\":\"i\",\"env\":[\"A=b\"],\"ports\":[80]},\"after_trust\":{\"net\":{\"allow\":[\"a.test\"],"
		"\"ask\":false},\"secrets\":[\"S\"],\"limits\":{\"pids\":9999}}}");
	project_done(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(full_file),
		cmocka_unit_test(helpers_need_trust),
		cmocka_unit_test(shapes_of_values),
		cmocka_unit_test(nothing_said),
		cmocka_unit_test(bom_is_no_key),
		cmocka_unit_test(errors_name_their_line),
		cmocka_unit_test(tricks),
		cmocka_unit_test(sizes_are_bounded),
		cmocka_unit_test(rules_reach_the_policy),
		cmocka_unit_test(limits_above_the_default_need_trust),
		cmocka_unit_test(config_files),
		cmocka_unit_test(effect_as_json),
	};
	return cmocka_run_group_tests_name("model/project", tests, NULL, NULL);
}
