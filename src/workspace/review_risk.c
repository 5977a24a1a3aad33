// SPDX-License-Identifier: Apache-2.0
// What a person should look at twice before it lands. One table of names, and rules about content. A flag never says
// that something is bad: it says why it may be, in a sentence.
#include "workspace/review_risk.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "workspace/review_name.h"
#include <fnmatch.h>
#include <string.h>
#include <strings.h>

#define LONG_LINE 5000u
#define JSON_MAX (4u << 20)

#define RUNS "runs on the host"
// How a row is matched: a name anywhere, a directory's name anywhere, or the whole path.
enum where { NAME, DIR, PATH };
static const struct {
	enum where where;
	const char *glob, *flag, *reason;
} table[] = {
	{NAME, ".gitattributes", "git", "git runs filters and drivers that it names"},
	{NAME, ".gitmodules", "git", "git fetches and checks out what it names"},
	{NAME, ".gitconfig", "git", "git takes commands from it when it is included"},
	{NAME, ".lfsconfig", "git", "git-lfs sends credentials where it says"},
	{DIR, ".githooks", "hook", "git hooks run at commit, checkout and push"},
	{DIR, ".husky", "hook", "git hooks run at commit, checkout and push"},
	{NAME, "pre-commit", "hook", "git runs a file of this name where hooks are kept"},
	{NAME, "pre-push", "hook", "git runs a file of this name where hooks are kept"},
	{NAME, "pre-rebase", "hook", "git runs a file of this name where hooks are kept"},
	{NAME, "post-checkout", "hook", "git runs a file of this name where hooks are kept"},
	{NAME, "post-merge", "hook", "git runs a file of this name where hooks are kept"},
	{NAME, "post-commit", "hook", "git runs a file of this name where hooks are kept"},
	{NAME, "post-rewrite", "hook", "git runs a file of this name where hooks are kept"},
	{NAME, "commit-msg", "hook", "git runs a file of this name where hooks are kept"},
	{NAME, "prepare-commit-msg", "hook", "git runs a file of this name where hooks are kept"},
	{NAME, ".pre-commit-config.y*ml", "hook", "its hooks run at every commit"},
	{NAME, "lefthook.y*ml", "hook", "its hooks run at every commit"},
	{NAME, ".lintstagedrc*", "hook", "its commands run at every commit"},
	{PATH, ".github/workflows/*", "ci", "it runs in CI with the repository's credentials"},
	{PATH, ".github/actions/*", "ci", "it runs in CI with the repository's credentials"},
	{NAME, "action.y*ml", "ci", "it runs in CI with the repository's credentials"},
	{NAME, ".gitlab-ci*.y*ml", "ci", "it runs in CI with the repository's credentials"},
	{NAME, "bitbucket-pipelines.y*ml", "ci", "it runs in CI with the repository's credentials"},
	{NAME, "azure-pipelines*.y*ml", "ci", "it runs in CI with the repository's credentials"},
	{NAME, "Jenkinsfile*", "ci", "it runs in CI with the repository's credentials"},
	{NAME, ".travis.y*ml", "ci", "it runs in CI with the repository's credentials"},
	{NAME, ".drone.y*ml", "ci", "it runs in CI with the repository's credentials"},
	{NAME, "appveyor.y*ml", "ci", "it runs in CI with the repository's credentials"},
	{DIR, ".circleci", "ci", "it runs in CI with the repository's credentials"},
	{DIR, ".buildkite", "ci", "it runs in CI with the repository's credentials"},
	{DIR, ".woodpecker", "ci", "it runs in CI with the repository's credentials"},
	{NAME, "dependabot.y*ml", "ci", "it decides which updates are proposed and from where"},
	{NAME, "CODEOWNERS", "ci", "it decides who must agree to a change"},
	{NAME, "Makefile*", "build", "make runs its commands"},
	{NAME, "GNUmakefile", "build", "make runs its commands"},
	{NAME, "*.mk", "build", "make runs its commands"},
	{NAME, "CMakeLists.txt", "build", "cmake runs its commands while it configures"},
	{NAME, "*.cmake", "build", "cmake runs its commands while it configures"},
	{NAME, "meson.build", "build", "meson runs its commands while it configures"},
	{NAME, "configure", "build", "it runs before a build"},
	{NAME, "configure.ac", "build", "it becomes what runs before a build"},
	{NAME, "justfile", "build", "just runs its commands"},
	{NAME, ".justfile", "build", "just runs its commands"},
	{NAME, "Taskfile.y*ml", "build", "task runs its commands"},
	{NAME, "Rakefile", "build", "rake runs it"},
	{NAME, "Gemfile", "build", "bundler runs it"},
	{NAME, "*.gemspec", "build", "bundler runs it"},
	{NAME, "build.rs", "build", "cargo compiles and runs it during a build"},
	{PATH, "*.cargo/config*", "build", "cargo takes the linker and wrapper programs from it"},
	{NAME, "rust-toolchain*", "build", "rustup installs and runs the toolchain it names"},
	{NAME, "setup.py", "build", "pip runs it"},
	{NAME, "setup.cfg", "build", "setuptools takes commands and entry points from it"},
	{NAME, "conftest.py", "build", "pytest runs it before any test"},
	{NAME, "pytest.ini", "build", "pytest loads the plugins it names"},
	{NAME, "tox.ini", "build", "tox runs its commands"},
	{NAME, "noxfile.py", "build", "nox runs it"},
	{NAME, "sitecustomize.py", "build", "every python that has it on its path runs it"},
	{NAME, "usercustomize.py", "build", "every python that has it on its path runs it"},
	{NAME, "*.pth", "build", "python runs its import lines at every start"},
	{NAME, "pyvenv.cfg", "build", "it decides which python runs"},
	{NAME, "*.gradle", "build", "gradle runs it"},
	{NAME, "*.gradle.kts", "build", "gradle runs it"},
	{NAME, "gradle-wrapper.properties", "build", "the wrapper downloads and runs what it names"},
	{NAME, "gradle.properties", "build", "it sets the options of the Java machine that builds"},
	{NAME, "gradlew*", "build", "it is run to build"},
	{NAME, "mvnw*", "build", "it is run to build"},
	{DIR, ".mvn", "build", "maven loads extensions and options from it"},
	{NAME, "pom.xml", "build", "maven runs the plugins it names"},
	{NAME, "build.sbt", "build", "sbt runs it"},
	{NAME, "mix.exs", "build", "mix runs it"},
	{NAME, "Package.swift", "build", "swift runs it"},
	{NAME, "*.bazelrc", "build", "bazel takes options from it"},
	{NAME, "WORKSPACE*", "build", "bazel fetches and runs what it names"},
	{NAME, "MODULE.bazel", "build", "bazel fetches and runs what it names"},
	{NAME, "Directory.Build.*", "build", "msbuild runs its targets in every project below"},
	{NAME, "*.csproj", "build", "msbuild runs its targets"},
	{NAME, "nuget.config", "build", "it decides where packages come from"},
	{NAME, "binding.gyp", "build", "npm builds and runs it at install"},
	{NAME, "webpack.config.*", "build", "node runs it during a build"},
	{NAME, "vite.config.*", "build", "node runs it during a build"},
	{NAME, "rollup.config.*", "build", "node runs it during a build"},
	{NAME, "jest.config.*", "build", "node runs it during tests"},
	{NAME, "vitest.config.*", "build", "node runs it during tests"},
	{NAME, "babel.config.*", "build", "node runs it during a build"},
	{NAME, "eslint.config.*", "build", "editors and node run it"},
	{NAME, ".eslintrc*", "build", "editors and node run it"},
	{NAME, "prettier.config.*", "build", "editors and node run it"},
	{NAME, ".npmrc", "registry", "it decides where packages come from and who gets the token"},
	{NAME, ".yarnrc*", "registry", "it decides where packages come from and which yarn runs"},
	{NAME, ".pnpmfile.*js", "registry", "pnpm runs it at install"},
	{NAME, ".pypirc", "registry", "it decides where packages go and come from"},
	{NAME, "pip.conf", "registry", "it decides where packages come from"},
	{NAME, "requirements*.txt", "registry", "pip installs and runs what it names"},
	{NAME, "package-lock.json", "lock", "it decides which code is installed, and from where"},
	{NAME, "npm-shrinkwrap.json", "lock", "it decides which code is installed, and from where"},
	{NAME, "yarn.lock", "lock", "it decides which code is installed, and from where"},
	{NAME, "pnpm-lock.yaml", "lock", "it decides which code is installed, and from where"},
	{NAME, "bun.lock*", "lock", "it decides which code is installed, and from where"},
	{NAME, "Cargo.lock", "lock", "it decides which code is built, and from where"},
	{NAME, "poetry.lock", "lock", "it decides which code is installed, and from where"},
	{NAME, "uv.lock", "lock", "it decides which code is installed, and from where"},
	{NAME, "pdm.lock", "lock", "it decides which code is installed, and from where"},
	{NAME, "Pipfile.lock", "lock", "it decides which code is installed, and from where"},
	{NAME, "Gemfile.lock", "lock", "it decides which code is installed, and from where"},
	{NAME, "composer.lock", "lock", "it decides which code is installed, and from where"},
	{NAME, "go.sum", "lock", "it decides which code is trusted"},
	{NAME, "flake.lock", "lock", "it decides which code is built"},
	{NAME, "flake.nix", "shell", "nix and direnv run it on entering the directory"},
	{NAME, "shell.nix", "shell", "nix runs it on entering the directory"},
	{NAME, ".envrc", "shell", "direnv runs it on entering the directory"},
	{NAME, ".env*", "shell", "tools put its values into their environment"},
	{NAME, ".autoenv*", "shell", "it runs on entering the directory"},
	{NAME, "mise.toml", "shell", "mise runs tools and hooks it names"},
	{NAME, ".mise*.toml", "shell", "mise runs tools and hooks it names"},
	{NAME, ".tool-versions", "shell", "it decides which programs run"},
	{NAME, ".nvmrc", "shell", "it decides which node runs"},
	{NAME, ".bash*", "shell", "a shell " RUNS " reads it"},
	{NAME, ".zsh*", "shell", "a shell " RUNS " reads it"},
	{NAME, ".zprofile", "shell", "a shell " RUNS " reads it"},
	{NAME, ".profile", "shell", "a shell " RUNS " reads it"},
	{NAME, ".inputrc", "shell", "it can bind keys to commands"},
	{NAME, ".vimrc", "editor", "the editor runs its commands"},
	{NAME, ".exrc", "editor", "the editor runs its commands"},
	{NAME, ".nvim.lua", "editor", "the editor runs its commands"},
	{NAME, ".dir-locals.el", "editor", "the editor runs its commands"},
	{DIR, ".vscode", "editor", "the editor runs tasks and settings of it"},
	{DIR, ".idea", "editor", "the editor runs tasks and settings of it"},
	{DIR, ".fleet", "editor", "the editor runs tasks and settings of it"},
	{DIR, ".zed", "editor", "the editor runs tasks and settings of it"},
	{NAME, "*.code-workspace", "editor", "the editor runs tasks and settings of it"},
	{NAME, "*.sublime-project", "editor", "the editor runs build systems of it"},
	{NAME, ".mcp.json", "agent", "agents start the programs it names on the host"},
	{NAME, "mcp.json", "agent", "agents start the programs it names on the host"},
	{DIR, ".claude", "agent", "an agent on the host takes hooks, permissions and instructions from it"},
	{DIR, ".cursor", "agent", "an agent on the host takes permissions and instructions from it"},
	{DIR, ".codex", "agent", "an agent on the host takes permissions and instructions from it"},
	{DIR, ".gemini", "agent", "an agent on the host takes permissions and instructions from it"},
	{DIR, ".windsurf", "agent", "an agent on the host takes permissions and instructions from it"},
	{DIR, ".continue", "agent", "an agent on the host takes permissions and instructions from it"},
	{DIR, ".aider*", "agent", "an agent on the host takes commands from it"},
	{NAME, ".aider.conf.yml", "agent", "an agent on the host takes commands from it"},
	{NAME, ".cursorrules", "agent", "an agent on the host follows it"},
	{NAME, ".windsurfrules", "agent", "an agent on the host follows it"},
	{NAME, ".clinerules", "agent", "an agent on the host follows it"},
	{NAME, "copilot-instructions.md", "agent", "an agent on the host follows it"},
	{NAME, "AGENTS*.md", "agent", "an agent on the host follows it"},
	{NAME, "CLAUDE*.md", "agent", "an agent on the host follows it"},
	{NAME, "GEMINI*.md", "agent", "an agent on the host follows it"},
	{NAME, "SKILL.md", "agent", "an agent on the host follows it"},
	{NAME, ".skep.y*ml", "skep", "skep takes image, setup commands and policy from it"},
	{DIR, ".devcontainer", "container", "editors build and run it on the host"},
	{NAME, "devcontainer.json", "container", "editors run its initializeCommand on the host"},
	{NAME, "Dockerfile*", "container", "docker build runs its commands"},
	{NAME, "*.dockerfile", "container", "docker build runs its commands"},
	{NAME, "Containerfile*", "container", "a build runs its commands"},
	{NAME, "docker-compose*.y*ml", "container", "compose mounts and runs what it says"},
	{NAME, "compose*.y*ml", "container", "compose mounts and runs what it says"},
	{NAME, "Vagrantfile", "container", "vagrant runs it"},
	{NAME, "*.tf", "deploy", "terraform changes what runs elsewhere"},
	{NAME, "Procfile", "deploy", "its commands run the project"},
	{NAME, "*.service", "deploy", "systemd runs it where it is installed"},
	{NAME, "*.desktop", "deploy", "a desktop runs it at a click"},
};

