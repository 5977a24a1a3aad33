// SPDX-License-Identifier: Apache-2.0
// Registries as the package managers' own files, variables and answers name them.
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/policy.h"
#include "workspace/registries.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
// cmocka wants the four above it
#include <cmocka.h>

static void read_file(struct registries *r, enum registry_file kind, const char *text)
{
	registries_take_file(r, kind, true, text, strlen(text));
}

static char *joined(char *const *v)
{
	struct buf b = BUF_INIT(100000);
	for (; v && *v; v++)
		buf_fmt(&b, "%s%s", b.n ? "|" : "", *v);
	buf_str(&b, "");
	for (size_t i = 0; i < b.n; i++)
		if (b.p[i] == '\t')
			b.p[i] = ' ';
	return b.p ? buf_take(&b) : xstrdup("");
}

// Takes r.
static void gives(struct registries *r, const char *list, const char *env)
{
	auto_free char *got = joined(r->list), *vars = joined(r->env);
	struct policy p = {0};
	struct err e = {0};
	assert_string_equal(got, list);
	assert_string_equal(vars, env);
	if (preset_add(&p, "registries", r->list, &e)) // whatever was read makes good rules
		fail_msg("%s", e.msg);
	policy_done(&p);
	registries_done(r);
}

static void npm(void **state)
{
	(void)state;
	struct registries r = {0};
	read_file(
		&r, FILE_NPMRC,
		"; comment\n# registry=https://no.test/\n//m.corp.test/:_authToken=abc\nregistry = \"https://u:p@M.corp.test:8443/npm/\"\n"
		"@scope:registry=https://scoped.corp.test/\nproxy=http://proxy.corp.test:3128\n");
	assert_true(registries_settled(&r, REGISTRY_NPM));
	read_file(&r, FILE_NPMRC, "registry=https://overridden.test/\n@b:registry=http://b.test\n");
	gives(&r, "m.corp.test:8443 npm|scoped.corp.test npm|b.test npm",
	      "npm_config_registry=https://M.corp.test:8443/npm/");
	read_file(&r, FILE_NPMRC, "@scope:registry=https://scoped.corp.test/\nstrict-ssl=true");
	assert_false(registries_settled(&r, REGISTRY_NPM));
	gives(&r, "scoped.corp.test npm", "");
	registries_take_file(&r, FILE_NPMRC, false, "registry=https://a.test", 23);
	gives(&r, "a.test npm", ""); // a file of the system is seen inside
}

static void odd_urls(void **state)
{
	(void)state;
	static const char *const none[] = {
		"https://127.0.0.1/",
		"https://[::1]:4873/",
		"https://0x7f.1/",
		"https://${HOST}/",
		"file:///srv",
		"ftp://a.test/",
		"a.test",
		"https://",
		"https:///x",
		"https://a.test:0443/",
		"https://a_b.test/",
		"https://a%2etest/",
		"https://good.test\\@evil.test/",
		"https://*.test/",
		"javascript://a.test",
		"https://b\xc3\xbc.test/",
		"://a.test",
	};
	for (size_t i = 0; i < countof(none); i++) {
		struct registries r = {0};
		auto_free char *text = xasprintf("registry=%s\n", none[i]);
		read_file(&r, FILE_NPMRC, text);
		assert_true(registries_settled(&r, REGISTRY_NPM)); // and the default is not used either
		if (r.list || r.env)
			fail_msg("%s gives %s", none[i], r.list ? r.list[0] : r.env[0]);
		registries_done(&r);
	}
	struct registries r = {0};
	read_file(
		&r, FILE_NPMRC,
		"a:registry=https://x@y@real.test/\nb:registry=https://real2.test?@no.test\nc:registry=https://real3.test#@no.test\n");
	gives(&r, "real.test npm|real2.test npm|real3.test npm", "");
}