static bool in_dir(const char *path, const char *glob)
{
	auto_free char *copy = xstrdup(path);
	for (char *p = copy, *slash; (slash = strchr(p, '/')); p = slash + 1) {
		*slash = 0;
		if (!fnmatch(glob, p, FNM_CASEFOLD))
			return true;
	}
	return false;
}

const char *risk_of_path(const char *path, size_t *at, const char **out_reason)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	for (; *at < countof(table); (*at)++) {
		const char *glob = table[*at].glob;
		bool hit = table[*at].where == NAME  ? !fnmatch(glob, name, FNM_CASEFOLD)
			   : table[*at].where == DIR ? in_dir(path, glob)
						     : !fnmatch(glob, path, FNM_CASEFOLD);
		if (hit) {
			*out_reason = table[*at].reason;
			return table[(*at)++].flag;
		}
	}
	return NULL;
}

enum risk_link risk_of_link(const char *path, const char *target, size_t n)
{
	auto_free char *t = xstrndup(target, n);
	int depth = 0;
	if (!*t || *t == '/')
		return RISK_LINK_OUT;
	if (review_path_has_git(t))
		return RISK_LINK_GIT;
	for (const char *p = path; (p = strchr(p, '/')); p++)
		depth++;
	for (char *p = t; *p;) {
		size_t len = strcspn(p, "/");
		if (len == 2 && p[0] == '.' && p[1] == '.') {
			if (--depth < 0)
				return RISK_LINK_OUT;
		} else if (len && !(len == 1 && p[0] == '.')) {
			depth++;
		}
		p += len;
		p += *p == '/';
	}
	return RISK_LINK_IN;
}