static void pip_and_uv(void **state)
{
	(void)state;
	struct registries r = {0};
	read_file(
		&r, FILE_PIP_CONF,
		"[global]\nindex_url = https://user:pw@pip.corp.test/simple\nextra-index-url =\n    https://one.test/simple\n\thttps://two.test/\n"
		"timeout = 5\n    https://not.test/\n[install]\nfind-links = https://links.test/x https://links2.test\ntrusted-host = no.test\n");
	assert_true(registries_settled(&r, REGISTRY_PIP));
	gives(&r, "pip.corp.test pip|one.test pip|two.test pip|links.test pip|links2.test pip",
	      "PIP_INDEX_URL=https://pip.corp.test/simple");
	read_file(&r, FILE_PIP_CONF, "[global]\nextra-index-url = https://one.test/\nno-index = true");
	assert_false(registries_settled(&r, REGISTRY_PIP));
	gives(&r, "one.test pip", "");
	read_file(
		&r, FILE_UV_TOML,
		"# index-url = \"https://no.test\"\nindex-url = \"https://uv.test/simple\" # \"https://no.test\"\nextra-index-url = [\n  \"https://e1.test\",\n"
		"  'https://e2.test',\n]\n[[index]]\nname = \"https://no.test\"\nurl = \"https://i.test/\"\n[pip]\nno-index = false\n");
	assert_true(registries_settled(&r, REGISTRY_UV));
	gives(&r, "uv.test uv|e1.test uv|e2.test uv|i.test uv", "UV_DEFAULT_INDEX=https://uv.test/simple");
	read_file(&r, FILE_UV_TOML, "[[index]]\nurl = \"https://i.test/\"\ndefault = true\n");
	assert_true(registries_settled(&r, REGISTRY_UV));
	gives(&r, "i.test uv", "");
	read_file(&r, FILE_UV_TOML, "[[index]]\nurl = \"https://i.test/\"\n");
	assert_false(registries_settled(&r, REGISTRY_UV));
	gives(&r, "i.test uv", "");
}

static void cargo(void **state)
{
	(void)state;
	struct registries r = {0};
	read_file(
		&r, FILE_CARGO_TOML,
		"[source.crates-io]\nreplace-with = \"mirror\"\n[source.mirror]\nregistry = \"sparse+https://c.corp.test/index/\"\n"
		"[registries.work]\nindex = \"ssh://git@git.corp.test/index.git\"\n[registries]\nother = { index = \"https://o.test/git\", token = \"https://no.test\" }\n"
		"[http]\nproxy = \"http://proxy.test:3128\"\n[build]\ntarget-dir = \"index\"\n");
	assert_true(registries_settled(&r, REGISTRY_CARGO));
	gives(&r, "c.corp.test cargo|git.corp.test:22 cargo|o.test cargo", "");
	read_file(&r, FILE_CARGO_TOML, "source.crates-io.replace-with = 'm'\n");
	assert_true(registries_settled(&r, REGISTRY_CARGO));
	gives(&r, "", "");
	read_file(&r, FILE_CARGO_TOML,
		  "[source.work]\nreplace-with = \"x\"\n[registries.w]\nindex = \"https://w.test\"\n");
	assert_false(registries_settled(&r, REGISTRY_CARGO));
	read_file(&r, FILE_CARGO_INDEX,
		  "{\n  \"dl\": \"https://dl.w.test/{crate}/{version}\",\n  \"api\": \"https://api.w.test\"\n}");
	gives(&r, "w.test cargo|dl.w.test cargo|api.w.test cargo", "");
}

static void go(void **state)
{
	(void)state;
	struct registries r = {0};
	read_file(&r, FILE_GO_ENV, "GOFLAGS=-x\nGOPROXY=https://go.corp.test/a,https://two.test|direct\n");
	assert_false(registries_settled(&r, REGISTRY_GO));
	registries_take_file(&r, FILE_GO_ENV, false, "GOPROXY=https://default.test,direct\nGOSUMDB=sum.test\n", 52);
	assert_true(registries_settled(&r, REGISTRY_GO));
	gives(&r, "go.corp.test go|two.test go|sum.test go", "GOPROXY=https://go.corp.test/a,https://two.test|direct");
	read_file(&r, FILE_GO_ENV, "GOPROXY=off\nGOSUMDB=off\n");
	assert_true(registries_settled(&r, REGISTRY_GO));
	gives(&r, "", "GOPROXY=off|GOSUMDB=off");
	read_file(&r, FILE_GO_ENV, "GOPROXY=https://u:p@go.test\nGOSUMDB=sum.test+abc+def https://mirror.test/sum\n");
	gives(&r, "go.test go|mirror.test go",
	      "GOSUMDB=sum.test+abc+def https://mirror.test/sum"); // no password goes in
	read_file(&r, FILE_GO_ENV, "GOSUMDB=sum.test+abc+def\n");
	gives(&r, "sum.test go", "GOSUMDB=sum.test+abc+def");
}

static void maven(void **state)
{
	(void)state;
	struct registries r = {0};
	read_file(
		&r, FILE_MAVEN_XML,
		"<settings><!-- <mirror><mirrorOf>*</mirrorOf><url>https://no.test</url></mirror> -->\n<mirrors><mirror><mirrorOf>external:http:*</mirrorOf>"
		"<url>http://0.0.0.0/</url><blocked>true</blocked></mirror></mirrors>\n<repository><url> https://repo.corp.test/x </url></repository></settings>");
	assert_false(registries_settled(&r, REGISTRY_MAVEN));
	gives(&r, "repo.corp.test maven", "");
	read_file(&r, FILE_MAVEN_XML, "<mirror><mirrorOf>*,!internal</mirrorOf><url>https://m.test</url></mirror>");
	assert_true(registries_settled(&r, REGISTRY_MAVEN));
	gives(&r, "m.test maven", "");
	read_file(&r, FILE_MAVEN_XML, "<mirror><mirrorOf>*,!central</mirrorOf><url>https://m.test</url></mirror>");
	assert_false(registries_settled(&r, REGISTRY_MAVEN));
	gives(&r, "m.test maven", "");
	read_file(&r, FILE_MAVEN_XML,
		  "<url>https://a.test<url>https://b.test</url><!-- open <url>https://c.test</url>");
	gives(&r, "a.test maven", "");
}

static void apt(void **state)
{
	(void)state;
	struct registries r = {0};
	read_file(
		&r, FILE_APT_LIST,
		"# deb http://no.test/ x\n deb http://deb.corp.test/debian bookworm main\ndeb-src [ arch=amd64 signed-by=/x ] https://src.test:8443/d x\n"
		"deb [trusted=yes] mirror+https://mir.test/list x main\ndeb cdrom:[Disc]/ x\ndeb file:/srv x\ndebug http://no.test\ndeb\n\tdeb http://tab.test x\n");
	gives(&r, "deb.corp.test apt|src.test:8443 apt|mir.test apt|tab.test apt", "");
	read_file(
		&r, FILE_APT_SOURCES,
		"Types: deb\n# URIs: http://no.test\nURIs: http://a.test/debian\n https://b.test\nSuites: x\n http://no2.test\n\nTypes: deb\nURIs: https://off.test\nEnabled: no\n"
		"\n\nTypes: deb deb-src\nuris: http://c.test https://d.test\nSuites: x");
	gives(&r, "a.test apt|b.test apt|c.test apt|d.test apt", "");
}