static void print_member(struct buf *b, const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);
	buf_fmt(b, "%s=", key);
	if (v)
		json_print(b, v, 0);
}

// What npm and the hook managers run.
static bool read_scripts(const char *p, size_t n, struct buf *out)
{
	static const char *const keys[] = {"scripts",	       "bin",	     "husky",  "lint-staged",
					   "simple-git-hooks", "pre-commit", "gypfile"};
	struct err e;
	if (!n)
		return true;
	auto_json json_t *o = n > JSON_MAX ? NULL : json_read(p, n, &e);
	if (!o)
		return false;
	for (size_t i = 0; i < countof(keys); i++)
		print_member(out, o, keys[i]);
	return true;
}

bool risk_scripts_differ(const char *old, size_t old_n, const char *now, size_t now_n)
{
	auto_buf struct buf a = BUF_INIT(JSON_MAX * 4), b = BUF_INIT(JSON_MAX * 4);
	if (!read_scripts(old, old_n, &a) || !read_scripts(now, now_n, &b))
		return true; // what can not be read is not known to be the same
	return a.n != b.n || memcmp(buf_cstr(&a), buf_cstr(&b), a.n);
}

static void read_sections(const char *p, size_t n, struct buf *out)
{
	static const char *const wanted[] = {"build-system",	  "hook",	"script",
					     "entry-points",	  "tool.hatch", "tool.setuptools",
					     "tool.poetry.build", "tool.pytest"};
	bool in = false;
	for (struct str rest = {p, n}, line; str_next(&rest, '\n', &line);) {
		auto_free char *l = xstrndup(line.p, line.n);
		for (size_t i = 0; l[0] == '[' && i < countof(wanted); i++)
			if ((in = strstr(l, wanted[i]) != NULL))
				break;
		if (in)
			buf_fmt(out, "%s\n", l);
	}
}