static void the_tools_own_files(void **state)
{
	(void)state;
	struct registries r = {0};
	read_file(
		&r, FILE_NPM_OWN,
		"define('proxy', {\n default: null,\n})\n  registry: new Definition('registry', {\n    default: 'https://npm.test/',\n    type: url,\n  }),\n"
		"x: new Definition('x', { default: 'https://no.test/' })");
	read_file(
		&r, FILE_PIP_OWN,
		"import x\n\nPyPI = PackageIndex(\"https://pip.test/\", file_storage_domain=\"files.test\")\nTest = PackageIndex(\"https://no.test/\")\n");
	assert_true(registries_settled(&r, REGISTRY_NPM) && registries_settled(&r, REGISTRY_PIP));
	read_file(&r, FILE_PIP_OWN, "\nPyPI = PackageIndex(\"https://no.test/\", file_storage_domain=\"no.test\")\n");
	gives(&r, "npm.test npm|pip.test pip|files.test pip", "");
	read_file(&r, FILE_NPM_OWN, "define('registry', {\n  default: 'https://old.test/',");
	gives(&r, "old.test npm", "");
	read_file(&r, FILE_NPM_OWN, "nothing of the kind: 'registry'");
	read_file(&r, FILE_PIP_OWN, "PyPI = PackageIndex(");
	gives(&r, "", "");
}

static void variables(void **state)
{
	(void)state;
	struct registries r = {0};
	char a[] = "npm_config_registry=https://n.test/", b[] = "PIP_INDEX_URL=https://t:s@p.test/simple",
	     c[] = "PIP_EXTRA_INDEX_URL=https://x.test https://y.test", d[] = "GOPROXY=https://g.test",
	     e[] = "GOSUMDB=off", f[] = "UV_INDEX_URL=https://u.test", g[] = "HTTPS_PROXY=http://no.test:3128",
	     h[] = "odd";
	char *env[] = {a, b, c, d, e, f, g, h, NULL};
	registries_take_env(&r, env);
	read_file(&r, FILE_NPMRC, "registry=https://no.test");
	gives(&r, "n.test npm|p.test pip|x.test pip|y.test pip|g.test go|u.test uv",
	      "npm_config_registry=https://n.test/|PIP_INDEX_URL=https://p.test/simple|GOPROXY=https://g.test|GOSUMDB=off|UV_DEFAULT_INDEX=https://u.test");
	registries_take_env(&r, NULL);
	gives(&r, "", "");
}

static void answer(struct registries *r, enum registry_tool t, const char *text)
{
	registries_answer(r, t, text, strlen(text));
}

static void answers(void **state)
{
	(void)state;
	struct registries r = {0};
	answer(&r, REGISTRY_NPM, "https://npm.test/\n");
	answer(&r, REGISTRY_NPM, "https://no.test/\n");
	answer(&r, REGISTRY_PIP, "https://pip.test/simple https://files.test\n");
	answer(&r, REGISTRY_UV,
	       "Usage: see https://docs.test\n --default-index  The URL (by default: <https://uv.test/simple>) and https://no.test\n");
	answer(&r, REGISTRY_GO, "https://go.test,direct\nsum.test\n");
	answer(&r, REGISTRY_MAVEN,
	       "<project><repositories><repository><url>https://mvn.test/m2</url></repository></repositories></project>");
	for (int t = 0; t <= REGISTRY_APT; t++)
		assert_int_equal(registries_settled(&r, t), t != REGISTRY_CARGO && t != REGISTRY_APT);
	gives(&r, "npm.test npm|pip.test pip|files.test pip|uv.test uv|go.test go|sum.test go|mvn.test maven", "");
	answer(&r, REGISTRY_PIP,
	       "  -i  Base URL of the index (default\n        https://pip.test/simple). See https://no.test\n");
	gives(&r, "pip.test pip", "");
	answer(&r, REGISTRY_YARN, "https://yarn.test\n");
	answer(&r, REGISTRY_GEM, "*** CURRENT SOURCES ***\n\nhttps://gems.test/\n");
	answer(&r, REGISTRY_COMPOSER, "{\"p\":{\"type\":\"composer\",\"url\":\"https://repo.php.test\"}}\n");
	answer(&r, REGISTRY_NUGET, "E https://nuget.test/v3/index.json\n");
	answer(&r, REGISTRY_CONDA, "https://conda.test\nhttps://repo.conda.test/pkgs/main\n");
	for (int t = REGISTRY_YARN; t < REGISTRY_GRADLE; t++)
		assert_true(registries_settled(&r, t));
	gives(&r, "yarn.test yarn|gems.test gem|index.gems.test gem|repo.php.test composer|nuget.test nuget|conda.test conda|repo.conda.test conda", "");
	answer(&r, REGISTRY_NPM, "");
	answer(&r, REGISTRY_NPM, "undefined\n");
	answer(&r, REGISTRY_PIP, "no default here");
	answer(&r, REGISTRY_MAVEN, "caution: filename not matched");
	assert_int_equal(r.settled, 0);
	gives(&r, "", "");
}

static void files_of_more_tools(void **state)
{
	static const struct {
		enum registry_file kind;
		const char *text, *want;
	} rows[] = {
		{FILE_YARNRC, "# no\nregistry \"https://yarn.test/x\"\n\"@s:registry\" \"https://scope.test\"\n", "yarn.test yarn|scope.test yarn"},
		{FILE_GEMRC, ":sources:\n- https://user:pw@gems.test/\n- git@no\n", "gems.test gem"},
		{FILE_COMPOSER_JSON, "{\"repositories\":[{\"type\":\"composer\",\"url\":\"https://php.test\"}]}", "php.test composer"},
		{FILE_NUGET_CONFIG, "<add key=\"own\" value=\"https://nuget.test/v3/index.json\" />", "nuget.test nuget"},
		{FILE_CONDARC, "channel_alias: https://conda.test:8443/\n", "conda.test:8443 conda"},
		{FILE_GRADLE, "maven { url 'https://gradle.test/repo' }", "gradle.test gradle"},
	};
	(void)state;
	for (size_t i = 0; i < countof(rows); i++) {
		struct registries r = {0};
		registries_take_file(&r, rows[i].kind, true, rows[i].text, strlen(rows[i].text));
		gives(&r, rows[i].want, "");
	}
}

static bool asks(const struct registry_question *q, size_t n, enum registry_tool t)
{
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(q[i].argv[0][0], '/');
		if (q[i].tool == t)
			return true;
	}
	return false;
}

static void questions_only_for_what_is_open(void **state)
{
	(void)state;
	struct registries r = {0};
	size_t n;
	struct registry_question *q = registries_questions(&r, "/nowhere", "/nowhere", &n);
	assert_true(asks(q, n, REGISTRY_NPM) && asks(q, n, REGISTRY_PIP) && asks(q, n, REGISTRY_UV) &&
		    asks(q, n, REGISTRY_GO));
	assert_false(asks(q, n, REGISTRY_APT) || asks(q, n, REGISTRY_MAVEN)); // no jar to look into
	registry_questions_free(q, n);
	read_file(&r, FILE_NPMRC, "registry=https://a.test");
	read_file(&r, FILE_GO_ENV, "GOPROXY=off\nGOSUMDB=off");
	q = registries_questions(&r, "/nowhere", "/nowhere", &n);
	assert_false(asks(q, n, REGISTRY_NPM) || asks(q, n, REGISTRY_GO));
	registry_questions_free(q, n);
	registries_done(&r);
}

static void put(int dir, const char *path, const char *text)
{
	struct err e = {0};
	auto_free char *parent = xstrdup(path);
	*strrchr(parent, '/') = 0;
	if (fs_mkdirs(dir, parent, 0755, &e) || fs_write(dir, path, text, strlen(text), 0644, &e))
		fail_msg("%s", e.msg);
}