bool risk_build_sections_differ(const char *old, size_t old_n, const char *now, size_t now_n)
{
	auto_buf struct buf a = BUF_INIT(LINES_MAX * 2u), b = BUF_INIT(LINES_MAX * 2u);
	read_sections(old, old_n, &a);
	read_sections(now, now_n, &b);
	return a.n != b.n || memcmp(buf_cstr(&a), buf_cstr(&b), a.n);
}

void risk_of_text(const char *p, size_t n, struct risk_text *out)
{
	size_t line_from = 0;
	for (size_t at = 0; at < n;) {
		size_t from = at;
		unsigned cp = review_next_cp(p, n, &at);
		enum review_hidden h = cp < 0x80 ? HIDDEN_NONE : review_hidden(cp);
		// a mark at the very start of a file is an encoding's, not a trick
		out->bidi += h == HIDDEN_BIDI;
		out->invisible += h == HIDDEN_INVISIBLE && !(cp == 0xfeff && !from);
		bool end_of_line = cp == '\r' && at < n && p[at] == '\n';
		out->control += (cp < 0x20 && cp != '\n' && cp != '\t' && cp != '\f' && !end_of_line) || cp == 0x7f ||
				(cp >= 0x80 && cp < 0xa0);
		if (cp == '\n' || at >= n) {
			size_t len = at - line_from;
			out->longest = len > out->longest ? len : out->longest;
			if (!out->secret && len < LONG_LINE * 4)
				out->secret = risk_secret(p + line_from, len);
			line_from = at;
		}
	}
}

static void judge_text(struct change *c, const struct risk_text *t)
{
	if (t->bidi)
		change_add_risk(c, "bidi",
				"%zu characters turn the direction of text: it may read otherwise than it runs",
				t->bidi);
	if (t->invisible)
		change_add_risk(c, "invisible", "%zu characters show nothing: names that look alike may differ",
				t->invisible);
	if (t->control)
		change_add_risk(c, "control", "%zu control characters: a terminal may show something else", t->control);
	if (t->longest > LONG_LINE)
		change_add_risk(c, "long-line", "a line of %zu bytes can not be read: minified or packed", t->longest);
	if (t->secret)
		change_add_risk(c, "secret", "it looks like it holds %s", t->secret);
}

static void judge_new_lines(struct change *c, const struct texts *t)
{
	struct lines s;
	struct risk_text found = {0};
	if (c->whole && !c->from)
		risk_of_text(t->s, t->s_n, &found);
	lines_init(&s, t->s, t->s_n);
	for (size_t i = 0; i < c->hunks.n && !c->whole; i++) {
		size_t n;
		if (c->hunks.v[i].kind != HUNK_LINES || c->hunks.v[i].state == HUNK_THERE)
			continue;
		const char *p = lines_get(&s, c->hunks.v[i].new_at, c->hunks.v[i].new_n, &n);
		risk_of_text(p, n, &found);
	}
	lines_done(&s);
	judge_text(c, &found);
}