static void a_whole_tree(void **state)
{
	(void)state;
	char top[] = "/tmp/skep-registries-XXXXXX";
	struct err e = {0};
	struct registries r;
	assert_non_null(mkdtemp(top));
	int dir = fs_open(AT_FDCWD, top, O_RDONLY | O_DIRECTORY, 0, &e);
	put(dir, "home/.npmrc", "registry=https://n.test/");
	put(dir, "home/.cargo/registry/index/index.c.test-6f17d22bba15001f/config.json",
	    "{\"dl\":\"https://dl.c.test/x\"}");
	put(dir, "image/etc/npmrc", "registry=https://no.test/");
	put(dir, "image/etc/pip.conf", "[global]\nindex-url=https://p.test/");
	put(dir, "image/usr/local/lib/python3.12/site-packages/pip/_internal/models/index.py",
	    "\nPyPI = PackageIndex(\"https://no.test/\")");
	put(dir, "image/etc/apt/sources.list.d/a.sources", "URIs: http://a.test/\n");
	put(dir, "image/etc/apt/sources.list.d/b.list.disabled", "deb http://no.test/ x\n");
	put(dir, "outside/secret.list", "deb http://outside.test/ x\n");
	assert_int_equal(symlinkat("../../../../../outside/secret.list", dir, "image/etc/apt/sources.list.d/out.list"),
			 0);
	assert_int_equal(mkfifoat(dir, "image/etc/apt/sources.list.d/fifo.list", 0600), 0);
	auto_free char *home = xasprintf("%s/home", top), *image = xasprintf("%s/image", top);
	registries_from_files(home, image, NULL, &r);
	gives(&r, "n.test npm|p.test pip|a.test apt|index.c.test cargo|dl.c.test cargo",
	      "npm_config_registry=https://n.test/");
	registries_from_files("/nowhere", "/nowhere", NULL, &r);
	gives(&r, "", "");
	close(dir);
	if (fs_remove_tree(AT_FDCWD, top, &e))
		fail_msg("%s", e.msg);
}

// Tools of our own on the PATH: one answers, one hangs, one fails.
static void asking(void **state)
{
	(void)state;
	char top[] = "/tmp/skep-registries-XXXXXX";
	struct err e = {0};
	struct registries r;
	assert_non_null(mkdtemp(top));
	int dir = fs_open(AT_FDCWD, top, O_RDONLY | O_DIRECTORY, 0, &e);
	put(dir, "bin/npm", "#!/bin/sh\n[ \"$PWD\" = / ] && echo https://npm.test/\n");
	put(dir, "bin/go", "#!/bin/sh\necho https://no.test,direct\nexit 1\n");
	put(dir, "bin/uv", "#!/bin/sh\necho 'default: https://no.test'\n/bin/sleep 60\n");
	put(dir, "root/usr/bin/cargo",
	    "\x7f"
	    "ELF....registry not foundsparse+https://index.cargo.test/crates-iohttps://no.test");
	for (const char *const *p = (const char *const[]){"bin/npm", "bin/go", "bin/uv", NULL}; *p; p++)
		assert_int_equal(fchmodat(dir, *p, 0755, 0), 0);
	auto_free char *home = xasprintf("%s/home", top), *root = xasprintf("%s/root", top);
	auto_free char *path = xasprintf("PATH=%s/bin", top);
	char *env[] = {path, NULL};
	registries_read(home, root, env, &r);
	bool cargo_found = registries_settled(&r, REGISTRY_CARGO);
	assert_true(cargo_found);
	gives(&r, "npm.test npm|index.cargo.test cargo", "");
	close(dir);
	if (fs_remove_tree(AT_FDCWD, top, &e))
		fail_msg("%s", e.msg);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(npm),
		cmocka_unit_test(odd_urls),
		cmocka_unit_test(pip_and_uv),
		cmocka_unit_test(cargo),
		cmocka_unit_test(go),
		cmocka_unit_test(maven),
		cmocka_unit_test(apt),
		cmocka_unit_test(the_tools_own_files),
		cmocka_unit_test(variables),
		cmocka_unit_test(answers),
		cmocka_unit_test(files_of_more_tools),
		cmocka_unit_test(questions_only_for_what_is_open),
		cmocka_unit_test(a_whole_tree),
		cmocka_unit_test(asking),
	};
	return cmocka_run_group_tests_name("workspace/registries", tests, NULL, NULL);
}