static void judge_name(struct change *c)
{
	bool odd = false, hidden = false;
	size_t n = strlen(c->path);
	for (const char *p = c->path; *p;) {
		size_t len = strcspn(p, "/");
		odd |= review_name_is_odd(p, len);
		p += len;
		p += *p == '/';
	}
	for (size_t at = 0; at < n;) {
		unsigned cp = review_next_cp(c->path, n, &at);
		hidden |= cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || review_hidden(cp);
	}
	if (hidden)
		change_add_risk(c, "name", "its name holds characters that show nothing or steer a terminal");
	else if (odd || !str_is_utf8(c->path, n))
		change_add_risk(c, "name", "its name means another path, or none, on other systems");
}

static void judge_path(struct change *c, const struct texts *t)
{
	const char *flag, *reason, *last = "";
	const char *slash = strrchr(c->path, '/'), *name = slash ? slash + 1 : c->path;
	for (size_t at = 0; (flag = risk_of_path(c->path, &at, &reason));) {
		if (strcmp(flag, last))
			change_add_risk(c, flag, "%s", reason);
		last = flag;
	}
	if (!strcasecmp(name, "package.json") && risk_scripts_differ(t->p, t->p_n, t->s, t->s_n))
		change_add_risk(c, "build", "npm runs its scripts, and they change");
	if (!strcasecmp(name, "pyproject.toml") && risk_build_sections_differ(t->p, t->p_n, t->s, t->s_n))
		change_add_risk(c, "build", "build tools run what its build sections name, and they change");
}

// HEAD, refs and objects side by side are a repository without a .git: git in there would take its config and hooks.
static void judge_bare(struct review *r, struct change *c)
{
	const char *slash = strrchr(c->path, '/'), *name = slash ? slash + 1 : c->path;
	if (strcasecmp(name, "HEAD") && strcasecmp(name, "config"))
		return;
	auto_free char *objects = xasprintf("%.*sobjects", (int)(name - c->path), c->path);
	auto_free char *refs = xasprintf("%.*srefs", (int)(name - c->path), c->path);
	size_t i = review_copy_lower(&r->copy, objects), k = review_copy_lower(&r->copy, refs);
	bool has_objects = i < r->copy.n && !strncmp(r->copy.v[i].path, objects, strlen(objects));
	bool has_refs = k < r->copy.n && !strncmp(r->copy.v[k].path, refs, strlen(refs));
	if (has_objects || has_refs)
		change_add_risk(c, "git",
				"its directory is laid out as a bare git repository, whose config and hooks git obeys");
}

static void judge_link(struct change *c, const struct texts *t)
{
	switch (risk_of_link(c->path, t->s, t->s_n)) {
	case RISK_LINK_OUT:
		change_add_risk(c, "link", "the link leaves the directory");
		break;
	case RISK_LINK_GIT:
		change_add_risk(c, "link", "the link points into git's own data");
		break;
	case RISK_LINK_IN:
		break;
	}
}

static int judge(struct review *r, struct change *c, struct err *e)
{
	struct texts t;
	judge_name(c);
	if (c->state == STATE_LOST || c->s.type == SIDE_DIR)
		return 0;
	int rc = texts_load(r, c, &t, e);
	if (!rc) {
		judge_path(c, &t);
		judge_bare(r, c);
		if (c->s.type == SIDE_LINK)
			judge_link(c, &t);
		else if (c->unseen)
			change_add_risk(c, "unseen", "it is too long to be kept: nobody can look at it");
		else if (c->binary)
			change_add_risk(c, "binary", "its content is not text");
		else
			judge_new_lines(c, &t);
		const struct side *old = c->from ? &c->from->p : &c->p;
		if (c->s.exec && !(old->type == SIDE_FILE && old->exec))
			change_add_risk(c, "executable", "it becomes executable");
	}
	texts_done(&t);
	return rc;
}

int review_risks(struct review *r, struct err *e)
{
	for (size_t i = 0; i < r->n; i++) {
		struct change *c = r->v[i];
		if (c->s.type == SIDE_NONE || c->hidden)
			continue; // what goes is trusted by nobody
		if (judge(r, c, e))
			return -1;
	}
	return 0;
}
